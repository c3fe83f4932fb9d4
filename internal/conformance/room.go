package conformance

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// NoMemoryToGrow makes allocations fail in a map with capacity for a hundred keys. The map must use
// its capacity and then return the error, without losing a key. When memory is available again, it
// must grow. full receives the number of keys inserted until the error.
func NoMemoryToGrow(t testing.TB, dev device.Device, m AnyMap[uint64, uint64], full func(n int)) {
	t.Helper()
	if _, ok := dev.(device.Host); !ok {
		t.Skip("other allocations come between those of tables")
	}
	keys := Sequence[uint64](1, 5000)
	inserted := 0
	for lo := 0; ; lo += 10 {
		for range 4 { // twice for the preferred size, twice for the smallest sufficient size
			devicetest.FailNext(dev, devicetest.OpAlloc)
		}
		n, err := m.Put(ctx(), keys[lo:lo+10], keys[lo:lo+10])
		inserted += n
		devicetest.ClearFailures(dev)
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
	WantCount(t, "Put with memory again", n, len(keys)-inserted, err)
	WantPairs(t, m, keys)
}

// FixedIsFull puts more keys into a map of fixed size than it has slots. The map must return
// ErrFull and keep its pairs. After deletions, at least minRefit of a hundred other keys must fit.
func FixedIsFull(t testing.TB, m AnyMap[uint64, uint64], capacity, slots, minRefit int) {
	t.Helper()
	keys := Sequence[uint64](1, 3*capacity)
	ok := make([]bool, len(keys))
	n, err := m.PutNew(ctx(), keys, keys, ok)
	if n < capacity || n > slots || !errors.Is(err, weft.ErrFull) {
		t.Fatalf("PutNew of %d keys: %d in %d slots, %v", len(keys), n, slots, err)
	}
	var present []uint64
	for i, in := range ok {
		if in {
			present = append(present, keys[i])
		}
	}
	WantPairs(t, m, present)
	n, err = m.Put(ctx(), present, present)
	WantCount(t, "updates", n, 0, err)
	n, err = m.Delete(ctx(), present[:100], nil)
	WantCount(t, "Delete", n, 100, err)
	if n, err := m.Put(ctx(), present[:100], present[:100]); n < minRefit || (err != nil) != (n < 100) {
		t.Errorf("of 100 keys %d came back: %v", n, err)
	}
}

// LookupsAlongsideMoves looks up permanent keys repeatedly while other keys come and go, which
// moves the permanent keys. Every lookup must find all permanent keys with their values. The map
// has a fixed size and is almost full.
func LookupsAlongsideMoves(t testing.TB, dev device.Device, m AnyMap[uint32, uint32], nPermanent, nTransient int) {
	t.Helper()
	const lookups = 5
	change, look := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
	keys := Sequence[uint32](1, nPermanent)
	on := devicetest.Upload(t, look, keys)
	vals, found := devicetest.Upload(t, look, make([]uint32, nPermanent*lookups)), devicetest.Upload(t, look, make([]bool, nPermanent*lookups))
	uploadBatch := func(round int) device.Slice[uint32] {
		return devicetest.Upload(t, change, Sequence[uint32](1000*(round+1), nTransient))
	}
	before := uploadBatch(0)
	must(t, errors.Join(look.Sync(ctx()), m.PutOn(change, before, before), m.PutOn(change, on, on), m.Sync(ctx())))
	for round := 1; round < 6; round++ {
		next := uploadBatch(round)
		must(t, errors.Join(m.DeleteOn(change, before, device.Slice[bool]{}), change.Sync(ctx())))
		for i := range lookups {
			lo, hi := i*nPermanent, (i+1)*nPermanent
			must(t, m.GetOn(look, on, vals.Sub(lo, hi), found.Sub(lo, hi)))
		}
		must(t, m.PutOn(change, next, next)) // this call waits, because the table is nearly full
		present, got := make([]bool, nPermanent*lookups), make([]uint32, nPermanent*lookups)
		must(t, errors.Join(found.CopyTo(ctx(), look, present), vals.CopyTo(ctx(), look, got), change.Sync(ctx())))
		for i := range present {
			if key := keys[i%nPermanent]; !present[i] || got[i] != key {
				t.Fatalf("round %d, lookup %d: key %d has value %d, found is %v", round, i/nPermanent, key, got[i], present[i])
			}
		}
		must(t, m.Sync(ctx()))
		before = next
	}
}

// SaveAcrossDevices copies a map from device to device, twice around, by saving and loading it.
// Each loaded map must have all keys.
func SaveAcrossDevices(t testing.TB, open Maker[AnyMap[uint32, uint32]], keys []uint32, devices ...device.Device) {
	t.Helper()
	p := target[AnyMap[uint32, uint32]]{open: open}
	m := p.newStructure(t, devices[0])
	n, err := m.Put(ctx(), keys, keys)
	WantCount(t, "Put", n, len(keys), err)
	for range 2 {
		for _, dev := range devices {
			var file bytes.Buffer
			_, err := m.Save(ctx(), &file)
			must(t, err)
			m = p.newStructure(t, dev)
			n, err := m.Load(ctx(), &file)
			WantCount(t, "Load", n, len(keys), err)
			WantPairs(t, m, keys)
			check(t, m)
		}
	}
}
