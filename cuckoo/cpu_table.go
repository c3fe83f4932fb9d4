package cuckoo

import (
	"iter"
	"unsafe"

	"github.com/weftgo/weft/internal/cpu"
)

// cpuTable gives Go code access to the slots of a generation. All pointer arithmetic is in slotsAt.
type cpuTable[K cpu.Key, V cpu.Val] struct {
	geometry
	mode
	base unsafe.Pointer
}

func tableOf[K cpu.Key, V cpu.Val](g *generation, m mode) cpuTable[K, V] {
	return cpuTable[K, V]{g.geometry, m, unsafe.Pointer(unsafe.SliceData(g.Buf.Host))}
}

// slotBytes and perLine are constant in each instantiation.
func (t *cpuTable[K, V]) slotBytes() int {
	var s cpu.Slot[K, V]
	return int(unsafe.Sizeof(s))
}
func (t *cpuTable[K, V]) perLine() uint32 { return uint32(lineBytes / t.slotBytes()) }

// slotsAt returns n adjacent slots. first is the index of the first one in the table.
func (t *cpuTable[K, V]) slotsAt(first, n uint32) []cpu.Slot[K, V] {
	return unsafe.Slice((*cpu.Slot[K, V])(unsafe.Add(t.base, uintptr(first)*uintptr(t.slotBytes()))), n)
}

func (t *cpuTable[K, V]) bucket(i uint32) []cpu.Slot[K, V] {
	return t.slotsAt(i<<t.shift, 1<<t.shift)
}

func (t *cpuTable[K, V]) line(i uint32) []cpu.Slot[K, V] {
	return t.slotsAt(i*t.perLine(), t.perLine())
}

// sentinelSlot returns the slot of a key that looks like a sentinel. The stored form of the key is
// the index of the slot in the extra line.
func (t *cpuTable[K, V]) sentinelSlot(stored K) *cpu.Slot[K, V] {
	return &t.line(t.lines)[stored]
}

// pieceShift is the binary logarithm of the unit of prefetching in bytes, a cache line.
const pieceShift = 6

// piece returns the number of the cache line in which a bucket begins.
func (t *cpuTable[K, V]) piece(bucket uint32) uint32 {
	return uint32((uint64(bucket) << t.shift * uint64(t.slotBytes())) >> pieceShift)
}

func (t *cpuTable[K, V]) lastLine(bucket uint32) uint32 {
	return uint32(((uint64(bucket)+1)<<t.shift - 1) / uint64(t.perLine()))
}

func (t *cpuTable[K, V]) firstLine(bucket uint32) uint32 {
	return uint32((uint64(bucket) << t.shift) / uint64(t.perLine()))
}

// find returns the slot that has a stored key, or nil. If the key is absent, hasEmpty reports
// whether a slot was never used.
func find[K cpu.Key, V cpu.Val](slots []cpu.Slot[K, V], key K) (at *cpu.Slot[K, V], hasEmpty bool) {
	for i := range slots {
		switch slots[i].Key {
		case key:
			return &slots[i], false
		case cpu.Sentinel[K](cpu.Empty):
			hasEmpty = true
		}
	}
	return nil, hasEmpty
}

// endsSearch reports whether a key that is absent from a bucket is also absent from the key's later
// buckets. hasEmpty says whether the bucket has a never-used slot. With FirstFit, keys go to the
// next bucket only if one is full, and a used slot is never empty again.
func (t *cpuTable[K, V]) endsSearch(hasEmpty bool) bool { return hasEmpty && !t.loadBalancing }

// findFrom searches the buckets of a path from bucket i on, and the stash.
func (t *cpuTable[K, V]) findFrom(i uint32, p path, key K) *cpu.Slot[K, V] {
	for ; i < t.functions; i++ {
		if at, hasEmpty := find(t.bucket(p.bucket(t.geometry, i)), key); at != nil || t.endsSearch(hasEmpty) {
			return at
		}
	}
	if t.stash > 0 {
		at, _ := find(t.line(p.stashLine(t.geometry)), key)
		return at
	}
	return nil
}

