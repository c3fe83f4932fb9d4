package pm

import "unsafe"

// instructionsOfCPU returns the best instructions of the CPU. CLWB keeps lines in the caches,
// CLFLUSHOPT removes them, and CLFLUSH also waits for each line.
func instructionsOfCPU() instructions {
	const line = 64 // same on all CPUs so far
	var features uint32
	if highest, _, _, _ := cpuid(0, 0); highest >= 7 {
		_, features, _, _ = cpuid(7, 0)
	}
	switch {
	case features>>24&1 != 0:
		return instructions{"CLWB", line, clwb, storeFence}
	case features>>23&1 != 0:
		return instructions{"CLFLUSHOPT", line, clflushopt, storeFence}
	}
	return instructions{"CLFLUSH", line, clflush, storeFence} // part of SSE2, which Go requires
}

func cpuid(leaf, part uint32) (eax, ebx, ecx, edx uint32)

//go:noescape
func clwb(first unsafe.Pointer, lines, line uintptr)

//go:noescape
func clflushopt(first unsafe.Pointer, lines, line uintptr)

//go:noescape
func clflush(first unsafe.Pointer, lines, line uintptr)

// storeFence is SFENCE.
func storeFence()
