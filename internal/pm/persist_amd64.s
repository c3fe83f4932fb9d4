#include "textflag.h"

// EACH_LINE is the body of a function (first unsafe.Pointer, lines, line uintptr).
#define EACH_LINE(instruction) \
	MOVQ first+0(FP), AX; \
	MOVQ lines+8(FP), CX; \
	MOVQ line+16(FP), DX; \
	TESTQ CX, CX; \
	JEQ done; \
next: \
	instruction (AX); \
	ADDQ DX, AX; \
	DECQ CX; \
	JNE next; \
done: \
	RET

// func cpuid(leaf, part uint32) (eax, ebx, ecx, edx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL part+4(FP), CX
	CPUID
	MOVL AX, eax+8(FP)
	MOVL BX, ebx+12(FP)
	MOVL CX, ecx+16(FP)
	MOVL DX, edx+20(FP)
	RET

// func clwb(first unsafe.Pointer, lines, line uintptr)
TEXT ·clwb(SB), NOSPLIT, $0-24
	EACH_LINE(CLWB)

// func clflushopt(first unsafe.Pointer, lines, line uintptr)
TEXT ·clflushopt(SB), NOSPLIT, $0-24
	EACH_LINE(CLFLUSHOPT)

// func clflush(first unsafe.Pointer, lines, line uintptr)
TEXT ·clflush(SB), NOSPLIT, $0-24
	EACH_LINE(CLFLUSH)

// func storeFence()
TEXT ·storeFence(SB), NOSPLIT, $0-0
	SFENCE
	RET
