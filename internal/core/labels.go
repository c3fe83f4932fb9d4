package core

import (
	"context"
	"runtime/pprof"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Profiled is a device whose workers have the labels of the profiler that their caller has.
type Profiled interface {
	// Labels reports whether they are wanted.
	Labels() bool
}

// profiled reports whether a device wants labels.
func profiled(dev device.Device) bool {
	p, ok := dev.(Profiled)
	return ok && p.Labels()
}

// label gives the caller the labels of a batch for the profiler, if its device wants them, beside those of the
// context. unlabel takes them away.
func (t *Table) label(ctx context.Context, b *batch.Batch) {
	if !t.labels {
		return
	}
	operation := b.Kind.String()
	if b.Columns[batch.Kinds].Given() {
		operation = "Apply"
	}
	pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("weft.structure", t.Name, "weft.operation", operation)))
}

func (t *Table) unlabel(ctx context.Context) {
	if t.labels {
		pprof.SetGoroutineLabels(ctx)
	}
}
