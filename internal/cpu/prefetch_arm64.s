#include "textflag.h"

// func prefetch(base unsafe.Pointer, at *uint32, n int, shift uint)
TEXT ·prefetch(SB), NOSPLIT, $0-32
	MOVD base+0(FP), R0
	MOVD at+8(FP), R1
	MOVD n+16(FP), R2
	MOVD shift+24(FP), R5
	CBZ  R2, done

next:
	MOVWU.P 4(R1), R3
	LSL  R5, R3, R3
	ADD  R3, R0, R4
	PRFM (R4), PLDL1KEEP
	SUB  $1, R2
	CBNZ R2, next

done:
	RET

// func prefetchPairs(at *unsafe.Pointer, n int)
TEXT ·prefetchPairs(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD n+8(FP), R1
	CBZ  R1, done

next:
	MOVD.P 8(R0), R2
	PRFM (R2), PLDL1KEEP
	ADD  $64, R2
	PRFM (R2), PLDL1KEEP
	SUB  $1, R1
	CBNZ R1, next

done:
	RET
