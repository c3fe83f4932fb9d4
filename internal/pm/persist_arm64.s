#include "textflag.h"

// func dataLine() uintptr
TEXT ·dataLine(SB), NOSPLIT, $0-8
	MRS  CTR_EL0, R0
	UBFX $16, R0, $4, R0 // DminLine: the logarithm of the number of words of 4 bytes
	MOVD $4, R1
	LSL  R0, R1, R1
	MOVD R1, ret+0(FP)
	RET

// func cvap(first unsafe.Pointer, lines, line uintptr)
TEXT ·cvap(SB), NOSPLIT, $0-24
	MOVD first+0(FP), R0
	MOVD lines+8(FP), R1
	MOVD line+16(FP), R2
	CBZ  R1, done

next:
	DC   CVAP, R0
	ADD  R2, R0, R0
	SUB  $1, R1, R1
	CBNZ R1, next

done:
	DSB $15 // SY
	RET

// func storeFence()
TEXT ·storeFence(SB), NOSPLIT, $0-0
	DSB $14 // ST
	RET
