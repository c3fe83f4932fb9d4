package sorted

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// engine is what a machine does beside [core.Engine].
type engine interface {
	core.Engine
	// bytes is the size of the memory in use, with what is kept for the next merge.
	bytes() int
	// trim gives back what is kept.
	trim() error
}

// newEngine makes the engine for a device. Keys become unsigned numbers in order by
// exclusive or with flip.
func newEngine(dev device.Device, w batch.Widths, flip uint64) (engine, *core.Leases, error) {
	host, ok := dev.(device.Host)
	if !ok {
		return nil, nil, device.ErrNoKernels
	}
	p := &pool{dev: dev, key: w.Key, val: w.Val}
	open, err := cpu.Choose(w, newCPUEngine[uint32, uint32], newCPUEngine[uint32, uint64],
		newCPUEngine[uint64, uint32], newCPUEngine[uint64, uint64], nil, nil)
	if err != nil {
		return nil, nil, err
	}
	return open(host, p, flip)
}

// bytes is the size of a generation, and of the spare one.
func (p *pool) bytes(now *generation) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := now.buf.Size
	if p.spare != nil {
		n += p.spare.buf.Size
	}
	return n
}
