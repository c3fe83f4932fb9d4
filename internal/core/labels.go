package core

import (
	"context"
	"runtime/pprof"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// Profiled is a device with worker goroutines that inherit the profiler labels of their caller.
type Profiled interface {
	// Labels reports whether the device uses labels.
	Labels() bool
}

func usesLabels(dev device.Device) bool {
	p, ok := dev.(Profiled)
	return ok && p.Labels()
}

// setLabels adds the profiler labels of a batch to the calling goroutine, if the device uses
// labels. It keeps the labels of ctx. clearLabels removes the added labels.
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
