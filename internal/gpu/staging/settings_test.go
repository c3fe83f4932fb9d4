package staging_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/gpu/staging"
)

// seeded picks slots by a seed.
func seeded(seed uint64) func(n int) int { return rand.New(rand.NewPCG(seed, 0)).IntN }

// tiny returns a ring with pieces of one row, and its device. Slots continue in the given order, or
// concurrently if order is nil.
func tiny(t *testing.T, slots int, order func(n int) int) (*staging.Ring, *tape) {
	dev := newTape(devicetest.Open(t))
	t.Cleanup(staging.Configure(dev, staging.Settings{PieceBytes: 1, Slots: slots, Order: order}))
	t.Cleanup(func() {
		if dev.underWay() {
			t.Error("Run returned while the device was copying")
		}
	})
	return newRing(t, dev), dev
}

// inOrders runs a test with tiny pieces, in several orders of the slots and concurrently, for
// Run and RunInOrder.
func inOrders(t *testing.T, slots int, test func(t *testing.T, r *staging.Ring, dev *tape, inOrder bool)) {
	for name, order := range map[string]func(n int) int{
		"first":      func(n int) int { return 0 },
		"last":       func(n int) int { return n - 1 },
		"seeded":     seeded(1),
		"concurrent": nil,
	} {
		for _, inOrder := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in order %v", name, inOrder), func(t *testing.T) {
				r, dev := tiny(t, slots, order)
				test(t, r, dev, inOrder)
			})
		}
	}
}

// check fails unless a batch that was run in pieces of one row is complete up to done.
func (e *echo) check(t *testing.T, done int, inOrder bool) {
	t.Helper()
	e.arrived(t, done)
	seen := map[int]bool{}
	for i, p := range e.pieces {
		if p.N != 1 || seen[p.Lo] || inOrder && p.Lo != i {
			t.Fatalf("piece %d of %v", i, e.pieces)
		}
		seen[p.Lo] = true
	}
	for i := range done {
		if !seen[i] {
			t.Fatalf("row %d of %d done was not launched: %v", i, done, e.pieces)
		}
	}
}

// Input equals output, however often slots are reused.
func TestTinyPieces(t *testing.T) {
	for slots := 1; slots <= 5; slots++ {
		inOrders(t, slots, func(t *testing.T, r *staging.Ring, _ *tape, inOrder bool) {
			for n := range 40 {
				e := newEcho(n, 8, 1)
				if done, err := e.run(t.Context(), r, inOrder); done != n || err != nil {
					t.Fatalf("%d rows done of %d: %v", done, n, err)
				}
				e.check(t, n, inOrder)
			}
		})
	}
}

// choices enumerates all sequences of choices.
type choices struct {
	path, of []int
	at       int
}

func (c *choices) pick(n int) int {
	if c.at == len(c.path) {
		c.path, c.of = append(c.path, 0), append(c.of, n)
	}
	c.at++
	return c.path[c.at-1]
}

// next moves to the next sequence; it returns false after the last one.
func (c *choices) next() bool {
	c.at = 0
	for i := len(c.path) - 1; i >= 0; i-- {
		if c.path[i]++; c.path[i] < c.of[i] {
			c.path, c.of = c.path[:i+1], c.of[:i+1]
			return true
		}
	}
	return false
}

// All orders of the steps give the same result. RunInOrder always launches pieces in order; Run
// does not.
func TestAllOrders(t *testing.T) {
	const rows = 4
	for _, inOrder := range []bool{false, true} {
		var c choices
		r, _ := tiny(t, 2, c.pick)
		reordered, runs := 0, 0
		for more := true; more; more = c.next() {
			e := newEcho(rows, 8, 1)
			if done, err := e.run(t.Context(), r, inOrder); done != rows || err != nil {
				t.Fatalf("order %v: %d rows done: %v", c.path, done, err)
			}
			e.check(t, rows, inOrder)
			runs++
			if !slices.IsSortedFunc(e.pieces, func(a, b piece) int { return a.Lo - b.Lo }) {
				reordered++
			}
		}
		t.Logf("in order %v: %d orders, %d of them launch pieces out of order", inOrder, runs, reordered)
		if runs < 250 || (reordered == 0) != inOrder {
			t.Error("too few orders")
		}
	}
}

// If any call of the device fails, in any piece and phase, Run returns the error, the rows done
// have arrived, and the ring still works.
func TestEveryCallFailsOnce(t *testing.T) {
	inOrders(t, 3, func(t *testing.T, r *staging.Ring, dev *tape, inOrder bool) {
		for n := 0; ; n++ {
			const rows = 7
			dev.rewind(n)
			e := newEcho(rows, 8, 1)
			done, err := e.run(t.Context(), r, inOrder)
			failed := dev.failed()
			if failed && (!errors.Is(err, errTape) || done == rows) || !failed && (err != nil || done != rows) {
				t.Fatalf("call %d failed: %d rows done, %v", n, done, err)
			}
			e.arrived(t, done)
			if dev.underWay() {
				t.Fatalf("call %d failed; Run returned while the device was copying", n)
			}
			dev.rewind(-1)
			e = newEcho(rows, 8, 1)
			if done, err := e.run(t.Context(), r, inOrder); done != rows || err != nil {
				t.Fatalf("after call %d failed, %d rows done: %v", n, done, err)
			}
			e.check(t, rows, inOrder)
			if !failed {
				break
			}
		}
	})
}

