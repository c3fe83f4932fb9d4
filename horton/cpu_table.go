package horton

import (
	"iter"
	"math"
	"unsafe"

	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/cpu"
)

// cpuTable gives Go code access to the slots of a generation. All pointer arithmetic is in slotsAt
// and number.
type cpuTable[K cpu.Key, V cpu.Val] struct {
	geometry
	base unsafe.Pointer
}

func tableOf[K cpu.Key, V cpu.Val](g *generation) cpuTable[K, V] {
	return cpuTable[K, V]{geometry: g.geometry, base: unsafe.Pointer(unsafe.SliceData(g.Buf.Host))}
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

func (t *cpuTable[K, V]) slot(i uint32) *cpu.Slot[K, V] { return &t.slotsAt(i, 1)[0] }

func (t *cpuTable[K, V]) bucket(i uint32) []cpu.Slot[K, V] {
	return t.slotsAt(i<<t.shift, 1<<t.shift)
}

func (t *cpuTable[K, V]) secondaryBucket(i uint32) []cpu.Slot[K, V] {
	return t.slotsAt(i<<t.secondaryShift(), 1<<t.secondaryShift())
}

func (t *cpuTable[K, V]) line(i uint32) []cpu.Slot[K, V] {
	return t.slotsAt(i*t.perLine(), t.perLine())
}

// number returns the index of a slot in the table.
func (t *cpuTable[K, V]) number(s *cpu.Slot[K, V]) uint32 {
	return uint32((uintptr(unsafe.Pointer(s)) - uintptr(t.base)) / uintptr(t.slotBytes()))
}

// firstLine returns the line in which a bucket begins. lastLine returns the line in which it ends.
func (t *cpuTable[K, V]) firstLine(bucket uint32) uint32 { return bucket << t.shift / t.perLine() }
func (t *cpuTable[K, V]) lastLine(bucket uint32) uint32 {
	return (bucket<<t.shift + 1<<t.shift - 1) / t.perLine()
}

// pieceShift is the binary logarithm of the unit of prefetching in bytes, a cache line.
const pieceShift = 6

// maxPieces is the maximum number of cache lines of a bucket. It has up to 16 slots of 16 bytes.
const maxPieces = bucket.MaxSlots * 16 >> pieceShift

// pieces appends the cache lines of a bucket with 1<<shift slots to dst. All lines are needed,
// since a miss reads the last slot.
func (t *cpuTable[K, V]) pieces(dst []uint32, bucket, shift uint32) []uint32 {
	first := uint64(bucket) << shift * uint64(t.slotBytes())
	last := first + uint64(t.slotBytes())<<shift - 1
	for p := first >> pieceShift; p <= last>>pieceShift; p++ {
		dst = append(dst, uint32(p))
	}
	return dst
}

// find returns the slot that has a stored key, or nil. An array never equals a key.
func find[K cpu.Key, V cpu.Val](slots []cpu.Slot[K, V], key K) *cpu.Slot[K, V] {
	for i := range slots {
		if slots[i].Key == key {
			return &slots[i]
		}
	}
	return nil
}

// freeSlot returns a slot without a key, or nil. An array never looks free.
func freeSlot[K cpu.Key, V cpu.Val](slots []cpu.Slot[K, V]) *cpu.Slot[K, V] {
	for i := range slots {
		if isFree(slots[i].Key) {
			return &slots[i]
		}
	}
	return nil
}

// isFree reports whether a slot with this stored key has neither a key nor entries.
func isFree[K cpu.Key](key K) bool { return isSentinel(key) }

// vacate marks a slot empty after its key has moved.
func vacate[K cpu.Key, V cpu.Val](s *cpu.Slot[K, V]) {
	writeArray(s, array{low: math.MaxUint64, high: math.MaxUint64})
}

func isKey[K cpu.Key, V cpu.Val](s *cpu.Slot[K, V]) bool {
	return !isSentinel(s.Key) && !isArray(s)
}

// isArray reports whether the last slot of a bucket holds its remap entries.
func isArray[K cpu.Key, V cpu.Val](last *cpu.Slot[K, V]) bool { return last.Key&typeBit[K, V]() == 0 }

func last[K cpu.Key, V cpu.Val](slots []cpu.Slot[K, V]) *cpu.Slot[K, V] {
	return &slots[len(slots)-1]
}

// sentinelSlot returns the slot of a key that looks like a sentinel.
func (t *cpuTable[K, V]) sentinelSlot(p path[K]) *cpu.Slot[K, V] {
	return &t.line(t.lines)[p.sentinelIndex()]
}

// remappedBucket returns the secondary bucket for a key that is absent from the given slots of its
// primary bucket. ok is false if the bucket has no entry for the key.
func (t *cpuTable[K, V]) remappedBucket(slots []cpu.Slot[K, V], p path[K]) (bucket uint32, ok bool) {
	if !isArray(last(slots)) {
		return 0, false
	}
	h := home{p.bucket, tagOf[K, V](p.key)}
	i := arrayOf(last(slots)).entry(h.tag)
	if i == 0 {
		return 0, false
	}
	return t.secondary(h, entriesOf[K, V](), i), true
}

// isOf reports whether a slot of a secondary bucket has a key of home h.
func (t *cpuTable[K, V]) isOf(h home, s *cpu.Slot[K, V]) bool {
	return isKey(s) && twins(t.geometry, s.Key) == h.bucket>>1 && homeOf[K, V](t.geometry, s.Key, t.number(s)) == h
}

// TryInsert implements [bucket.Table]. The key of the pair is in its original form.
func (t *cpuTable[K, V]) TryInsert(part cpu.Share, pair *cpu.Slot[K, V]) bool {
	p := pathOf[K, V](t.geometry, pair.Key)
	if isSentinel(p.key) || t.firstLine(p.bucket) < part.Lo || t.lastLine(p.bucket) >= part.Hi {
		return false
	}
	s := freeSlot(t.bucket(p.bucket))
	if s == nil {
		return false
	}
	*s = cpu.Slot[K, V]{Key: p.key, Val: pair.Val}
	return true
}

// Insert implements [bucket.Table].
func (t *cpuTable[K, V]) Insert(pair *cpu.Slot[K, V]) bool {
	p := pathOf[K, V](t.geometry, pair.Key)
	if isSentinel(p.key) {
		*t.sentinelSlot(p) = cpu.Slot[K, V]{Key: K(p.sentinelIndex()), Val: pair.Val}
		return true
	}
	m := mover[K, V]{cpuTable: t}
	s := m.makeSlot(p)
	if s == nil {
		return false
	}
	*s = cpu.Slot[K, V]{Key: p.key, Val: pair.Val}
	return true
}

// Units implements [bucket.Table].
func (t *cpuTable[K, V]) Units() uint32 { return t.lines + 1 }

// Live implements [bucket.Table].
func (t *cpuTable[K, V]) Live(lo, hi uint32) iter.Seq[*cpu.Slot[K, V]] {
	return func(yield func(*cpu.Slot[K, V]) bool) {
		var pair cpu.Slot[K, V]
		for line := lo; line < hi; line++ {
			slots := t.line(line)
			for i := range slots {
				key, ok := t.keyIn(line, &slots[i])
				if pair = (cpu.Slot[K, V]{Key: key, Val: slots[i].Val}); ok && !yield(&pair) {
					return
				}
			}
		}
	}
}

// keyIn returns the original key in a slot of a line, if the slot has one.
func (t *cpuTable[K, V]) keyIn(line uint32, s *cpu.Slot[K, V]) (key K, ok bool) {
	switch {
	case line == t.lines && !isSentinel(s.Key):
		return sentinelKey[K, V](t.geometry, uint32(s.Key)), true
	case line == t.lines || !isKey(s):
		return 0, false
	}
	return keyAt[K, V](t.geometry, s.Key, t.number(s)), true
}

func (t *cpuTable[K, V]) countBuckets(lo, hi uint32) (c bucketCounts) {
	for b := lo; b < hi; b++ {
		slots := t.bucket(b)
		array := isArray(last(slots))
		if array {
			c.arrays++
			c.entries += uint64(arrayOf(last(slots)).countSet(entriesOf[K, V]()))
		}
		free := false
		for i := range slots {
			free = free || isFree(slots[i].Key)
			if isKey(&slots[i]) && !isPrimary(t.geometry, slots[i].Key, b<<t.shift+uint32(i)) {
				c.secondary++
				if array {
					c.displaced++
				}
			}
		}
		if !free {
			c.full++
		}
	}
	return c
}
