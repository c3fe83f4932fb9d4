package horton

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
)

// The memory of a table has the layout of [core.Lines], the same on every device (see
// kernels/include/weft/horton_table.cuh). A slot has a key and its value in one word, so that one
// compare-and-swap publishes both. It has 8 bytes for 32-bit keys with 32-bit values, 16 bytes for
// pairs with a 64-bit part, and just the key in a set.
//
//	buckets          1 to 16 slots each, contiguous
//	extra line       keys that look like sentinels, in their own slots
//	tally            counters
//
// Keys are stored mixed: a key's hash by the table's seed is a bijection, so the key can be
// recovered from it. The last slot of a bucket of type B is its array of remap entries (paper,
// section 4, figure 2). One bit of the key in that slot, the type bit, distinguishes the types: if
// it is clear, the slot is an array. All keys, in any slot, are stored with the bit set. So a
// comparison of keys never matches an array, and an array never looks free, since sentinels have
// the bit, too. The original value of the bit follows from the place of the key. Buckets come in
// pairs, called twins. The other bits of the key select the pair, and the original type bit selects
// one of the twins. So even a bucket of one slot takes any key.
//
// The other bits of the slot are entries of three bits, from the lowest one on. They lie in the key
// around the type bit, and with 32-bit values in key and value. If a value has 64 bits, further
// entries lie in the value:
//
//	slot                 type bit   entries
//	4 bytes: key         3          10 (a bit is left over)
//	8 bytes: key         3          21
//	8 bytes: key, value  36         21
//	16 bytes             3          42: 21 in each half (in the value a bit is left over)
//
// An entry is 0 or the number of a function. The function gives the secondary bucket of all keys
// with this bucket and tag (section 5.3.4). Where buckets are small, several buckets form one
// secondary bucket.
const (
	lineBytes = core.LineBytes

	// maxSlots keeps slot numbers below 1<<32 for the kernels' 32-bit arithmetic.
	maxSlots = 1<<32 - 1<<8

	// An entry of three bits selects one of seven functions. So the paper's 21 entries and the type
	// bit fit a word, and seven buckets are enough to find a free slot near the maximum load.
	entryBits, functions = 3, 7
	// halfEntries is the number of entries in a slot of 8 bytes, or in half a slot of 16 bytes.
	halfEntries = 21
	// keyEntries is the number of entries in a slot of 4 bytes.
	keyEntries = 10
	// keyTypeBit and pairTypeBit are type bits. Each has a whole number of entries below it.
	keyTypeBit, pairTypeBit = 3, 36
)

// absent is the last sentinel, after those that all structures have. Kernels use it for places that
// are not slots of a bucket.
const absent = cpu.Pending + 1

const lastSentinel = absent

// sentinelShift is the position of the original type bit in the index of a slot in the extra line.
const sentinelShift = 2

// isSentinel reports whether a stored key has its own slot in the extra line.
func isSentinel[K cpu.Key](stored K) bool { return cpu.IsSentinel(stored, lastSentinel) }

// geometry is the part of a table's description that does not depend on the device.
type geometry struct {
	seed    uint64
	lines   uint32
	buckets uint32
	shift   uint32 // a bucket has 1<<shift slots
}

// layout determines the geometry of a table of any size.
type layout struct {
	slots     int // slots per bucket
	slotBytes int
}

// lineMultiple returns the number that the number of lines must be a multiple of. Primary and
// secondary buckets come in twins.
func (l layout) lineMultiple() uint32 {
	return uint32(max(1, 2*max(l.slots, 1<<minSecondaryShift)*l.slotBytes/lineBytes))
}

func (l layout) maxLines() uint32 {
	lines := uint32(min(uint64(maxSlots)*uint64(l.slotBytes)/lineBytes, 1<<30)) - 2
	return lines / l.lineMultiple() * l.lineMultiple()
}

func (l layout) geometry(s bucket.Size) geometry {
	return geometry{
		seed: s.Seed, lines: s.Lines, shift: uint32(bits.TrailingZeros(uint(l.slots))),
		buckets: uint32(uint64(s.Lines) * lineBytes / uint64(l.slots*l.slotBytes)),
	}
}

// Size returns the size that determines the geometry.
func (g geometry) Size() bucket.Size { return bucket.Size{Lines: g.lines, Seed: g.seed} }

func (g geometry) bytes() int { return core.LinesBytes(g.lines) }

// Constants of the hash functions, as in horton_table.cuh. The tag is the high part of a product
// with the stored key. It depends on the low bits of the key, which do not affect the bucket.
const (
	tagFactor32   = 0x9e3779b1
	tagFactor64   = 0x9e3779b97f4a7c15
	secondarySeed = 0x3c6ef372fe94f82a
)

// steps are the primes of equation 2. Their multiples up to the seventh differ from each other, and
// from 0, by at least a twentieth of 1<<32.
var steps = [8]uint32{0x1df9fd79, 0xc4aaeac1, 0xdf1582b1, 0x59b44e93, 0xb9a6442f, 0x8e317041, 0xf10637cf, 0x10755c97}

