package conformance

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
)

// Goroutines change, read, iterate, save and cancel concurrently until two of them close the
// structure. Every call must end. The only errors may be those of ended contexts and of the closed
// structure.
func (k kind[S]) concurrentUse(t testing.TB, _ S) {
	s := k.open(t, k.dev)
	r := k.batch(rng(), min(k.scale.Rows(), 2000))
	k.fill(t, s, r.Keys, r.Vals)
	st := devicetest.NewStream(t, k.dev)
	on := k.upload(t, st, r)
	rounds := 40
	if k.scale <= Slow {
		rounds = 4
	}
	calls := k.calls(t, s, r)
	for name, f := range k.submissions(s, st, on) {
		calls[name] = func(context.Context) error { return f() }
	}
	checkReturns(t, "calls beside each other and Close", func() {
		var wg sync.WaitGroup
		for worker := range uint64(4) {
			wg.Go(func() { callRandomly(t, calls, rounds, worker) })
		}
		for worker := range uint64(2) {
			wg.Go(func() {
				callRandomly(t, calls, rounds/2, 100+worker)
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		wg.Wait()
	})
	must(t, st.Sync(ctx()))
	if s.Len() != 0 {
		t.Errorf("Len after Close = %d", s.Len())
	}
}

func callRandomly(t testing.TB, calls map[string]func(context.Context) error, rounds int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	names := slices.Sorted(maps.Keys(calls))
	for range rounds {
		name := names[rng.IntN(len(names))]
		c, cancel := ctx(), context.CancelFunc(func() {})
		if rng.IntN(2) == 0 {
			c, cancel = context.WithTimeout(c, time.Duration(rng.IntN(int(time.Millisecond))))
		}
		err := calls[name](c)
		cancel()
		// random values may be the largest ids
		full := name == "Assign" && errors.Is(err, weft.ErrFull)
		if err != nil && !full && !errors.Is(err, weft.ErrClosed) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
