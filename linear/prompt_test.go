package linear

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// timed is a context that ends after some time and records the longest time between two checks.
type timed struct {
	context.Context
	last, longest, ends atomic.Int64 // nanoseconds
}

func (c *timed) Err() error {
	now := time.Now().UnixNano()
	if last := c.last.Swap(now); last != 0 {
		c.longest.Store(max(c.longest.Load(), now-last))
	}
	if end := c.ends.Load(); end != 0 && now > end {
		return context.Canceled
	}
	return nil
}

// A call must check its context often, even if colliding keys fill a path.
func TestCrowdIsCancelled(t *testing.T) {
	dev := devicetest.OpenCPU(t, 4)
	const n, seed = 33_000, 7
	m, err := New[uint64, uint64](dev, &Options{Seed: seed, Capacity: 4 * n})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keys := conformance.Colliding(n, seed)
	for _, call := range []struct {
		name string
		run  func(ctx context.Context) (int, error)
	}{
		{"Put", func(ctx context.Context) (int, error) { return m.Put(ctx, keys, keys) }},
		{"Get", func(ctx context.Context) (int, error) { return m.Contains(ctx, keys, nil) }},
		{"Delete", func(ctx context.Context) (int, error) { return m.Delete(ctx, keys, nil) }},
	} {
		ctx := &timed{Context: t.Context()}
		const patience = 300 * time.Millisecond
		start := time.Now()
		ctx.ends.Store(start.Add(patience).UnixNano())
		if _, err := call.run(ctx); !errors.Is(err, context.Canceled) && (err != nil || time.Since(start) > patience) {
			t.Errorf("%s: %v after %v", call.name, err, time.Since(start))
		}
		longest := time.Duration(ctx.longest.Load())
		t.Logf("%s: longest time between looks %v", call.name, longest)
		if longest > 200*time.Millisecond { // 5 ms on an idle machine
			t.Errorf("%s did not look at its context for %v", call.name, longest)
		}
	}
}