// If any wait, record or sync is omitted, Run returns while the device may be copying, in some
// order or after some failure.
func TestEveryCallCounts(t *testing.T) {
	calls, err := devicetest.ListCalls(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) == 0 {
		t.Skip("the sources are not here")
	}
	for _, call := range calls {
		o, inner := devicetest.Omit(call.Site), newTape(devicetest.Open(t))
		dev := o.Wrap(inner)
		undo := staging.Configure(dev, staging.Settings{PieceBytes: 1, Slots: 2, Order: seeded(1)})
		r := newRing(t, dev)
		undo()
		noticed := false
		for n, more := 0, true; more && !noticed; n++ {
			inner.rewind(n)
			e := newEcho(5, 8, 1)
			if _, err := e.run(t.Context(), r, false); err != nil && !errors.Is(err, errTape) {
				t.Fatal(err)
			}
			noticed, more = inner.underWay(), inner.failed()
		}
		if o.Seen()[call.Site] == 0 || !noticed {
			t.Errorf("without %v: called %d times, noticed %v", call, o.Seen()[call.Site], noticed)
		}
	}
}

// ending is a context that ends after a number of checks.
type ending struct {
	context.Context
	left int
}

func (c *ending) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// If the context ends at any step, the rows done have arrived, no other row was launched, and Run
// returns an error unless all rows are done. Run checks the context twice per piece.
func TestContextEndsAtEveryStep(t *testing.T) {
	const rows = 7
	inOrders(t, 3, func(t *testing.T, r *staging.Ring, _ *tape, inOrder bool) {
		for left := range 2*rows + 1 {
			e := newEcho(rows, 8, 1)
			done, err := e.run(&ending{t.Context(), left}, r, inOrder)
			if (left == 2*rows) != (err == nil) || err == nil && done != rows || err != nil && (done == rows || !errors.Is(err, context.Canceled)) {
				t.Fatalf("the context ended after %d steps: %d rows done, %v", left, done, err)
			}
			if e.check(t, done, inOrder); len(e.pieces) != done {
				t.Fatalf("the context ended after %d steps: %d rows done, %d launched", left, done, len(e.pieces))
			}
		}
	})
}

// The launch of each piece fails in turn.
func TestTinyLaunchFails(t *testing.T) {
	broken := errors.New("broken")
	inOrders(t, 3, func(t *testing.T, r *staging.Ring, _ *tape, inOrder bool) {
		const rows = 7
		for at := range rows {
			e := newEcho(rows, 8, 1)
			e.fail = func(piece int) error {
				if piece == at {
					return broken
				}
				return nil
			}
			done, err := e.run(t.Context(), r, inOrder)
			if !errors.Is(err, broken) || inOrder && done != at || !inOrder && done != 0 {
				t.Fatalf("launch %d failed: %d rows done, %v", at, done, err)
			}
			e.check(t, done, inOrder)
		}
	})
}

// A seed determines the sequence of device calls. Another seed gives another sequence.
func TestSameSeedSameCalls(t *testing.T) {
	for _, inOrder := range []bool{false, true} {
		record := func(seed uint64) []string {
			r, dev := tiny(t, 4, seeded(seed))
			if done, err := newEcho(20, 8, 1).run(t.Context(), r, inOrder); done != 20 || err != nil {
				t.Fatal(done, err)
			}
			return dev.calls
		}
		first := record(1)
		for range 5 {
			if again := record(1); !slices.Equal(first, again) {
				t.Fatalf("in order %v: the same seed made the calls\n%q and\n%q", inOrder, first, again)
			}
		}
		if slices.Equal(first, record(2)) {
			t.Errorf("in order %v: two seeds, one sequence of calls", inOrder)
		}
	}
}

// Settings apply to one device, until they are undone, and to rings made meanwhile.
func TestConfigure(t *testing.T) {
	dev, other := devicetest.Open(t), devicetest.Open(t)
	before := newRing(t, dev)
	undo := staging.Configure(dev, staging.Settings{PieceBytes: 30, Slots: 2})
	during, beside := newRing(t, dev), newRing(t, other)
	undo()
	after := newRing(t, dev)
	for i, r := range []*staging.Ring{before, during, beside, after} {
		e := newEcho(100, 8, 1) // 9 bytes per row
		if done, err := e.run(t.Context(), r, false); done != 100 || err != nil {
			t.Fatal(done, err)
		}
		want := 1
		if r == during {
			want = 34
		}
		if len(e.pieces) != want {
			t.Errorf("ring %d took %d pieces, want %d", i, len(e.pieces), want)
		}
	}
}
