package conformance

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// NoMemoryToGrow makes allocations fail in a map with capacity for a hundred keys. The map first
// uses the capacity it has, then returns the error, and loses nothing. When memory is available
// again, it grows. full receives the number of inserted keys.
func NoMemoryToGrow(t testing.TB, dev device.Device, m AnyMap[uint64, uint64], full func(n int)) {
	t.Helper()
	if _, ok := dev.(device.Host); !ok {
		t.Skip("other allocations come between those of tables")
	}
	keys := Sequence[uint64](1, 5000)
	inserted := 0
	for lo := 0; ; lo += 10 {
		for range 4 { // twice for the size it prefers, twice for the one it can do with
			devicetest.FailNext(dev, devicetest.OpAlloc)
		}
		n, err := m.Put(ctx(), keys[lo:lo+10], keys[lo:lo+10])
		inserted += n
		devicetest.Heal(dev)
		if err != nil {
			if !errors.Is(err, device.ErrMemory) || errors.Is(err, weft.ErrFull) {
				t.Fatal(err)
			}
			break
		}
	}
	if inserted < 100 {
		t.Fatalf("%d keys went in", inserted)
	}
	full(inserted)
	WantPairs(t, m, keys[:inserted])
	n, err := m.Put(ctx(), keys, keys)
	Want(t, "Put with memory again", n, len(keys)-inserted, err)
	WantPairs(t, m, keys)
}

// FixedIsFull fills a map of fixed size beyond its slots. The map reports so and keeps its pairs.
// After deletions, at least others of a hundred other keys fit.
func FixedIsFull(t testing.TB, m AnyMap[uint64, uint64], capacity, slots, others int) {
	t.Helper()
	keys := Sequence[uint64](1, 3*capacity)
	ok := make([]bool, len(keys))
	n, err := m.PutNew(ctx(), keys, keys, ok)
	if n < capacity || n > slots || !errors.Is(err, weft.ErrFull) {
		t.Fatalf("PutNew of %d keys: %d in %d slots, %v", len(keys), n, slots, err)
	}
	var there []uint64
	for i, in := range ok {
		if in {
			there = append(there, keys[i])
		}
	}
	WantPairs(t, m, there)
	n, err = m.Put(ctx(), there, there)
	Want(t, "updates", n, 0, err)
	n, err = m.Delete(ctx(), there[:100], nil)
	Want(t, "Delete", n, 100, err)
	if n, err := m.Put(ctx(), there[:100], there[:100]); n < others || (err != nil) != (n < 100) {
		t.Errorf("of 100 keys %d came back: %v", n, err)
	}
}

// FoundBesideMoves looks up permanent keys repeatedly, alongside batches of other keys that come
// and go and move them. Every lookup must find all of them with their values. The map has a fixed
// size and is almost full.
func FoundBesideMoves(t testing.TB, dev device.Device, m AnyMap[uint32, uint32], stay, come int) {
	t.Helper()
	const lookups = 5
	change, look := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
	keys := Sequence[uint32](1, stay)
	on := devicetest.Upload(t, look, keys)
	vals, found := devicetest.Upload(t, look, make([]uint32, stay*lookups)), devicetest.Upload(t, look, make([]bool, stay*lookups))
	others := func(round int) device.Slice[uint32] {
		return devicetest.Upload(t, change, Sequence[uint32](1000*(round+1), come))
	}
	before := others(0)
	must(t, errors.Join(look.Sync(ctx()), m.PutOn(change, before, before), m.PutOn(change, on, on), m.Sync(ctx())))
	for round := 1; round < 6; round++ {
		next := others(round)
		must(t, errors.Join(m.DeleteOn(change, before, device.Slice[bool]{}), change.Sync(ctx())))
		for i := range lookups {
			lo, hi := i*stay, (i+1)*stay
			must(t, m.GetOn(look, on, vals.Sub(lo, hi), found.Sub(lo, hi)))
		}
		must(t, m.PutOn(change, next, next)) // waits for itself, because the table is nearly full
		there, got := make([]bool, stay*lookups), make([]uint32, stay*lookups)
		must(t, errors.Join(found.CopyTo(ctx(), look, there), vals.CopyTo(ctx(), look, got), change.Sync(ctx())))
		for i := range there {
			if key := keys[i%stay]; !there[i] || got[i] != key {
				t.Fatalf("round %d, lookup %d: key %d has value %d, found is %v", round, i/stay, key, got[i], there[i])
			}
		}
		must(t, m.Sync(ctx()))
		before = next
	}
}

// SavedElsewhere saves a map of some keys on one device, loads it on another, and the other way
// round. The loading device must find all keys.
func SavedElsewhere(t testing.TB, open Maker[AnyMap[uint32, uint32]], keys []uint32, devices ...device.Device) {
	t.Helper()
	p := place[AnyMap[uint32, uint32]]{open: open}
	m := p.another(t, devices[0])
	n, err := m.Put(ctx(), keys, keys)
	Want(t, "Put", n, len(keys), err)
	for range 2 {
		for _, dev := range devices {
			var file bytes.Buffer
			_, err := m.Save(ctx(), &file)
			must(t, err)
			m = p.another(t, dev)
			n, err := m.Load(ctx(), &file)
			Want(t, "Load", n, len(keys), err)
			WantPairs(t, m, keys)
			check(t, m)
		}
	}
}
