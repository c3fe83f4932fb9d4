package core

import (
	"context"
	"runtime/pprof"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Profiled is a device with workers that inherit the profiler labels of their caller.
type Profiled interface {
	// Labels reports whether the device uses labels.
	Labels() bool
}

// usesLabels reports whether a device uses labels.
func usesLabels(dev device.Device) bool {
	p, ok := dev.(Profiled)
	return ok && p.Labels()
}

// setLabels sets the profiler labels of a batch on the calling goroutine, in addition to those of
// the context, if the device uses labels. clearLabels removes them.
func (t *Table) setLabels(ctx context.Context, b *batch.Batch) {
	if !t.labels {
		return
	}
	operation := b.Kind.String()
	if b.Columns[batch.Kinds].Given() {
		operation = "Apply"
	}
	pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("weft.structure", t.Name, "weft.operation", operation)))
}

func (t *Table) clearLabels(ctx context.Context) {
	if t.labels {
		pprof.SetGoroutineLabels(ctx)
	}
}
