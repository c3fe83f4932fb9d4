#include "textflag.h"

// func prefetch(at *unsafe.Pointer, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), BX
	MOVQ n+8(FP), CX
	LEAQ (BX)(CX*8), CX
	JMP  test

next:
	MOVQ (BX), DX
	PREFETCHT0 (DX)
	ADDQ $8, BX

test:
	CMPQ BX, CX
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
