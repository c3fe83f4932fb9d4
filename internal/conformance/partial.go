package conformance

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/gpu/staging"
)

type countdown struct {
	context.Context
	left *atomic.Int64
}

func newCount(n int64) *atomic.Int64 {
	left := new(atomic.Int64)
	left.Store(n)
	return left
}

// Err implements [context.Context].
func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A call with an expired context must do nothing, return the error, and zero its outputs.
func (k kind[S]) cancelled(t testing.TB, s S) {
	r := k.batch(rng(), 100)
	k.fill(t, s, r.Keys, r.Vals)
	want := k.content(t, s)
	for name, call := range k.calls(t, s, r) {
		if err := call(expired()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", name, err)
		}
		k.checkContent(t, s, want)
	}
	for _, f := range slices.Concat(k.forms, k.rows, k.hostOnly) {
		got := r.clone()
		n, err := f.host(expired(), s, got)
		var p *weft.PartialError
		if !errors.As(err, &p) || p.Done != 0 || p.Failed != 0 || len(p.Rows) != 0 || n != 0 {
			t.Errorf("%s with an ended context: %d, %v", f.name, n, err)
		}
		k.checkZeroFrom(t, f, r, got, 0)
	}
	if _, err := k.remove(ctx(), s, r.Keys, nil); err != nil { // would wait if a lock were held
		t.Error(err)
	}
}

// checkZeroFrom requires the outputs of a call to be zero from row lo on. Other columns must be
// unchanged.
func (k kind[S]) checkZeroFrom(t testing.TB, f form[S], was, is *rows, lo int) {
	t.Helper()
	for i := lo; i < len(was.Keys); i++ {
		if is.OK[i] && (f.optional || !was.OK[i]) || f.loads && is.Vals[i] != was.Vals[i] || is.Counts[i] != 0 && is.Counts[i] != was.Counts[i] ||
			is.Vals[i] != 0 && (f.name == "Get" || f.name == "Apply" || f.name == "Assign" || is.Vals[i] != was.Vals[i]) ||
			is.Counts[i] != 0 && (f.name == "Count" || f.name == "DeleteAll") {
			t.Fatalf("%s did %d operations, and the outputs of number %d are %#x %v %d", f.name, lo, i, is.Vals[i], is.OK[i], is.Counts[i])
		}
	}
}

