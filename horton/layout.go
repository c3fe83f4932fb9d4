package horton

import (
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
)

// Memory is that of [core.Lines], the same on every device (twin:
// kernels/include/weft/horton_table.cuh). A slot holds a mixed key and its value in
// one word, so that one compare-and-swap publishes both: 8 bytes for 32-bit keys with
// 32-bit values, 16 bytes for pairs with a 64-bit part, and just the key in a set.
//
//	buckets          1 to 16 slots each, one behind the other
//	extra line       mixed keys that look like sentinels: slot i is that of key ^i
//	tally            counters, and the count of moves under way
//
// A mixed key is the hash of a key by the table's seed, which is a bijection: the
// key comes back from it, and so does everything that is said of the key here.
//
// The last slot of a bucket of type B is its array of remap entries (paper, section
// 4, figure 2). What tells the types apart is one bit of the mixed key in the last
// slot, the type bit: clear, it is an array. So a key whose type bit is clear may not
// be there; it takes another slot of its bucket. All sentinels have that bit. The
// other bits of the slot are entries of three bits, from the lowest one on, in the key
// (with values of 32 bits: in key and value) around the type bit, and where a value
// has 64 bits, behind those in the value:
//
//	slot                 type bit   entries
//	4 bytes: key         3          10 (a bit is left over)
//	8 bytes: key         3          21
//	8 bytes: key, value  36         21
//	16 bytes             3          42: 21 in each half (in the value a bit is left over)
//
// An entry is 0, or the number of the function that gives the secondary bucket of all
// keys of this bucket and tag (section 5.3.4).
const (
	lineBytes = core.LineBytes

	// maxSlots keeps the number of a slot below 1<<32, in the kernels' 32-bit
	// arithmetic.
	maxSlots = 1<<32 - 1<<8

	// An entry of three bits names one of seven functions: so the paper's 21 fit a
	// word beside the type bit, and with seven buckets to choose from one with a free
	// slot is found next to the load that buckets bear.
	entryBits, functions = 3, 7
	// halfEntries fit the half of a slot of 16 bytes, or one of 8.
	halfEntries = 21
	// keyEntries fit a slot of 4 bytes.
	keyEntries = 10
	// keyTypeBit and pairTypeBit are type bits: above a whole number of entries.
	keyTypeBit, pairTypeBit = 3, 36
)

// absent is the last sentinel, beside those of all structures: what kernels take
// places for that are no slots of a bucket.
const absent = cpu.Pending + 1

const lastSentinel = absent

// isSentinel reports whether a mixed key has a slot of its own in the extra line.
func isSentinel[K cpu.Key](key K) bool { return cpu.IsSentinel(key, lastSentinel) }

// geometry is the part of a table's description that all devices share.
type geometry struct {
	seed    uint64
	lines   uint32
	buckets uint32
	shift   uint32 // a bucket has 1<<shift slots
}

// layout is what the geometry of a table of any size follows from.
type layout struct {
	slots     int // of a bucket
	slotBytes int
}

// least is the number of lines that sizes are multiples of.
func (l layout) least() uint32 { return uint32(max(1, l.slots*l.slotBytes/lineBytes)) }

// geometry is that of a table with so many lines.
func (l layout) geometry(seed uint64, lines uint32) geometry {
	lines = (lines + l.least() - 1) / l.least() * l.least()
	return geometry{
		seed: seed, lines: lines, shift: uint32(bits.TrailingZeros(uint(l.slots))),
		buckets: uint32(uint64(lines) * lineBytes / uint64(l.slots*l.slotBytes)),
	}
}

// bytes is the size of the table's memory.
func (g geometry) bytes() int { return core.LinesBytes(g.lines) }

// ---- keys --------------------------------------------------------------------

// Constants of the functions (twin: horton_table.cuh). The tag is what a product of
// the mixed key has in its high bits, where the key's low ones are, which its bucket
// does not depend on.
const (
	tagFactor32   = 0x9e3779b1
	tagFactor64   = 0x9e3779b97f4a7c15
	secondarySeed = 0x3c6ef372fe94f82a
)

// steps are the primes of equation 2: multiples up to the seventh are apart from each
// other, and from nothing, by a twentieth of 1<<32 at least.
var steps = [8]uint32{0x1df9fd79, 0xc4aaeac1, 0xdf1582b1, 0x59b44e93, 0xb9a6442f, 0x8e317041, 0xf10637cf, 0x10755c97}

