package pm

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// instructionsOfCPU returns DC CVAP (to the point of persistence), which CPUs have since Armv8.2.
func instructionsOfCPU() instructions {
	if !cpu.ARM64.HasDCPOP {
		return instructions{name: "it has no DC CVAP (FEAT_DPB)", fence: storeFence}
	}
	return instructions{"DC CVAP", dataLine(), cvap, storeFence}
}

// dataLine returns the size in bytes of the smallest line of all data caches.
func dataLine() uintptr

// cvap waits for the write-backs that it starts. The barrier that does so works for its own core
// only, and a scheduler issues none.
//
//go:noescape
func cvap(first unsafe.Pointer, lines, line uintptr)

// storeFence is DSB ST.
func storeFence()
