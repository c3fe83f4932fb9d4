#include "textflag.h"

// func prefetch(base unsafe.Pointer, at *uint32, n int, shift uint)
TEXT ·prefetch(SB), NOSPLIT, $0-32
	MOVQ base+0(FP), AX
	MOVQ at+8(FP), BX
	MOVQ n+16(FP), SI
	MOVQ shift+24(FP), CX
	LEAQ (BX)(SI*4), SI
	JMP  test

next:
	MOVL (BX), DX
	SHLQ CX, DX
	PREFETCHT0 (AX)(DX*1)
	ADDQ $4, BX

test:
	CMPQ BX, SI
	JLT  next
	RET

// func prefetchPairs(at *unsafe.Pointer, n int)
TEXT ·prefetchPairs(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), BX
	MOVQ n+8(FP), CX
	LEAQ (BX)(CX*8), CX
	JMP  test

next:
	MOVQ (BX), DX
	PREFETCHT0 (DX)
	PREFETCHT0 64(DX)
	ADDQ $8, BX

test:
	CMPQ BX, CX
	JLT  next
	RET
