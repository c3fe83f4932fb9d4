package sorted

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
	// bound returns an upper bound on the number of pairs, and their number when last counted.
	bound() (maxPairs, counted uint64)
	// bytes returns the size of the map's memory, including memory kept for the next merge. held is
	// the size of memory that only snapshots use.
	bytes() (used, held int)
	// trim frees the memory kept for the next merge.
	trim() error
}

// newEngine makes the engine for a device: Go code on the host, kernels elsewhere. An exclusive or
// with flip converts keys to stored form.
func newEngine(dev device.Device, w batch.Widths, flip uint64) (engine, *core.Leases, error) {
	p := &pool{Layout: inorder.Layout{Key: w.Key, Val: w.Val}, spare: core.Spare[*generation]{Dev: dev, MaxKept: 1}}
	host, ok := dev.(device.Host)
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

// bytes implements engine. It counts generation now and the spare memory as used, and all other
// generations as held.
func (p *pool) bytes(now *generation) (used, held int) {
	kept, all := p.spare.Bytes()
	used = now.buf.Size + kept
	return used, all - used
}
