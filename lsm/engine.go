package lsm

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/inorder"
)

// engine is what a machine does beside [core.Engine].
type engine interface {
	core.Engine
	// bound is how many entries there are at most, and how many there were when last counted.
	bound() (most, counted uint64)
	// base is the number of entries that the newest level has at most.
	base() int
	// levels are the sizes of the levels, from the newest on. The counters have been read.
	levels() []int
	// bytes is the size of the memory in use, with what is kept for the next merges; held is
	// that of what only snapshots have.
	bytes() (used, held int)
	// cleanup merges all levels. The counters have been read.
	cleanup() error
	// trim gives back what is kept.
	trim() error
}

// newEngine makes the engine for a device: Go on the host, kernels on any other. Keys become unsigned numbers in order by
// exclusive or with flip. base is the size of the newest level; 0: what suits the device.
func newEngine(dev device.Device, w batch.Widths, flip uint64, base int) (engine, *core.Leases, error) {
	p := &pool{Layout: inorder.Layout{Key: w.Key, Val: w.Val}, base: base, spare: core.Spare[*level]{Dev: dev, Most: mostSpare}}
	host, ok := dev.(device.Host)
	if base == 0 {
		p.base = hostBase
		if !ok {
			p.base = gpuBase
		}
	}
	if !ok {
		return newGPUEngine(dev, w, p, flip)
	}
	open, err := cpu.Choose(w, newCPUEngine[uint32, uint32], newCPUEngine[uint32, uint64],
		newCPUEngine[uint64, uint32], newCPUEngine[uint64, uint64], nil, nil)
	if err != nil {
		return nil, nil, err
	}
	return open(host, p, flip)
}
