package linear_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// Whatever operation of the device fails while a table is made, nothing stays
// behind.
func TestNewFailsCleanly(t *testing.T) {
	dev := devicetest.Open(t)
	before := devicetest.Live(dev)
	for n := 0; ; n++ {
		fired := devicetest.FailAfter(dev, n)
		m, err := linear.New[uint64, uint32](dev, nil)
		if !fired() {
			devicetest.Heal(dev)
			if n == 0 {
				t.Fatal("New asks nothing of the device")
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, device.ErrMemory) {
			t.Fatalf("operation %d of New failed: %v", n, err)
		}
		if live := devicetest.Live(dev); live != before {
			t.Fatalf("operation %d of New failed; %+v is left, was %+v", n, live, before)
		}
	}
}

// Whatever operation of the device fails, once, during a life of growing,
// deleting, compacting and reading: the call says so or does without, nothing
// that was there is lost, and everything works once the failure has gone.
func TestEveryOperationFailsOnce(t *testing.T) {
	dev := devicetest.Open(t)
	steps := 200
	if dev.Properties().Kind == device.CPU {
		steps = 1 << 30 // until nothing fails any more
	}
	for name, scheme := range schemes {
		t.Run(name, func(t *testing.T) {
			for n := 0; n < steps; n++ {
				m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Tombstones: scheme})
				fired := devicetest.FailAfter(dev, n)
				live(t, m)
				devicetest.Heal(dev)
				live(t, m)
				if err := m.CheckInvariants(); err != nil {
					t.Fatalf("operation %d failed: %v", n, err)
				}
				if !fired() {
					if n == 0 {
						t.Fatal("a life asks nothing of the device")
					}
					break
				}
			}
		})
	}
}

// live puts a map through its life. Calls may fail for lack of memory; the
// model follows what they report.
func live(t *testing.T, m *linear.Map[uint64, uint64]) {
	t.Helper()
	ctx := t.Context()
	fine := func(err error) bool {
		t.Helper()
		if err != nil && !errors.Is(err, device.ErrMemory) {
			t.Fatal(err)
		}
		return err == nil
	}
	keys := conformance.Sequence[uint64](1, 3000)
	fine(m.Clear(ctx))
	before := m.Len()
	for lo := 0; lo < len(keys); lo += 1000 {
		part := keys[lo : lo+1000]
		for !put(t, m, part) { // again, until it has worked
			before++
			if before > 10 {
				t.Fatal("Put fails again and again")
			}
		}
	}
	deleted := make([]bool, 2900)
	for {
		if _, err := m.Delete(ctx, keys[100:], deleted); fine(err) {
			break
		}
	}
	fine(m.Compact(ctx))
	vals, found := make([]uint64, len(keys)), make([]bool, len(keys))
	for {
		if _, err := m.Get(ctx, keys, vals, found); fine(err) {
			break
		}
	}
	for i, k := range keys {
		if want := i < 100; found[i] != want || want && vals[i] != k {
			t.Fatalf("key %d: %d, %v", k, vals[i], found[i])
		}
	}
	seen := 0
	for p, err := range m.Pages(ctx) {
		if !fine(err) {
			return
		}
		seen += len(p.Keys)
	}
	if seen != 100 {
		t.Fatalf("Pages have %d pairs, want 100", seen)
	}
}

// put reports whether a Put has gone through.
func put(t *testing.T, m *linear.Map[uint64, uint64], keys []uint64) bool {
	t.Helper()
	_, err := m.Put(t.Context(), keys, keys)
	if err != nil && !errors.Is(err, device.ErrMemory) {
		t.Fatal(err)
	}
	return err == nil
}

