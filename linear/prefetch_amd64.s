#include "textflag.h"

// func prefetch(base unsafe.Pointer, sectors *uint32, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ base+0(FP), AX
	MOVQ sectors+8(FP), BX
	MOVQ n+16(FP), CX
	LEAQ (BX)(CX*4), CX
	JMP  test

next:
	MOVL (BX), DX
	SHLQ $5, DX
	PREFETCHT0 (AX)(DX*1)
	ADDQ $4, BX

test:
	CMPQ BX, CX
	JLT  next
	RET
