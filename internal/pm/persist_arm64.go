package pm

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// instructionsOfCPU has DC CVAP, to the point of persistence, since Armv8.2.
func instructionsOfCPU() instructions {
	if !cpu.ARM64.HasDCPOP {
		return instructions{name: "it has no DC CVAP (FEAT_DPB)", fence: storeFence}
	}
	return instructions{"DC CVAP", dataLine(), cvap, storeFence}
}

// dataLine is the size of the smallest line of all data caches, in bytes.
func dataLine() uintptr

// cvap waits for what it has begun: the barrier that does counts for its own core
// only, and a scheduler has none for it.
//
//go:noescape
func cvap(first unsafe.Pointer, lines, line uintptr)

// storeFence is DSB ST.
func storeFence()