// mix returns the mixed form of a key.
func mix[K cpu.Key](g geometry, key K) K {
	if unsafe.Sizeof(key) == 4 {
		return K(hash.Uint32(uint32(key), g.seed))
	}
	return K(hash.Uint64(uint64(key), g.seed))
}

// unmix returns the original key of a mixed key.
func unmix[K cpu.Key](g geometry, mixed K) K {
	if unsafe.Sizeof(mixed) == 4 {
		return K(hash.Unmix32(uint32(mixed), g.seed))
	}
	return K(hash.Unmix64(uint64(mixed), g.seed))
}

// typeShift returns the position of the type bit in a key.
func typeShift[K cpu.Key, V cpu.Val]() int {
	var s cpu.Slot[K, V]
	if unsafe.Sizeof(s) == 8 && unsafe.Sizeof(s.Key) == 4 {
		return pairTypeBit - 32
	}
	return keyTypeBit
}

func typeBit[K cpu.Key, V cpu.Val]() K { return 1 << typeShift[K, V]() }

// path is the start of the search for a key.
type path[K cpu.Key] struct {
	key    K      // stored form: mixed, with the type bit set
	bucket uint32 // primary bucket
}

func pathOf[K cpu.Key, V cpu.Val](g geometry, key K) path[K] {
	mixed := mix(g, key)
	stored := mixed | typeBit[K, V]()
	return path[K]{stored, twins(g, stored)<<1 | uint32(mixed>>typeShift[K, V]())&1}
}

// twins returns the number of the pair of twins that contains the primary bucket of a key. The
// original type bit selects the bucket.
func twins[K cpu.Key](g geometry, stored K) uint32 {
	if unsafe.Sizeof(stored) == 4 {
		return hash.Reduce32(uint32(stored), g.buckets/2)
	}
	return uint32(hash.Reduce64(uint64(stored), uint64(g.buckets/2)))
}

// entriesOf returns the number of remap entries of an array.
func entriesOf[K cpu.Key, V cpu.Val]() uint32 {
	var s cpu.Slot[K, V]
	return layout{slotBytes: int(unsafe.Sizeof(s))}.entries()
}

func (l layout) entries() uint32 {
	switch l.slotBytes {
	case 4:
		return keyEntries
	case 8:
		return halfEntries
	}
	return 2 * halfEntries
}

// tagOf returns the tag of a key: the index of its entry.
func tagOf[K cpu.Key, V cpu.Val](stored K) uint32 {
	if unsafe.Sizeof(stored) == 4 {
		return hash.Reduce32(uint32(stored)*tagFactor32, entriesOf[K, V]())
	}
	return uint32(hash.Reduce64(uint64(stored)*tagFactor64, uint64(entriesOf[K, V]())))
}

// home identifies a remap entry by its primary bucket and tag. The keys of a home share the entry.
type home struct{ bucket, tag uint32 }

// number returns a number that is unique for the home's pair of twins and its tag (equation 1).
func (h home) number(entries uint32) uint64 {
	return uint64(h.bucket>>1)*uint64(entries) + uint64(h.tag)
}

func (g geometry) hash(number uint64) uint64 { return hash.Uint64(number, g.seed^secondarySeed) }

// minSecondaryShift gives secondary buckets at least eight slots: eight buckets of one slot, or two
// of four. Keys that share an entry need places in one secondary bucket. In secondary buckets of
// one slot, two such keys have no place, and at a load of 0.7 one in a hundred primary buckets has
// two. With secondary buckets of four slots, one in 50,000 keys is left without a place in all
// sizes up to four.
const minSecondaryShift = 3

// secondaryShift returns the shift of secondary buckets: each has 1<<shift slots. They are numbered
// separately from primary buckets.
func (g geometry) secondaryShift() uint32 { return max(g.shift, minSecondaryShift) }

// nPairs returns the number of pairs of secondary buckets. Like primary buckets, they come in
// twins.
func (g geometry) nPairs() uint32 { return g.buckets << g.shift >> (g.secondaryShift() + 1) }

// overlaps reports whether the primary bucket of a home lies in a secondary bucket or its twin.
// Such a secondary bucket has no keys of the home.
func (g geometry) overlaps(h home, secondary uint32) bool {
	return h.bucket<<g.shift>>(g.secondaryShift()+1) == secondary>>1
}

// secondary returns the bucket that function i, from 1 on, gives to the keys of a home. The
// functions begin at the hash of the home's number and advance by a step (equation 2). Hash and
// step are fractions of the table, and overflow replaces a modulus. The result may be the primary
// bucket: see overlaps. The original type bit selects one of the two twins and can be recovered
// from it. The selection varies by side, so that keys with the bit set do not all share one half of
// the table.
func (g geometry) secondary(of home, entries, i uint32) uint32 {
	n := of.number(entries)
	h := g.hash(n)
	to := hash.Reduce32(uint32(h)+steps[n%uint64(len(steps))]*i, g.nPairs())
	return to<<1 | (of.bucket&1 ^ side(h, to))
}