// searchResult is the result of a search for a key and for a free slot.
type searchResult[K cpu.Key, V cpu.Val] struct {
	live        *cpu.Slot[K, V] // slot of the key; nil if absent
	free        *cpu.Slot[K, V] // empty or dead slot for the key; nil if none
	leavesShare bool            // a bucket lies outside the share
}

// search searches all buckets of a key, and the stash. It stops at a bucket outside the share.
func (t *cpuTable[K, V]) search(part cpu.Share, p path, key K) (s searchResult[K, V]) {
	maxFree := 0
	for i := range t.functions {
		b := p.bucket(t.geometry, i)
		if t.firstLine(b) < part.Lo || t.lastLine(b) >= part.Hi {
			return searchResult[K, V]{leavesShare: true}
		}
		slots, hasEmpty, free := t.bucket(b), false, 0
		var first *cpu.Slot[K, V]
		for j := range slots {
			switch slots[j].Key {
			case key:
				s.live = &slots[j]
				return s
			case cpu.Sentinel[K](cpu.Empty):
				hasEmpty = true
				fallthrough
			case cpu.Sentinel[K](cpu.Dead):
				if free++; free == 1 {
					first = &slots[j]
				}
			}
		}
		if free > maxFree && (s.free == nil || t.loadBalancing) {
			s.free, maxFree = first, free
		}
		if t.endsSearch(hasEmpty) {
			return s
		}
	}
	if t.stash > 0 {
		line := p.stashLine(t.geometry)
		if line < part.Lo || line >= part.Hi {
			return searchResult[K, V]{leavesShare: true}
		}
		s.live, _ = find(t.line(line), key)
	}
	return s
}

// TryInsert implements [bucket.Table].
func (t *cpuTable[K, V]) TryInsert(part cpu.Share, pair *cpu.Slot[K, V]) bool {
	p := pathOf(t.geometry, pair.Key)
	s := t.search(part, p, pair.Key)
	if s.free == nil {
		return false
	}
	*s.free = *pair
	return true
}

// Insert implements [bucket.Table]. It also inserts keys that look like sentinels.
func (t *cpuTable[K, V]) Insert(pair *cpu.Slot[K, V]) bool {
	if stored := ^pair.Key; isSentinel(pair.Key) {
		*t.sentinelSlot(stored) = cpu.Slot[K, V]{Key: stored, Val: pair.Val}
		return true
	}
	p := pathOf(t.geometry, pair.Key)
	free := t.search(cpu.Share{Hi: t.Units()}, p, pair.Key).free
	if free == nil {
		free, _, _ = t.evict(p)
	}
	if free == nil {
		free = t.freeStashSlot(p)
	}
	if free == nil {
		return false
	}
	*free = *pair
	return true
}

// Units implements [bucket.Table].
func (t *cpuTable[K, V]) Units() uint32 { return t.lines + 1 }

// Live implements [bucket.Table].
func (t *cpuTable[K, V]) Live(lo, hi uint32) iter.Seq[*cpu.Slot[K, V]] {
	return func(yield func(*cpu.Slot[K, V]) bool) {
		var pair cpu.Slot[K, V]
		for i := lo; i < hi; i++ {
			for _, pair = range t.line(i) {
				if isSentinel(pair.Key) {
					continue
				}
				if i == t.lines {
					pair.Key = ^pair.Key
				}
				if !yield(&pair) {
					return
				}
			}
		}
	}
}

func (t *cpuTable[K, V]) countBuckets(lo, hi uint32) (c bucketCounts) {
	for b := lo; b < hi; b++ {
		slots, hasEmpty := t.bucket(b), false
		for i := range slots {
			key := slots[i].Key
			hasEmpty = hasEmpty || key == cpu.Sentinel[K](cpu.Empty)
			if isSentinel(key) {
				continue
			}
			p, at := pathOf(t.geometry, key), uint32(0)
			for at < t.functions-1 && p.bucket(t.geometry, at) != b {
				at++
			}
			c.passed += uint64(at)
		}
		if !hasEmpty {
			c.full++
		}
	}
	return c
}
