package group

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
)

// A context may end while columns with bitmaps but without nulls are encoded.
func TestContextEndsBesideBitmaps(t *testing.T) {
	dev := open(t, 2)
	n := 1 << 18
	valid := make([]bool, n)
	for i := range valid {
		valid[i] = true
	}
	keys := column.Of(make([]int32, n)).WithValid(column.OfBools(valid))
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		g, err := New(dev, nil, nil)
		must(t, err)
		if err := g.Add(ctx, []column.Column{keys, keys}, nil); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		must(t, g.Close())
		cancel()
	}
}

// Rows are accepted for any expected capacity.
func TestCapacity(t *testing.T) {
	dev := open(t, 2)
	for _, capacity := range []int{-1, 1 << 31, 1 << 60} {
		if _, err := New(dev, nil, &Options{Capacity: capacity}); !errors.Is(err, op.ErrOptions) {
			t.Errorf("Capacity %d: %v", capacity, err)
		}
	}
	g := create(t, dev, nil, &Options{Memory: MinMemory, Capacity: math.MaxInt32})
	must(t, g.Add(t.Context(), []column.Column{column.Of([]int64{1})}, nil))
	if b := g.packed.bytes(); b > MinMemory {
		t.Errorf("a table for one group takes %d bytes", b)
	}
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
