package pm

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// instructionsOfCPU returns DC CVAP (to the point of persistence), which CPUs support since
// Armv8.2.
func instructionsOfCPU() instructions {
	if !cpu.ARM64.HasDCPOP {
		return instructions{name: "it has no DC CVAP (FEAT_DPB)", fence: storeFence}
	}
	return instructions{"DC CVAP", dataLine(), cvap, storeFence}
}

// dataLine returns the smallest line size of all data caches, in bytes.
func dataLine() uintptr

// cvap writes back lines and waits for the write-backs. A later fence could not wait for them,
// since the barrier only works for its own core, and a scheduler that moves the goroutine issues
// none.
//
//go:noescape
func cvap(first unsafe.Pointer, lines, line uintptr)

// storeFence is DSB ST.
func storeFence()
