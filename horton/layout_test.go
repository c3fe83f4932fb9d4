package horton

import (
	"math"
	"slices"
	"testing"

	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/cpu"
)

// shapes has layouts with all slot sizes and several bucket sizes.
var shapes = []layout{{1, 4}, {8, 4}, {1, 8}, {2, 8}, {8, 8}, {16, 8}, {2, 16}, {4, 16}, {16, 16}}

// The stored form of a key and its slot determine the key, in its primary bucket and in all
// secondary ones. Each function uses all buckets evenly.
func TestKeysComeBack(t *testing.T) {
	for _, l := range shapes {
		g := l.geometry(bucket.Size{Lines: 24 * l.lineMultiple(), Seed: 99})
		if int(g.buckets)*l.slots*l.slotBytes != int(g.lines)*lineBytes || g.buckets%2 != 0 {
			t.Errorf("%+v: %d buckets in %d lines", l, g.buckets, g.lines)
		}
		switch l.slotBytes {
		case 4:
			keysComeBack[uint32, struct{}](t, g)
		case 8:
			keysComeBack[uint32, uint32](t, g)
			keysComeBack[uint64, struct{}](t, g)
		default:
			keysComeBack[uint64, uint64](t, g)
		}
	}
}

func keysComeBack[K cpu.Key, V cpu.Val](t *testing.T, g geometry) {
	const keys = 1 << 16
	n := [1 + functions][]int{make([]int, g.buckets)}
	var sides [2][2]float64 // by type bit, and by which twin a secondary bucket is
	entries := entriesOf[K, V]()
	for i := uint32(1); i <= functions; i++ {
		n[i] = make([]int, 2*g.nPairs())
	}
	for k := K(0); k < keys; k++ {
		p := pathOf[K, V](g, k)
		h := home{p.bucket, tagOf[K, V](p.key)}
		if h.tag >= entries || p.bucket >= g.buckets {
			t.Fatalf("key %d: %+v of %d entries", k, h, entries)
		}
		for i := range uint32(functions + 1) {
			at, slot := p.bucket, p.bucket<<g.shift
			if i > 0 {
				at = g.secondary(h, entries, i)
				slot = at<<g.secondaryShift() + uint32(k)%(1<<g.secondaryShift())
			}
			n[i][at]++
			if i > 0 && g.overlaps(h, at) {
				continue
			}
			if i > 0 {
				sides[p.bucket&1][at&1]++
			}
			if got := keyAt[K, V](g, p.key, slot); got != k || homeOf[K, V](g, p.key, slot) != h || isPrimary(g, p.key, slot) != (i == 0) {
				t.Fatalf("key %d, function %d: %d comes back from slot %d of home %+v, not %+v", k, i, got, slot, homeOf[K, V](g, p.key, slot), h)
			}
		}
	}
	for bit, n := range sides {
		if n[0] < .8*n[1] || n[1] < .8*n[0] {
			t.Errorf("%+v: keys with type bit %d have %g and %g secondary buckets in the halves of the table", g, bit, n[0], n[1])
		}
	}
	for i, n := range n {
		// All keys of a home go to one bucket, so they are spread less evenly.
		mean, group := float64(keys)/float64(len(n)), 1.0
		if i > 0 {
			group = 1 + float64(keys)/float64(g.buckets*entries)
		}
		if most := float64(slices.Max(n)); most > mean+7*math.Sqrt(mean*group) {
			t.Errorf("%+v: function %d gives a bucket %g keys, the mean is %g", g, i, most, mean)
		}
	}
}

// Entries overlap neither each other nor the type bit.
func TestArrays(t *testing.T) {
	arrays[uint32, struct{}](t, 10)
	arrays[uint64, struct{}](t, 21)
	arrays[uint32, uint32](t, 21)
	arrays[uint64, uint64](t, 42)
}

func arrays[K cpu.Key, V cpu.Val](t *testing.T, entries uint32) {
	if got := entriesOf[K, V](); got != entries {
		t.Fatalf("%d entries, not %d", got, entries)
	}
	var s cpu.Slot[K, V]
	want := make([]uint32, entries)
	for i := range 20 * entries {
		tag, entry := i*7%entries, i*i%(functions+1)
		writeArray(&s, arrayOf(&s).withEntry(tag, entry))
		want[tag] = entry
		set := 0
		for tag, entry := range want {
			if got := arrayOf(&s).entry(uint32(tag)); got != entry {
				t.Fatalf("entry %d is %d, not %d", tag, got, entry)
			}
			set += int(min(entry, 1))
		}
		if !isArray(&s) || isKey(&s) || isFree(s.Key) || arrayOf(&s).countSet(entries) != set {
			t.Fatalf("%+v with %d entries", s, set)
		}
	}
	if vacate(&s); isArray(&s) || !isFree(s.Key) || s.Key != cpu.Sentinel[K](cpu.Empty) {
		t.Fatalf("%+v is not empty", s)
	}
}

// Keys that look like sentinels have their own slots.
func TestOwnSlots(t *testing.T) {
	sentinelSlots[uint32, uint32](t)
	sentinelSlots[uint64, uint64](t)
	sentinelSlots[uint32, struct{}](t)
}

func sentinelSlots[K cpu.Key, V cpu.Val](t *testing.T) {
	g := layout{8, 8}.geometry(bucket.Size{Lines: 8, Seed: 3})
	seen := map[uint32]bool{}
	for i := K(0); i <= lastSentinel; i++ {
		for _, mixed := range []K{^i, ^i &^ typeBit[K, V]()} {
			key := unmix(g, mixed)
			p := pathOf[K, V](g, key)
			if !isSentinel(p.key) || p.sentinelIndex() > 7 || seen[p.sentinelIndex()] || sentinelKey[K, V](g, p.sentinelIndex()) != key {
				t.Errorf("mixed key %#x has slot %d, which is of %#x", mixed, p.sentinelIndex(), sentinelKey[K, V](g, p.sentinelIndex()))
			}
			seen[p.sentinelIndex()] = true
		}
	}
}