// A map that cannot grow goes on with the room it has, then says so, and loses
// nothing; when there is memory again, it grows.
func TestNoMemoryToGrow(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("other allocations come between those of tables")
	}
	m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Capacity: 100})
	keys := conformance.Sequence[uint64](1, 5000)
	inserted := 0
	for lo := 0; ; lo += 10 {
		for range 4 { // twice the size it wants, and the one it could do with
			devicetest.FailNext(dev, devicetest.OpAlloc)
		}
		n, err := m.Put(t.Context(), keys[lo:lo+10], keys[lo:lo+10])
		inserted += n
		devicetest.Heal(dev)
		if err != nil {
			if !errors.Is(err, device.ErrMemory) || errors.Is(err, weft.ErrFull) {
				t.Fatal(err)
			}
			break
		}
	}
	s := conformance.StatsOf(t, m)
	if inserted < 100 || inserted != m.Len() || float64(inserted) < .79*float64(s.Slots)-10 {
		t.Fatalf("%d keys went into %v", inserted, s)
	}
	conformance.WantPairs(t, m, keys[:inserted])
	if n, err := m.Put(t.Context(), keys, keys); n != len(keys)-inserted || err != nil {
		t.Fatalf("with memory again: %d, %v", n, err)
	}
	conformance.WantPairs(t, m, keys)
}

// A fixed map whose dead slots cannot be dropped for lack of memory reports
// that it is full, and is as it was.
func TestNoMemoryToDropTombstones(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("other allocations come between those of tables")
	}
	m := conformance.Open(t, linear.New[uint64, uint64], dev, &linear.Options{Capacity: 64, MaxLoad: 1, Fixed: true})
	keys := conformance.Sequence[uint64](1, 96)
	if n, err := m.Put(t.Context(), keys[:64], keys[:64]); n != 64 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := m.Delete(t.Context(), keys[:32], nil); n != 32 || err != nil {
		t.Fatal(n, err)
	}
	devicetest.FailNext(dev, devicetest.OpAlloc)
	if n, err := m.Put(t.Context(), keys[64:], keys[64:]); n != 0 || !errors.Is(err, weft.ErrFull) {
		t.Fatalf("Put that finds dead slots only: %d, %v", n, err)
	}
	conformance.WantPairs(t, m, keys[32:64])
	if n, err := m.Put(t.Context(), keys[64:], keys[64:]); n != 32 || err != nil {
		t.Fatalf("with memory again: %d, %v", n, err)
	}
	conformance.WantPairs(t, m, keys[32:])
}

// An iteration keeps the table it began with; it is freed with the last of
// them, and Close in the middle ends them.
func TestIterationHoldsItsTable(t *testing.T) {
	dev := devicetest.Open(t)
	before := devicetest.Live(dev).Bytes
	m := conformance.Open(t, linear.New[uint64, uint64], dev, nil)
	keys := conformance.Sequence[uint64](1, 600_000) // more than a page
	if _, err := m.Put(t.Context(), keys[:100], keys[:100]); err != nil {
		t.Fatal(err)
	}
	small := conformance.StatsOf(t, m).Bytes
	for range m.All() {
		if _, err := m.Put(t.Context(), keys, keys); err != nil {
			t.Fatal(err)
		}
		if got, both := devicetest.Live(dev).Bytes-before, small+conformance.StatsOf(t, m).Bytes; got < both {
			t.Errorf("%d bytes in use during the iteration, two tables have %d", got, both)
		}
		break
	}
	pages, steps := 0, 0
	var last error
	for p, err := range m.Pages(t.Context()) {
		if pages == 0 {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		pages++
		steps += len(p.Keys)
		last = err
	}
	if steps == len(keys) || pages != 2 || !errors.Is(last, weft.ErrClosed) {
		t.Errorf("iteration over a map closed meanwhile: %d pairs in %d pages, %v", steps, pages-1, last)
	}
	if left := devicetest.Live(dev).Bytes; left != before {
		t.Errorf("%d bytes are left after Close", left-before)
	}
}

// Compact with an ended context changes nothing and leaves nothing behind.
func TestCompactCancelled(t *testing.T) {
	dev := devicetest.Open(t)
	m := conformance.Open(t, linear.New[uint64, uint64], dev, nil)
	keys := conformance.Sequence[uint64](1, 1000)
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Delete(t.Context(), keys[500:], nil); err != nil {
		t.Fatal(err)
	}
	before := devicetest.Live(dev)
	if err := m.Compact(cancelled(t)); err == nil {
		t.Error("Compact with an ended context has worked")
	}
	if after := devicetest.Live(dev); after != before {
		t.Errorf("Compact left %+v, was %+v", after, before)
	}
	conformance.WantPairs(t, m, keys[:500])
}
