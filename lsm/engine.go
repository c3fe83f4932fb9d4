package lsm

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/inorder"
)

// engine has the methods that the policy calls in addition to those of [core.Engine].
type engine interface {
	core.Engine
	// bound returns an upper bound on the number of entries, and their number when last counted.
	bound() (maxUsed, counted uint64)
	// base returns the capacity of the newest level in entries.
	base() int
	// levels returns the number of entries of each level, from the newest on. The counters must
	// have been read since the last change.
	levels() []int
	// bytes returns the size of the map's memory, including memory kept for the next merges. held
	// is the size of memory that only snapshots use.
	bytes() (used, held int)
	// cleanup merges all levels. The counters must have been read since the last change.
	cleanup() error
	// trim frees the memory kept for the next merges.
	trim() error
}

// newEngine makes the engine for a device: Go code on the host, kernels elsewhere. An exclusive or
// with flip converts keys to stored form. base is the capacity of the newest level, or 0 for the
// default of the device.
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