// mix is the mixed key of a key.
func mix[K cpu.Key](g geometry, key K) K {
	if unsafe.Sizeof(key) == 4 {
		return K(hash.Uint32(uint32(key), g.seed))
	}
	return K(hash.Uint64(uint64(key), g.seed))
}

// unmix is the key of a mixed key.
func unmix[K cpu.Key](g geometry, mixed K) K {
	if unsafe.Sizeof(mixed) == 4 {
		return K(hash.Unmix32(uint32(mixed), g.seed))
	}
	return K(hash.Unmix64(uint64(mixed), g.seed))
}

// primary is the primary bucket of a mixed key.
func primary[K cpu.Key](g geometry, mixed K) uint32 {
	if unsafe.Sizeof(mixed) == 4 {
		return hash.Reduce32(uint32(mixed), g.buckets)
	}
	return uint32(hash.Reduce64(uint64(mixed), uint64(g.buckets)))
}

// entriesOf is the number of remap entries of an array.
func entriesOf[K cpu.Key, V cpu.Val]() uint32 {
	var s cpu.Slot[K, V]
	switch unsafe.Sizeof(s) {
	case 4:
		return keyEntries
	case 8:
		return halfEntries
	}
	return 2 * halfEntries
}

// tagOf is the entry of a mixed key, of so many.
func tagOf[K cpu.Key](mixed K, entries uint32) uint32 {
	if unsafe.Sizeof(mixed) == 4 {
		return hash.Reduce32(uint32(mixed)*tagFactor32, entries)
	}
	return uint32(hash.Reduce64(uint64(mixed)*tagFactor64, uint64(entries)))
}

// secondary is the bucket that function i, from 1, gives to the keys of a primary
// bucket and tag. Both make up one number, and no other two the same (equation 1); the
// functions begin at its hash and go on by a step (equation 2), as fractions of the
// table, whose overflow takes the place of a modulus. It may be the primary bucket
// itself, where no key is secondary.
func (g geometry) secondary(bucket, tag, entries, i uint32) uint32 {
	number := uint64(bucket)*uint64(entries) + uint64(tag)
	first := uint32(hash.Uint64(number, g.seed^secondarySeed))
	return hash.Reduce32(first+steps[number%uint64(len(steps))]*i, g.buckets)
}

// ---- arrays of remap entries ---------------------------------------------------

// typeBit is that of the key in the last slot of a bucket.
func typeBit[K cpu.Key, V cpu.Val]() K {
	var s cpu.Slot[K, V]
	if unsafe.Sizeof(s) == 8 && unsafe.Sizeof(s.Key) == 4 {
		return 1 << (pairTypeBit - 32)
	}
	return 1 << keyTypeBit
}

// fits reports whether a mixed key may be in the last slot of a bucket.
func fits[K cpu.Key, V cpu.Val](mixed K) bool { return mixed&typeBit[K, V]() != 0 }

// array is a slot as remap entries: the half that has the type bit, and the other of
// a slot of 16 bytes.
type array struct {
	low, high uint64
	bit       uint32 // the type bit
}

// arrayOf is a slot's; it is one if its type bit is clear.
func arrayOf[K cpu.Key, V cpu.Val](s *cpu.Slot[K, V]) array {
	switch v := any(s.Val).(type) {
	case uint32:
		return array{uint64(s.Key)<<32 | uint64(v), 0, pairTypeBit}
	case uint64:
		return array{uint64(s.Key), v, keyTypeBit}
	}
	return array{uint64(s.Key), 0, keyTypeBit}
}

// put writes an array to a slot.
func put[K cpu.Key, V cpu.Val](s *cpu.Slot[K, V], a array) {
	switch v := any(&s.Val).(type) {
	case *uint32:
		s.Key, *v = K(a.low>>32), uint32(a.low)
	case *uint64:
		s.Key, *v = K(a.low), a.high
	default:
		s.Key = K(a.low)
	}
}

// place is the half and the shift of an entry.
func (a *array) place(tag uint32) (half *uint64, shift uint32) {
	if tag >= halfEntries {
		return &a.high, entryBits * (tag - halfEntries)
	}
	if shift = entryBits * tag; shift >= a.bit {
		shift++
	}
	return &a.low, shift
}

// entry is the one of a tag.
func (a array) entry(tag uint32) uint32 {
	half, shift := a.place(tag)
	return uint32(*half>>shift) & functions
}

// with is an array with another entry of a tag.
func (a array) with(tag, entry uint32) array {
	half, shift := a.place(tag)
	*half = *half&^(functions<<shift) | uint64(entry)<<shift
	return a
}
