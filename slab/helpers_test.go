package slab_test

import (
	"context"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/conformance"
)

// cancelled is a context that has ended.
func cancelled(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func equal[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s, row %d: %v, want %v", what, i, got[i], want[i])
		}
	}
}

// rows is the size of large batches.
func rows(dev device.Device) int { return min(conformance.ScaleOf(dev).Rows(), 20_000) }
