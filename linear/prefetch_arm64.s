#include "textflag.h"

// func prefetch(base unsafe.Pointer, sectors *uint32, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVD base+0(FP), R0
	MOVD sectors+8(FP), R1
	MOVD n+16(FP), R2
	CBZ  R2, done

next:
	MOVWU.P 4(R1), R3
	ADD  R3<<5, R0, R4
	PRFM (R4), PLDL1KEEP
	SUB  $1, R2
	CBNZ R2, next

done:
	RET
