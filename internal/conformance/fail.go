package conformance

import (
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// NewFails has each operation fail, one at a time, that a constructor asks of a
// device, which must come from [devicetest.Checked]: the error says so, and
// nothing stays behind.
func NewFails[S interface{ Close() error }, O any](t testing.TB, open func(device.Device, O) (S, error), dev device.Device, opts O) {
	t.Helper()
	before := devicetest.Live(dev)
	for n := 0; ; n++ {
		fired := devicetest.FailAfter(dev, n)
		s, err := open(dev, opts)
		if !fired() {
			devicetest.Heal(dev)
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

// OperationsFail has each operation of a device fail, one at a time, during a
// life of growing to n keys, deleting, compacting and reading: the call says so
// or does without, nothing that was there is lost, and everything works once the
// failure has gone. In the end nothing stays behind, nor does anything of a call
// whose context has ended.
func OperationsFail(t testing.TB, dev device.Device, n int, open Maker[AnyMap[uint64, uint64]]) {
	t.Helper()
	cancelledLeavesNothing(t, dev, open)
	steps := 200
	if dev.Properties().Kind == device.CPU {
		steps = 1 << 30 // until nothing fails any more
	}
	m := open(t, dev) // what structures share is as large as a life takes
	live(t, m, n)
	must(t, m.Close())
	before := devicetest.Live(dev)
	for step := range steps {
		m := open(t, dev)
		fired := devicetest.FailAfter(dev, step)
		live(t, m, n)
		devicetest.Heal(dev)
		live(t, m, n)
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

// live puts a map through its life. Calls may fail for lack of memory, and are
// made again.
func live(t testing.TB, m AnyMap[uint64, uint64], n int) {
	t.Helper()
	fine := func(err error) bool {
		t.Helper()
		if err != nil && !errors.Is(err, device.ErrMemory) {
			t.Fatal(err)
		}
		return err == nil
	}
	again := func(what string, f func() error) { // until it has worked
		t.Helper()
		for range 10 {
			if fine(f()) {
				return
			}
		}
		t.Fatalf("%s fails again and again", what)
	}
	const left = 100
	keys := Sequence[uint64](1, n)
	fine(m.Clear(ctx()))
	for lo := 0; lo < n; lo += n / 3 {
		part := keys[lo : lo+n/3]
		again("Put", func() error { _, err := m.Put(ctx(), part, part); return err })
	}
	again("Delete", func() error { _, err := m.Delete(ctx(), keys[left:], nil); return err })
	fine(m.Compact(ctx()))
	vals, found := make([]uint64, n), make([]bool, n)
	again("Get", func() error { _, err := m.Get(ctx(), keys, vals, found); return err })
	for i, k := range keys {
		if want := i < left; found[i] != want || want && vals[i] != k {
			t.Fatalf("key %d: %d, %v", k, vals[i], found[i])
		}
	}
	again("Pages", func() error {
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

func cancelledLeavesNothing(t testing.TB, dev device.Device, open Maker[AnyMap[uint64, uint64]]) {
	t.Helper()
	k := mapKind(place[AnyMap[uint64, uint64]]{dev, Slow, open})
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

// ReportsFull puts keys on the device into a map that has not room for all of
// them: Sync is how that is reported, once.
func ReportsFull(t testing.TB, dev device.Device, m AnyMap[uint64, uint64], n int) {
	t.Helper()
	s := devicetest.NewStream(t, dev)
	keys := devicetest.Upload(t, s, Sequence[uint64](1, n))
	for range 2 {
		must(t, m.PutOn(s, keys, keys))
		if err := m.Sync(ctx()); !errors.Is(err, weft.ErrFull) {
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
