package horton

import (
	"encoding/binary"
	"fmt"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
)

// Images has the kernels. MixedImages has the kernels for mixed batches and reductions.
var Images, MixedImages = conformance.Images(hortonImages), conformance.Images(hortonMixedImages)

// Pages are small in tests, so that small tables have several.
func init() { core.PageBytes = 1 << 12 }

// Crowded returns options of a table that may be full to its last slot.
func Crowded(o Options) *Options {
	o.crowded = true
	return &o
}

// CheckInvariants reads all of a map's memory and reports violations of the layout; see
// image.check. Conformance calls it after each test.
func (m *Map[K, V]) CheckInvariants() error { return m.table.checkInvariants() }

// CheckInvariants checks a set. See [Map.CheckInvariants].
func (s *Set[K]) CheckInvariants() error { return s.table.checkInvariants() }

func (t *table) checkInvariants() error {
	return conformance.CheckMemory(t.core, func(p core.Parts, m conformance.Memory) error {
		im := image{p.(*generation).geometry, m, t.engine.deleted() > 0}
		return im.check()
	})
}

// image is the memory of a table, read as layout.go describes it. It shares no code with the
// engines except the hash functions.
type image struct {
	geometry
	conformance.Memory
	deleted bool // since entries were reclaimed
}

// key returns the key of a slot.
func (im *image) key(i int) uint64 {
	key, _ := im.In(im.Mem, i)
	return key
}

// typeBit returns the type bit of keys.
func (im *image) typeBit() uint64 {
	if im.Slot == 8 && im.Val != 0 {
		return 1 << 4
	}
	return 1 << 3
}

// entries returns the remap entries in a slot.
func (im *image) entries(slot int) (all []uint32) {
	b, used := im.Mem[slot*im.Slot:], 64 // used is the type bit
	take := func(word uint64, bit, n int) {
		for shift := 0; len(all) < n; shift += 3 {
			if shift == bit {
				shift++
			}
			all = append(all, uint32(word>>shift)&7)
		}
	}
	switch {
	case im.Slot == 4:
		take(uint64(binary.LittleEndian.Uint32(b)), 3, 10)
	case im.Slot == 8 && im.Val == 0:
		take(binary.LittleEndian.Uint64(b), 3, 21)
	case im.Slot == 8:
		take(binary.LittleEndian.Uint64(b), 36, 21)
	default:
		take(binary.LittleEndian.Uint64(b[8:]), 3, 21)
		take(binary.LittleEndian.Uint64(b), used, 42)
	}
	return all
}

// home returns the home of the stored key in a slot.
func (im *image) home(key uint64, slot uint32) home {
	switch {
	case im.Slot == 4:
		return homeOf[uint32, struct{}](im.geometry, uint32(key), slot)
	case im.KeyBits() == 32:
		return homeOf[uint32, uint32](im.geometry, uint32(key), slot)
	case im.Val == 0:
		return homeOf[uint64, struct{}](im.geometry, key, slot)
	}
	return homeOf[uint64, uint64](im.geometry, key, slot)
}

// check checks that every key occurs once: in its primary bucket, in the secondary bucket that its
// entry gives, or in its own slot if it looks like a sentinel. Only few keys may be secondary
// because a key of another bucket has their slot. An entry must belong to a present key, unless
// keys have been deleted since. No slot may be half written, and the counters must match the slots.
func (im *image) check() error {
	per := lineBytes / im.Slot
	slots := int(im.buckets) << im.shift
	if slots != int(im.lines)*per || im.buckets%2 != 0 {
		return fmt.Errorf("%d buckets in %d lines", im.buckets, im.lines)
	}
	seen := map[[2]uint64]int{}
	at := map[home]uint32{} // the buckets of secondary keys
	// Numbers of secondary keys, by their primary buckets and by the buckets that hold them.
	away, others := map[uint32]int{}, map[uint32]int{}
	var live, used uint64
	for i := range slots + per {
		key, end := im.key(i), (i+1)%(1<<im.shift) == 0
		switch {
		case key == im.Sentinel(0):
			continue
		case key == im.Sentinel(1):
			used++
			continue
		case key == im.Sentinel(2), key == im.Sentinel(absent):
			return fmt.Errorf("slot %d holds sentinel %#x", i, key)
		case i >= slots:
			if live, used = live+1, used+1; key >= 8 || int(key) != i%per {
				return fmt.Errorf("slot %d of the extra line holds %#x", i%per, key)
			}
			continue
		case key&im.typeBit() == 0 && end:
			continue
		case key&im.typeBit() == 0:
			return fmt.Errorf("slot %d holds %#x, which is no key", i, key)
		}
		live, used = live+1, used+1
		h := im.home(key, uint32(i))
		name := [2]uint64{key, uint64(h.bucket & 1)}
		if other, twice := seen[name]; twice {
			return fmt.Errorf("key %#x is in slots %d and %d", key, other, i)
		}
		seen[name] = i
		if h.bucket != uint32(i>>im.shift) {
			to := uint32(i >> im.secondaryShift())
			if b, ok := at[h]; ok && b != to {
				return fmt.Errorf("keys of bucket %d and tag %d are in buckets %d and %d", h.bucket, h.tag, b, to)
			}
			at[h] = to
			away[h.bucket]++
			others[uint32(i>>im.shift)]++
		}
	}
	if err := im.CheckCounters(live, used); err != nil {
		return err
	}
	if err := im.checkPrimacy(away, others, int(live)); err != nil {
		return err
	}
	return im.checkEntries(at)
}

// displaced counts the primary keys that secondary keys of other buckets keep out. A bucket counts
// at most its keys that are elsewhere, and at most the other keys in its slots.
func displaced(away, others map[uint32]int) (n int) {
	for b, keys := range away {
		n += min(keys, others[b])
	}
	return n
}

// checkPrimacy checks that few keys are kept out in this way (section 5.3, guideline 1). A key that
// shares its entry stays if no other bucket takes all keys of the entry. During an iteration every
// key stays. The limit of one in forty keys is more than full tables have, except the smallest.
// (Observed: one in eighty on a GPU, with concurrent threads, and one in three hundred on a CPU.)
// Tables that delete keys and never reclaim keep out more.
func (im *image) checkPrimacy(away, others map[uint32]int, live int) error {
	most := 4 + live/40
	if im.deleted {
		most = 4 + live/7
	}
	if n := displaced(away, others); n > most {
		return fmt.Errorf("%d of %d keys are not in their primary buckets, where secondary ones are in their place; %d may be", n, live, most)
	}
	return nil
}

// checkEntries checks that the entries of all buckets give the secondary buckets in at.
func (im *image) checkEntries(at map[home]uint32) error {
	set := 0
	for b := range im.buckets {
		slot := int(b+1)<<im.shift - 1
		if im.key(slot)&im.typeBit() != 0 {
			continue
		}
		entries := im.entries(slot)
		for tag, i := range entries {
			h := home{b, uint32(tag)}
			to, any := at[h]
			switch {
			case i == 0:
				continue
			case any && to != im.secondary(h, uint32(len(entries)), i):
				return fmt.Errorf("entry %d of bucket %d says bucket %d, the keys are in %d", tag, b, im.secondary(h, uint32(len(entries)), i), to)
			case any:
				set++
			case !im.deleted:
				return fmt.Errorf("entry %d of bucket %d is of no key", tag, b)
			}
		}
	}
	if set != len(at) {
		return fmt.Errorf("keys of %d tags are outside of their buckets, with %d entries", len(at), set)
	}
	return nil
}
