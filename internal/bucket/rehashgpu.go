package bucket

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// rehashBytes is how much of the old table a launch rehashes: between two of them the
// context is asked.
const rehashBytes = 1 << 30

// Parts is a structure's generation, which embeds a [Generation].
type Parts interface {
	core.Parts
	Memory() *core.Lines
	OpenLocks(s *device.Stream) error
}

// Start makes a table's first generation the current one of an engine, or frees it.
func Start(e *gpu.Engine, first Parts) (*core.Leases, error) {
	if err := first.OpenLocks(e.Stream); err != nil {
		return nil, errors.Join(err, first.Free())
	}
	return e.Start(first)
}

// RehashGPU moves the pairs of a table to another, which allocate makes. launch submits
// copying those of lines [lo,hi), the extra line included, to the other, and adds the
// number of those that find no slot to lost: it gives up when there are any.
func RehashGPU[G Parts](ctx context.Context, e *gpu.Engine, allocate func() (G, error),
	launch func(s *device.Stream, from, to G, lo, hi uint32, lost device.Ptr) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	to, err := allocate()
	if err != nil {
		return err
	}
	_, err = e.Move(ctx, to, func(s *device.Stream, parts core.Parts, lost device.Ptr) error {
		if err := to.OpenLocks(s); err != nil {
			return err
		}
		from := parts.(G)
		for lo, hi, lines := uint32(0), uint32(0), from.Memory().Units(); lo < lines; lo = hi {
			hi = min(lines, lo+rehashBytes/core.LineBytes)
			if err := launch(s, from, to, lo, hi, lost); err != nil {
				return err
			}
			n, err := e.Read(context.WithoutCancel(ctx), gpu.WordResult)
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case n > 0:
				return crowded(to.Memory().Units() - 1)
			}
		}
		return nil
	})
	return err
}
