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
	conformance.NewFails(t, linear.New[uint64, uint32], devicetest.Open(t), nil)
}

// Whatever operation of the device fails, once, nothing that was there is lost.
func TestEveryOperationFailsOnce(t *testing.T) {
	dev := devicetest.Open(t)
	for name, scheme := range schemes {
		t.Run(name, func(t *testing.T) {
			conformance.OperationsFail(t, dev, 3000, conformance.MapOf(linear.New[uint64, uint64], &linear.Options{Tombstones: scheme}))
		})
	}
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