func (k kind[S]) closed(t testing.TB, s S) {
	r := k.batch(rng(), 10)
	st := devicetest.NewStream(t, k.dev)
	on := k.upload(t, st, r)
	k.fill(t, s, r.Keys, r.Vals)
	must(t, s.Close())
	must(t, s.Close())
	for name, call := range k.calls(t, s, r) {
		if err := call(ctx()); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	for name, call := range k.submissions(s, st, on) {
		if err := call(); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	for range k.all(s) {
		t.Error("All of a closed structure has pairs")
	}
	if n := s.Len(); n != 0 {
		t.Errorf("Len after Close = %d", n)
	}
}

// Empty batches must do nothing, in host memory and in device memory.
func (k kind[S]) emptyBatches(t testing.TB, s S) {
	k.fill(t, s, k.numbers(5), make([]uint64, 1))
	st := devicetest.NewStream(t, k.dev)
	empty := &rows{}
	for name, call := range k.submissions(s, st, k.upload(t, st, empty)) {
		if err := call(); err != nil {
			t.Errorf("%s without operations: %v", name, err)
		}
	}
	for _, f := range slices.Concat(k.forms, k.rows, k.hostOnly) {
		if n, err := f.host(ctx(), s, &rows{}); n != 0 || err != nil {
			t.Errorf("%s without operations: %d, %v", f.name, n, err)
		}
	}
	must(t, s.Sync(ctx()))
	if s.Len() != 1 {
		t.Errorf("Len = %d after batches without operations", s.Len())
	}
}

// setManyChunks makes structures process a batch of n rows in several chunks.
func (k kind[S]) setManyChunks(t testing.TB) (n int) {
	piece := 1 << 10
	if k.scale <= Slow {
		piece = 1 << 8
	}
	t.Cleanup(staging.Configure(k.dev, staging.Settings{PieceBytes: piece, Slots: 3}))
	if _, host := k.dev.(device.Host); k.scale == Fast && host {
		return 1<<17 + 5000 // a CPU has larger pieces
	}
	return min(k.scale.Rows(), 1<<13)
}

// fitsOneChunk reports whether the batches of a suite are too small to be divided. Reductions run
// in larger pieces.
func (k kind[S]) fitsOneChunk(f form[S]) bool {
	_, host := k.dev.(device.Host)
	return host && (k.scale < Fast || !f.changes || f.name == "Reduce")
}

// A cancelled call must have done the first operations of its batch, report their number, and have
// done no others.
func (k kind[S]) partial(t testing.TB, _ S) {
	n := k.setManyChunks(t)
	r := k.batch(rng(), n)
	for _, f := range slices.Concat(k.forms, k.hostOnly) {
		if f.name == "Reduce" && k.fitsOneChunk(f) {
			continue // no effect to check
		}
		if f.name == "Apply" {
			for i := range r.Kinds {
				r.Kinds[i] = weft.OpPut
			}
		}
		try := func(nChecks int64) (used int64, done, cut bool) {
			s := k.open(t, k.dev)
			if !f.adds() {
				k.fill(t, s, r.Keys, r.Vals)
			}
			got, left := r.clone(), newCount(nChecks)
			_, err := f.host(&countdown{ctx(), left}, s, got)
			if err != nil {
				cut = k.checkInterrupted(t, s, f, r, got, err)
			}
			check(t, s)
			must(t, s.Close())
			return nChecks - left.Load(), err == nil, cut
		}
		used, done, _ := try(math.MaxInt64)
		if !done {
			t.Fatalf("%s was cut short by a context that did not end", f.name)
		}
		// Bisection for the last check of the context that matters interrupts the call at many
		// points. On a busy machine the number of checks varies. If bisection fails, every check is
		// tried.
		cuts := 0
		for lo, hi := int64(-1), used; hi-lo > 1; {
			nChecks := lo + (hi-lo)/2
			_, done, cut := try(nChecks)
			if done {
				hi = nChecks
			} else {
				lo = nChecks
			}
			if cut {
				cuts++
			}
		}
		for i := int64(0); i < 5*used && cuts == 0 && !k.fitsOneChunk(f); i++ {
			if _, _, cut := try(i % used); cut {
				cuts++
			}
		}
		if cuts == 0 && !k.fitsOneChunk(f) {
			t.Errorf("%s asked its context %d times and was never cut short", f.name, used)
		}
	}
}

// checkInterrupted requires the effects of an interrupted call to match its error. It reports
// whether the call had any effect.
func (k kind[S]) checkInterrupted(t testing.TB, s S, f form[S], was, is *rows, err error) bool {
	t.Helper()
	var p *weft.PartialError
	if !errors.As(err, &p) || !errors.Is(err, context.Canceled) || p.Failed != len(p.Rows) || p.Done > len(was.Keys) {
		t.Fatalf("%s: %v", f.name, err)
	}
	k.checkZeroFrom(t, f, was, is, p.Done)
	done := make([]bool, len(was.Keys))
	for i := range p.Done {
		done[i] = true
	}
	for _, row := range p.Rows { // these operations were to run again
		done[row] = false
		k.checkZeroFrom(t, f, was.part(row, row+1), is.part(row, row+1), 0)
	}
	want := len(was.Keys)
	switch {
	case f.adds():
		want = p.Done - p.Failed
	case f.changes:
		want -= p.Done - p.Failed
	}
	found := make([]bool, len(was.Keys))
	n, err := k.lookup(ctx(), s, was.Keys, make([]uint64, len(was.Keys)), found)
	must(t, err)
	if n != want || s.Len() != want {
		t.Fatalf("%s says that it did %d operations, but for %d; %d keys are there, Len = %d, want %d", f.name, p.Done, p.Failed, n, s.Len(), want)
	}
	for i, present := range found {
		if f.changes && present != (done[i] == f.adds()) {
			t.Fatalf("%s says that it did %d operations; key %d is there: %v", f.name, p.Done, i, present)
		}
		if done[i] && f.optional && is.OK[i] == f.loads {
			t.Fatalf("%s says that it did %d operations; the flag of number %d is %v", f.name, p.Done, i, is.OK[i])
		}
	}
	return p.Done > 0
}
