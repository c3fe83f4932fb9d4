package gphash

import (
	"math/bits"

	"github.com/weftgo/weft/internal/pm"
)

// control is the control word of a slot. A slot is one control word, one tag and, for keys of more
// than 8 bytes, the key. While a slot holds a key, only the control word changes. So every change
// of the index is one compare-and-swap, and a crash leaves the state before or after it:
//
//	bits 63…62  state
//	bits 61…48  version, incremented by each change
//	bits 47…0   the word of the pool at which the value begins
//
// The paper keeps the state in the fingerprint, or in the key, and the value in a word of its own
// (section 3.2.3). So a delete and an update of one slot change different words. A reader that has
// read the old key of a reused slot may also read the value of the new key. Here a reader of a key
// reads the control word again after the value, and the version shows any change. And since the
// state is not in the key, no key is reserved.
type control uint64

type state uint8

const (
	empty   state = iota // free; tag and key are undefined
	writing              // taken by an insertion that is writing tag and key
	full                 // holds a key and its value
	tomb                 // deleted; free from the next batch on
)

const (
	blockBits   = 48
	versionBits = 14
)

func (c control) state() state    { return state(c >> (blockBits + versionBits)) }
func (c control) block() uint64   { return uint64(c) & (1<<blockBits - 1) }
func (c control) version() uint64 { return uint64(c) >> blockBits & (1<<versionBits - 1) }

// next returns the word after a change.
func (c control) next(s state, block uint64) control {
	version := (c.version() + 1) & (1<<versionBits - 1)
	return control(uint64(s)<<(blockBits+versionBits) | version<<blockBits | block)
}

// layout is the layout of a bucket, in words from its beginning: the control words of all slots,
// the tags of all slots, the keys. So a probe reads a line or two of a bucket, and keys only where
// a tag matches. In pools with records, the records hold the keys.
type layout struct {
	keySize, valueSize uint64 // bytes; 0: variable length
	slots              uint64 // per bucket
	keyWords           uint64 // words of a key in its slot; 0: the tag is the key
	bucketWords        uint64
}

func newLayout(keySize, valueSize, slots uint64) layout {
	l := layout{keySize: keySize, valueSize: valueSize, slots: slots}
	if keySize > pm.Word && !l.records() {
		l.keyWords = pm.WordsOf(int(keySize))
	}
	l.bucketWords = slots * (2 + l.keyWords)
	return l
}

// records reports whether keys have records, because keys or values have a variable length.
func (l *layout) records() bool { return l.keySize == 0 || l.valueSize == 0 }

// fixedValueSize returns the size of the data that a key has besides its slot; 0 for records, which
// vary.
func (l *layout) fixedValueSize() uint64 {
	if l.records() {
		return 0
	}
	return l.valueSize
}

// slotRef is a slot: the first word of its bucket, and its index in the bucket.
type slotRef struct{ bucket, slot uint64 }

func (l *layout) control(at slotRef) uint64 { return at.bucket + at.slot }
func (l *layout) tag(at slotRef) uint64     { return at.bucket + l.slots + at.slot }
func (l *layout) key(at slotRef) uint64     { return at.bucket + 2*l.slots + at.slot*l.keyWords }

// level is 2^bits buckets from word base on. The level with most bits is the top (section 3.1).
type level struct {
	base uint64
	bits uint
}

// Regions. All candidate buckets of a key in a level lie in one part of it. The first bits of the
// hash select the part, for all hash functions. Processing a batch in the order of these bits
// touches a small part of the pool at a time. That makes host memory ten times as fast for a GPU,
// and avoids conflicts between cores of a CPU.
const maxRegionBits = 7 // log2 of the max number of regions of a level

// minRegionBits is log2 of the min number of buckets of a region. Fewer would fill too unevenly. It
// is part of the format. Tests make regions smaller.
var minRegionBits uint = 13

// regions returns log2 of the number of regions of a level.
func (l level) regions() uint { return min(max(l.bits, minRegionBits)-minRegionBits, maxRegionBits) }

// bucket returns the index of a key's candidate by hash function j. It differs from level to level.
// If buckets of a level were shared by neighbors of the level above, as in the paper, the same keys
// would collide in both. The first key without a slot would then come at a load of .87 instead of
// .89 (3 million slots, TestPlaces).
func (l level) bucket(h uint64, j int) uint64 {
	derived := (bits.RotateLeft64(h, 32) ^ uint64(l.bits)) * multipliers[j]
	derived ^= derived >> 29
	derived *= multipliers[0]
	r := l.regions()
	return (h&^(^uint64(0)>>r) | derived>>r) >> (64 - l.bits)
}

// multipliers derive further hashes from a hash: odd numbers without a pattern.
var multipliers = [maxHashes]uint64{0x9e3779b97f4a7c15, 0xd1b54a32d192ed03, 0xaef17502108ef2d9, 0xbea225f9eb34556d}

// maxHashes is the maximum number of hash locations of a key.
const maxHashes = 4
