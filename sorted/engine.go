package sorted

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
	// bound returns the maximum number of pairs, and their number when last counted.
	bound() (maxPairs, counted uint64)
	// bytes returns the size of the memory in use, including what is kept for the next merge. held
	// is the size of what only snapshots have.
	bytes() (used, held int)
	// trim frees the memory that is kept.
	trim() error
}

// newEngine makes the engine for a device: Go on the host, kernels on any other. An exclusive or
// with flip makes keys unsigned numbers of the same order.
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

// bytes returns the size of a generation and the spare one, and the size of all others.
func (p *pool) bytes(now *generation) (used, held int) {
	kept, all := p.spare.Bytes()
	used = now.buf.Size + kept
	return used, all - used
}
