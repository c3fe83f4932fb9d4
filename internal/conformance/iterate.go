package conformance

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
)

// hangTimeout is the time after which a test considers a call hung.
const hangTimeout = 2 * time.Minute

// checkReturns fails the test if f does not return within hangTimeout.
func checkReturns(t testing.TB, desc string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(hangTimeout):
		t.Fatalf("%s has not returned for %v", desc, hangTimeout)
	}
}

// All must yield the same pairs as Pages.
func (k kind[S]) pagesCase(t testing.TB, s S) {
	r := k.batch(rng(), k.scale.Rows())
	k.fill(t, s, r.Keys, r.Vals)
	if k.multi {
		k.fill(t, s, r.Keys[:50], r.Vals[50:100])
	}
	one, pages := values{}, 0
	for key, v := range k.all(s) {
		one[key] = append(one[key], v)
	}
	for p, err := range k.pages(ctx(), s) {
		must(t, err)
		if len(p.Keys) == 0 || len(p.Vals) != len(p.Keys) {
			t.Fatalf("a page has %d keys and %d values", len(p.Keys), len(p.Vals))
		}
		pages++
	}
	k.checkContent(t, s, one)
	if want := s.Len(); one.pairs() != want || pages == 0 {
		t.Errorf("All has %d pairs, in %d pages, want %d", one.pairs(), pages, want)
	}
}

// A cancelled iteration must report the error once, with an empty page. An iteration that the loop
// body ends must report no error.
func (k kind[S]) pagesEnd(t testing.TB, s S) {
	r := k.batch(rng(), k.scale.Rows())
	k.fill(t, s, r.Keys, r.Vals)
	c, cancel := context.WithCancel(ctx())
	defer cancel()
	pages, last := 0, 0
	for p, err := range k.pages(c, s) {
		pages++
		cancel()
		if err == nil {
			continue
		}
		if last++; !errors.Is(err, context.Canceled) || len(p.Keys) != 0 {
			t.Errorf("a cancelled iteration: %d keys, %v", len(p.Keys), err)
		}
	}
	if last > 1 || last == 0 && pages > 1 {
		t.Errorf("%d pages after a cancellation in the first, %d of them errors", pages, last)
	}
	for p, err := range k.pages(expired(), s) {
		if last--; len(p.Keys) != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("an iteration with an ended context: %d keys, %v", len(p.Keys), err)
		}
		last = -1
	}
	if last != -1 {
		t.Error("an iteration with an ended context has no page")
	}
	for _, err := range k.pages(ctx(), s) {
		must(t, err)
		break
	}
	must(t, s.Clear(ctx())) // would wait if a lock were held
	for range k.pages(ctx(), s) {
		t.Error("an empty structure has a page")
	}
}

// A loop that stops early must leave no lock held.
func (k kind[S]) allStops(t testing.TB, s S) {
	r := k.batch(rng(), 100)
	k.fill(t, s, r.Keys[:50], r.Vals[:50])
	steps := 0
	for range k.all(s) {
		if steps++; steps == 13 {
			break
		}
	}
	if steps != 13 {
		t.Errorf("iteration took %d steps after a break at 13", steps)
	}
	k.fill(t, s, r.Keys[50:], r.Vals[50:])
}

// Two concurrent iterations must have separate errors.
func (k kind[S]) twoIterations(t testing.TB, s S) {
	r := k.batch(rng(), k.scale.Rows())
	k.fill(t, s, r.Keys, r.Vals)
	c, cancel := context.WithCancel(ctx())
	defer cancel()
	first, stopFirst := iter.Pull2(k.pages(c, s))
	defer stopFirst()
	second, stopSecond := iter.Pull2(k.pages(ctx(), s))
	defer stopSecond()
	_, err, _ := first()
	must(t, err)
	n, ended := 0, 0
	for round := 0; ; round++ {
		if round == 1 {
			cancel()
		}
		if _, err, more := first(); more && err != nil {
			ended++
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled iteration: %v", err)
			}
		}
		p, err, more := second()
		if !more {
			break
		}
		if err != nil {
			t.Fatalf("the other iteration: %v", err)
		}
		n += len(p.Keys)
	}
	if n != s.Len() || ended > 1 {
		t.Errorf("the other iteration has %d pairs of %d; the cancelled one ended %d times", n, s.Len(), ended)
	}
}

// Every method must work when called from a loop over the same structure.
func (k kind[S]) insideLoops(t testing.TB, s S) {
	n := min(k.scale.Rows(), 300)
	r := k.batch(rng(), n)
	st := devicetest.NewStream(t, k.dev)
	on := k.upload(t, st, r)
	calls := k.calls(t, s, r)
	for name, f := range k.submissions(s, st, on) {
		calls[name] = func(context.Context) error { return errors.Join(f(), s.Sync(ctx()), st.Sync(ctx())) }
	}
	calls["All"] = func(context.Context) error {
		for range k.all(s) {
			continue
		}
		return nil
	}
	for name, call := range calls {
		for _, loop := range []string{"All", "Pages"} {
			must(t, s.Clear(ctx()))
			k.fill(t, s, r.Keys, r.Vals)
			checkReturns(t, name+" from a loop over "+loop, func() {
				for step := range k.steps(t, s, loop) {
					if step > 2 {
						continue
					}
					if err := call(ctx()); err != nil {
						t.Errorf("%s from a loop over %s: %v", name, loop, err)
					}
				}
			})
		}
	}
	k.closeInsideLoops(t, r)
}

// steps iterates with All or Pages, and yields the number of the step.
func (k kind[S]) steps(t testing.TB, s S, loop string) iter.Seq[int] {
	return func(yield func(int) bool) {
		step := 0
		if loop == "All" {
			k.all(s)(func(uint64, uint64) bool { step++; return yield(step) })
			return
		}
		k.pages(ctx(), s)(func(_ weft.Page[uint64, uint64], err error) bool {
			if err != nil {
				t.Errorf("Pages: %v", err)
			}
			step++
			return yield(step)
		})
	}
}

// closeInsideLoops closes structures from loops over them. The loops must end. A loop over Pages
// must report ErrClosed unless it was complete.
func (k kind[S]) closeInsideLoops(t testing.TB, r *rows) {
	checkReturns(t, "Close from a loop", func() {
		s := k.open(t, k.dev)
		k.fill(t, s, r.Keys, r.Vals)
		for range k.all(s) {
			must(t, s.Close())
		}
		s = k.open(t, k.dev)
		k.fill(t, s, r.Keys, r.Vals)
		seen, errs := 0, 0
		for p, err := range k.pages(ctx(), s) {
			must(t, s.Close())
			seen += len(p.Keys)
			if err != nil {
				if errs++; !errors.Is(err, weft.ErrClosed) {
					t.Errorf("Pages of a structure closed meanwhile: %v", err)
				}
			}
		}
		if errs > 1 || errs == 0 && seen != len(slices.Compact(r.Keys)) {
			t.Errorf("Pages of a structure closed meanwhile: %d of %d pairs and %d errors", seen, len(r.Keys), errs)
		}
	})
}
