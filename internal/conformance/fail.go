package conformance

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// NewFails makes each device operation of a constructor fail, one at a time. The constructor must
// return the error and leak nothing. dev must come from [devicetest.Checked].
func NewFails[S interface{ Close() error }, O any](t testing.TB, open func(device.Device, O) (S, error), dev device.Device, opts O) {
	t.Helper()
	before := devicetest.Live(dev)
	for n := 0; ; n++ {
		fired := devicetest.FailAfter(dev, n)
		s, err := open(dev, opts)
		if !fired() {
			devicetest.ClearFailures(dev)
			if n == 0 || err != nil {
				t.Fatalf("the constructor asks for %d operations: %v", n, err)
			}
			must(t, s.Close())
			return
		}
		if !errors.Is(err, device.ErrMemory) {
			t.Fatalf("operation %d failed: %v", n, err)
		}
		if live := devicetest.Live(dev); live != before {
			t.Fatalf("operation %d failed; %+v is left, was %+v", n, live, before)
		}
	}
}

// OperationsFail makes each operation of a device fail, one at a time. Meanwhile a map grows to n
// keys, deletes, compacts and reads. Each call must return the error or succeed without the
// operation. No present key may be lost, and all calls must work after the failure. At the end
// nothing may be leaked, not even by a call with an expired context.
func OperationsFail(t testing.TB, dev device.Device, n int, open Maker[AnyMap[uint64, uint64]]) {
	t.Helper()
	checkCancelledLeaks(t, dev, open)
	steps := 200
	if dev.Properties().Kind == device.CPU {
		steps = 1 << 30 // until no operation is left to fail
	}
	m := open(t, dev) // allocates the memory that structures share, at its full size
	runLifecycle(t, m, n)
	must(t, m.Close())
	before := devicetest.Live(dev)
	for step := range steps {
		m := open(t, dev)
		fired := devicetest.FailAfter(dev, step)
		runLifecycle(t, m, n)
		devicetest.ClearFailures(dev)
		runLifecycle(t, m, n)
		check(t, m)
		must(t, m.Close())
		if t.Failed() {
			t.Fatalf("operation %d failed", step)
		}
		if now := devicetest.Live(dev); now != before {
			t.Fatalf("operation %d failed; %+v is left, was %+v", step, now, before)
		}
		if !fired() {
			if step == 0 {
				t.Fatal("a life asks nothing of the device")
			}
			return
		}
	}
}

// runLifecycle makes all kinds of calls on a map. It repeats a call that fails for lack of memory.
func runLifecycle(t testing.TB, m AnyMap[uint64, uint64], n int) {
	t.Helper()
	succeeded := func(err error) bool {
		t.Helper()
		if err != nil && !errors.Is(err, device.ErrMemory) {
			t.Fatal(err)
		}
		return err == nil
	}
	retry := func(desc string, f func() error) { // calls f until it succeeds
		t.Helper()
		for range 10 {
			if succeeded(f()) {
				return
			}
		}
		t.Fatalf("%s fails again and again", desc)
	}
	const left = 100
	keys := Sequence[uint64](1, n)
	succeeded(m.Clear(ctx()))
	for lo := 0; lo < n; lo += n / 3 {
		part := keys[lo : lo+n/3]
		if lo != n/3 {
			retry("Put", func() error { _, err := m.Put(ctx(), part, part); return err })
			continue
		}
		vals := slices.Clone(part)
		retry("GetOrPut", func() error { _, err := m.GetOrPut(ctx(), part, vals, nil); return err })
		if !slices.Equal(vals, part) {
			t.Fatal("GetOrPut loses values")
		}
	}
	retry("Delete", func() error { _, err := m.Delete(ctx(), keys[left:], nil); return err })
	succeeded(m.Compact(ctx()))
	ids := make([]uint64, left)
	retry("Assign", func() error { _, err := m.Assign(ctx(), keys[:left], ids); return err })
	if !slices.Equal(ids, keys[:left]) {
		t.Fatal("Assign gives ids to keys that have some")
	}
	vals, found := make([]uint64, n), make([]bool, n)
	retry("Get", func() error { _, err := m.Get(ctx(), keys, vals, found); return err })
	for i, k := range keys {
		if want := i < left; found[i] != want || want && vals[i] != k {
			t.Fatalf("key %d: %d, %v", k, vals[i], found[i])
		}
	}
	retry("Pages", func() error {
		seen := 0
		for p, err := range m.Pages(ctx()) {
			if err != nil {
				return err
			}
			seen += len(p.Keys)
		}
		if seen != left {
			t.Fatalf("Pages have %d pairs, want %d", seen, left)
		}
		return nil
	})
}