// side returns the twin that has the keys with a clear type bit. h is the hash of the home's
// number.
func side(h uint64, twins uint32) uint32 { return uint32(h>>32) * (twins + 1) >> 31 }

// homeOf returns the home of the stored key in a slot.
func homeOf[K cpu.Key, V cpu.Val](g geometry, stored K, slot uint32) home {
	h := home{slot >> g.shift, tagOf[K, V](stored)}
	if of := twins(g, stored); of != h.bucket>>1 {
		h.bucket = of << 1
		at := slot >> g.secondaryShift()
		h.bucket |= at&1 ^ side(g.hash(h.number(entriesOf[K, V]())), at>>1)
	}
	return h
}

// isPrimary reports whether the stored key in a slot is in its primary bucket.
func isPrimary[K cpu.Key](g geometry, stored K, slot uint32) bool {
	return twins(g, stored) == slot>>g.shift>>1
}

// keyAt returns the original key of the stored key in a slot.
func keyAt[K cpu.Key, V cpu.Val](g geometry, stored K, slot uint32) K {
	return keyOf[K, V](g, stored, homeOf[K, V](g, stored, slot).bucket&1)
}

// keyOf returns the original key of a stored key and its original type bit.
func keyOf[K cpu.Key, V cpu.Val](g geometry, stored K, bit uint32) K {
	return unmix(g, stored&^typeBit[K, V]()|K(bit)<<typeShift[K, V]())
}

// sentinelIndex returns the index in the extra line of the slot for a key that looks like a
// sentinel. The slot's stored key is this index.
func (p path[K]) sentinelIndex() uint32 { return uint32(^p.key) | p.bucket&1<<sentinelShift }

// sentinelKey returns the original key for a slot index in the extra line.
func sentinelKey[K cpu.Key, V cpu.Val](g geometry, index uint32) K {
	return keyOf[K, V](g, ^K(index&lastSentinel), index>>sentinelShift)
}

func emptyArray[K cpu.Key, V cpu.Val]() array {
	var zero cpu.Slot[K, V]
	return arrayOf(&zero)
}

// array is a slot read as remap entries. low is the part with the type bit. high is the value of a
// slot of 16 bytes.
type array struct {
	low, high uint64
	bit       uint32 // position of the type bit
}

// arrayOf reads a slot as an array. The slot is an array if its type bit is clear.
func arrayOf[K cpu.Key, V cpu.Val](s *cpu.Slot[K, V]) array {
	switch v := any(s.Val).(type) {
	case uint32:
		return array{uint64(s.Key)<<32 | uint64(v), 0, pairTypeBit}
	case uint64:
		return array{uint64(s.Key), v, keyTypeBit}
	}
	return array{uint64(s.Key), 0, keyTypeBit}
}

func writeArray[K cpu.Key, V cpu.Val](s *cpu.Slot[K, V], a array) {
	switch v := any(&s.Val).(type) {
	case *uint32:
		s.Key, *v = K(a.low>>32), uint32(a.low)
	case *uint64:
		s.Key, *v = K(a.low), a.high
	default:
		s.Key = K(a.low)
	}
}

// locate returns the half of the array that holds the entry of a tag, and the position of the entry
// in it.
func (a *array) locate(tag uint32) (half *uint64, shift uint32) {
	if tag >= halfEntries {
		return &a.high, entryBits * (tag - halfEntries)
	}
	if shift = entryBits * tag; shift >= a.bit {
		shift++
	}
	return &a.low, shift
}

func (a array) entry(tag uint32) uint32 {
	half, shift := a.locate(tag)
	return uint32(*half>>shift) & functions
}

// countSet returns how many of the first entries are not 0.
func (a array) countSet(entries uint32) (n int) {
	for tag := range entries {
		if a.entry(tag) != 0 {
			n++
		}
	}
	return n
}

// withEntry returns the array with the entry of a tag replaced.
func (a array) withEntry(tag, entry uint32) array {
	half, shift := a.locate(tag)
	*half = *half&^(functions<<shift) | uint64(entry)<<shift
	return a
}

// generation is the memory of a table between two rehashes.
type generation struct {
	geometry
	bucket.Generation
	long    atomic.Bool   // searches for a slot may take long; set on a CPU only
	deleted atomic.Uint64 // keys deleted since the last reclaim; set on a CPU only
}

// allocate allocates a generation. The contents of its memory are undefined.
func allocate(dev device.Device, g geometry) (*generation, error) {
	memory, err := bucket.Allocate(dev, g.lines, g.buckets)
	if err != nil {
		return nil, err
	}
	return &generation{geometry: g, Generation: memory}, nil
}
