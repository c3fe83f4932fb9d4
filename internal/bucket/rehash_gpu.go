package bucket

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
)

// rehashBytes is the size of the part of the old table that one launch rehashes. The context is
// checked between launches.
const rehashBytes = 1 << 30

// Parts is the interface of a structure's generation, which embeds a [Generation].
type Parts interface {
	core.Parts
	Memory() *core.Lines
	InitLocks(s *device.Stream) error
}

// Kernels is the interface of the kernels that a structure adds to a GPU engine.
type Kernels interface {
	gpu.Structure
	// Load loads the structure's kernels, and stores in order those that resolve duplicates.
	Load(dev device.Device, order *gpu.OrderKernels) error
}

// OpenGPU opens an engine for kernels that move keys. It allocates the first generation and makes
// it the current one. After an error it has freed the engine and the generation.
func OpenGPU[G Parts](e *gpu.Engine, dev device.Device, w batch.Widths, k Kernels, allocate func() (G, error)) (_ *core.Leases, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	e.MovesPairs = true
	if err := k.Load(dev, &e.Order); err != nil {
		return nil, err
	}
	if err := e.OpenEngine(dev, w, core.LineBytes/w.Slot, k); err != nil {
		return nil, err
	}
	first, err := allocate()
	if err != nil {
		return nil, err
	}
	if err := first.InitLocks(e.Stream); err != nil {
		return nil, errors.Join(err, first.Free())
	}
	return e.Start(first)
}

// RehashGPU moves the pairs of a table to a new table made by allocate. launch submits a kernel
// that copies the pairs of lines [lo,hi). The lines include the extra line. The kernel adds the
// number of pairs that find no slot to dropped. RehashGPU stops if dropped is not zero.
func RehashGPU[G Parts](ctx context.Context, e *gpu.Engine, allocate func() (G, error),
	launch func(s *device.Stream, from, to G, lo, hi uint32, dropped device.Ptr) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	to, err := allocate()
	if err != nil {
		return err
	}
	_, err = e.Move(ctx, to, func(s *device.Stream, parts core.Parts, dropped device.Ptr) error {
		if err := to.InitLocks(s); err != nil {
			return err
		}
		from := parts.(G)
		for lo, hi, lines := uint32(0), uint32(0), from.Memory().Units(); lo < lines; lo = hi {
			hi = min(lines, lo+rehashBytes/core.LineBytes)
			if err := launch(s, from, to, lo, hi, dropped); err != nil {
				return err
			}
			n, err := e.ReadWord(context.WithoutCancel(ctx), gpu.WordResult)
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case n > 0:
				return errCrowded(to.Memory().Units() - 1)
			}
		}
		return nil
	})
	return err
}