func checkCancelledLeaks(t testing.TB, dev device.Device, open Maker[AnyMap[uint64, uint64]]) {
	t.Helper()
	k := mapKind(mapTarget(dev, Slow, open))
	m := k.open(t, dev)
	r := k.batch(rng(), 1000)
	k.fill(t, m, r.Keys, r.Vals)
	_, err := m.Delete(ctx(), r.Keys[500:], nil)
	must(t, err)
	calls := k.calls(t, m, r)
	before := devicetest.Live(dev)
	for name, call := range calls {
		if err := call(expired()); err == nil {
			t.Errorf("%s with an ended context has worked", name)
		}
		if now := devicetest.Live(dev); now != before {
			t.Errorf("%s with an ended context leaves %+v, was %+v", name, now, before)
		}
	}
	must(t, m.Close())
}

// ReportsFull puts more keys from device memory into a map than it can hold. Sync must report that
// exactly once.
func ReportsFull(t testing.TB, dev device.Device, m AnyMap[uint64, uint64], n int) {
	t.Helper()
	s := devicetest.NewStream(t, dev)
	keys := devicetest.Upload(t, s, Sequence[uint64](1, n))
	for range 2 {
		must(t, m.PutOn(s, keys, keys))
		var p *weft.PartialError
		if err := m.Sync(ctx()); !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) || p.Done != n || p.Failed != n-m.Len() || len(p.Rows) != p.Failed {
			t.Errorf("Sync after more keys than slots: %v", err)
		}
		if err := m.Sync(ctx()); err != nil {
			t.Errorf("Sync again: %v", err)
		}
		if m.Len() == 0 || m.Len() >= n {
			t.Errorf("%d keys of %d are there", m.Len(), n)
		}
	}
}

// ResultsWhenFull assigns ids to more keys than a map of fixed size holds. It then submits the same
// keys again, each of them twice. Present keys must return their ids. For the other keys, outputs
// must stay unchanged, and no id may be used.
func ResultsWhenFull(t testing.TB, dev device.Device, m AnyMap[uint64, uint64], n int) {
	t.Helper()
	keys := Sequence[uint64](1, n)
	doubled := slices.Concat(keys, keys)
	full := func(desc string, fresh, before int, err error) {
		t.Helper()
		var p *weft.PartialError
		if !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) || p.Done != 2*n || p.Failed != 2*(n-m.Len()) || m.Len() != before+fresh {
			t.Fatalf("%s of %d keys: %d are new, Len = %d: %v", desc, n, fresh, m.Len(), err)
		}
		present := make([]bool, 2*n)
		_, err = m.Contains(ctx(), doubled, present)
		must(t, err)
		absent := make([]int, 0, p.Failed)
		for i := range present {
			if !present[i] {
				absent = append(absent, i)
			}
		}
		if !slices.Equal(p.Rows, absent) {
			t.Fatalf("%s: rows %v found no room, want %v", desc, p.Rows, absent)
		}
	}
	ids := make([]uint64, 2*n)
	fresh, err := m.Assign(ctx(), doubled, ids)
	full("Assign", fresh, 0, err)
	vals, found := make([]uint64, n), make([]bool, n)
	_, err = m.Get(ctx(), keys, vals, found)
	must(t, err)
	next := uint64(0)
	for i := range keys {
		id := uint64(0)
		if found[i] {
			id = next
			next++
		}
		if ids[i] != id || ids[n+i] != id || vals[i] != id {
			t.Fatalf("key %d got ids %d and %d, and has %d, want %d", keys[i], ids[i], ids[n+i], vals[i], id)
		}
	}

	s := devicetest.NewStream(t, dev)
	on := devicetest.Upload(t, s, doubled)
	for _, form := range []string{"GetOrPut", "GetOrPutOn"} {
		input, loaded := Sequence[uint64](1_000_000, 2*n), slices.Repeat([]bool{true}, 2*n)
		got, before := slices.Clone(input), m.Len()
		if form == "GetOrPut" {
			fresh, err := m.GetOrPut(ctx(), doubled, got, loaded)
			full(form, fresh, before, err)
		} else {
			gotOn, loadedOn := devicetest.Upload(t, s, got), devicetest.Upload(t, s, loaded)
			must(t, m.GetOrPutOn(s, on, gotOn, loadedOn))
			full(form, m.Len()-before, before, m.Sync(ctx()))
			must(t, gotOn.CopyTo(ctx(), s, got))
			must(t, loadedOn.CopyTo(ctx(), s, loaded))
		}
		was := slices.Clone(found)
		_, err := m.Get(ctx(), keys, vals, found)
		must(t, err)
		for i, k := range doubled {
			want := input[i]
			if found[i%n] {
				want = vals[i%n]
			}
			if got[i] != want || loaded[i] != (was[i%n] || found[i%n] && i >= n) {
				t.Fatalf("%s of key %d, which is there: %v, leaves %d and reports %v, want %d", form, k, found[i%n], got[i], loaded[i], want)
			}
		}
	}
}
