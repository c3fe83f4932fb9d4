package lsm

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/inorder"
)

// engine is what the policy requires of an engine beside [core.Engine].
type engine interface {
	core.Engine
	// bound returns the maximum number of entries, and their number when last counted.
	bound() (maxUsed, counted uint64)
	// base returns the capacity of the newest level in entries.
	base() int
	// levels returns the sizes of the levels, from the newest on. The counters have been read.
	levels() []int
	// bytes returns the size of the memory in use, including what is kept for the next merges. held
	// is the size of what only snapshots have.
	bytes() (used, held int)
	// cleanup merges all levels. The counters have been read.
	cleanup() error
	// trim frees the memory that is kept.
	trim() error
}

// newEngine makes the engine for a device: Go on the host, kernels on any other. An exclusive or
// with flip makes keys unsigned numbers of the same order. base is the capacity of the newest
// level, or 0 for the default of the device.
func newEngine(dev device.Device, w batch.Widths, flip uint64, base int) (engine, *core.Leases, error) {
	p := &pool{Layout: inorder.Layout{Key: w.Key, Val: w.Val}, base: base, spare: core.Spare[*level]{Dev: dev, MaxKept: maxSpare}}
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
