package cuckoo

import (
	"fmt"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
)

// Images has the kernels. MixedImages has the kernels for mixed batches and reductions.
var Images, MixedImages = conformance.Images(cuckooImages), conformance.Images(cuckooMixedImages)

// Pages are small in tests, so that small tables have several.
func init() { core.PageBytes = 1 << 12 }

// Crowded returns options of a table that may be full to its last slot.
func Crowded(o Options) *Options {
	o.crowded = true
	return &o
}

// KeysOf returns n keys, starting at from, with the given two buckets in that order.
func (m *Map[K, V]) KeysOf(first, second uint32, from K, n int) (keys []K) {
	for k := from; len(keys) < n; k++ {
		if pathOf(m.engine.geometry(), uint32(k)) == (path{first, second}) {
			keys = append(keys, k)
		}
	}
	return keys
}

// CheckInvariants reads all of a map's memory and reports violations of the layout; see
// image.check. Conformance calls it after each test.
func (m *Map[K, V]) CheckInvariants() error { return m.table.checkInvariants() }

// CheckInvariants checks a set. See [Map.CheckInvariants].
func (s *Set[K]) CheckInvariants() error { return s.table.checkInvariants() }

func (t *table) checkInvariants() error {
	return conformance.CheckMemory(t.core, func(p core.Parts, m conformance.Memory) error {
		im := image{p.(*generation).geometry, t.mode, m}
		return im.check()
	})
}

// image is the memory of a table, read as layout.go describes it. It shares no code with the
// engines except the hash functions.
type image struct {
	geometry
	mode
	conformance.Memory
}

// key returns the key of a slot.
func (im *image) key(i int) uint64 {
	key, _ := im.In(im.Mem, i)
	return key
}

// path returns the path of a stored key.
func (im *image) path(key uint64) path {
	if im.KeyBits() == 32 {
		return pathOf(im.geometry, uint32(key))
	}
	return pathOf(im.geometry, key)
}

// check checks that every key occurs once: in one of its buckets, in its line of the stash, or in
// its own slot if it looks like a sentinel. Without load balancing, a key may be past its first
// bucket only if earlier buckets have no never-used slot. No slot may be half written, and the
// counters must match the slots.
func (im *image) check() error {
	per := lineBytes / im.Slot
	buckets := int(im.buckets) << im.shift
	if buckets != int(im.bucketLines())*per {
		return fmt.Errorf("%d buckets in %d lines", im.buckets, im.bucketLines())
	}
	seen := map[uint64]int{}
	var live, used uint64
	for i := range (int(im.lines) + 1) * per {
		key := im.key(i)
		switch key {
		case im.Sentinel(0):
			continue
		case im.Sentinel(1):
			used++
			continue
		case im.Sentinel(2), im.Sentinel(absent):
			return fmt.Errorf("slot %d holds sentinel %#x", i, key)
		}
		live, used = live+1, used+1
		if err := im.place(i, key, i/per >= int(im.lines), i >= buckets); err != nil {
			return err
		}
		name := key
		if i/per >= int(im.lines) {
			name = im.Sentinel(key)
		}
		if at, twice := seen[name]; twice {
			return fmt.Errorf("key %#x is in slots %d and %d", name, at, i)
		}
		seen[name] = i
	}
	return im.CheckCounters(live, used)
}

// place reports a key that may not be in slot i.
func (im *image) place(i int, key uint64, extra, stashed bool) error {
	per := lineBytes / im.Slot
	if extra {
		if key > lastSentinel || int(key) != i%per {
			return fmt.Errorf("slot %d of the extra line holds %#x", i%per, key)
		}
		return nil
	}
	p, last := im.path(key), im.functions
	at := uint32(0)
	for at < last && (stashed || p.bucket(im.geometry, at) != uint32(i>>im.shift)) {
		at++
	}
	if at == last && (im.stash == 0 || !stashed || p.stashLine(im.geometry) != uint32(i/per)) {
		return fmt.Errorf("key %#x is in slot %d: its buckets are those of %+v", key, i, p)
	}
	for b := range at {
		for s := range 1 << im.shift {
			if im.key(int(p.bucket(im.geometry, b))<<im.shift+s) == im.Sentinel(0) && !im.loadBalancing {
				return fmt.Errorf("key %#x is in slot %d though its bucket %d has an empty one", key, i, b)
			}
		}
	}
	return nil
}
