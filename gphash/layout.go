package gphash

import (
	"math/bits"

	"github.com/weftgo/weft/internal/pm"
)

// control is the control word of a slot. A slot consists of a control word, a tag and, for keys
// longer than 8 bytes, the key. While a slot holds a key, only its control word changes. So every
// change of the index is one compare-and-swap, and a crash leaves the state before or after that
// change:
//
//	bits 63…62  state
//	bits 61…48  version, incremented by each change
//	bits 47…0   index of the pool's word at which the value begins
//
// The paper keeps the state in the fingerprint or in the key, and the value in a separate word
// (section 3.2.3). There, a delete and an update of one slot change different words. A reader that
// has read the old key of a reused slot may then read the value of the new key. Here a reader reads
// the control word again after the value, and the version reveals any change in between. Since the
// key does not encode the state, no key is reserved.
type control uint64

type state uint8

const (
	empty   state = iota // free; tag and key are undefined
	writing              // taken by an insertion that is writing the tag and the key
	full                 // holds a key and its value
	tomb                 // deleted; the next batch may free the slot
)

const (
	blockBits   = 48
	versionBits = 14
)

func (c control) state() state    { return state(c >> (blockBits + versionBits)) }
func (c control) block() uint64   { return uint64(c) & (1<<blockBits - 1) }
func (c control) version() uint64 { return uint64(c) >> blockBits & (1<<versionBits - 1) }

// next returns the control word after a change, with the next version.
func (c control) next(s state, block uint64) control {
	version := (c.version() + 1) & (1<<versionBits - 1)
	return control(uint64(s)<<(blockBits+versionBits) | version<<blockBits | block)
}

// layout describes a bucket: the control words of all slots, then the tags of all slots, then the
// keys. A probe reads one or two lines of a bucket, and reads a key only if the tag matches. In
// pools with records, the records hold the keys.
type layout struct {
	keySize, valueSize uint64 // bytes; 0 if the length varies
	slots              uint64 // per bucket
	keyWords           uint64 // per slot; 0 if the tag is the key
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

// records reports whether keys and values lie in records, since one of them has variable length.
func (l *layout) records() bool { return l.keySize == 0 || l.valueSize == 0 }

// fixedValueSize returns the bytes per value, or 0 in pools with records, where they vary.
func (l *layout) fixedValueSize() uint64 {
	if l.records() {
		return 0
	}
	return l.valueSize
}

// slotRef identifies a slot by the first word of its bucket and its index in the bucket.
type slotRef struct{ bucket, slot uint64 }

func (l *layout) control(at slotRef) uint64 { return at.bucket + at.slot }
func (l *layout) tag(at slotRef) uint64     { return at.bucket + l.slots + at.slot }
func (l *layout) key(at slotRef) uint64     { return at.bucket + 2*l.slots + at.slot*l.keyWords }

// level is a level of 2^bits buckets that begins at word base. The level with the most bits is the
// top level (section 3.1).
type level struct {
	base uint64
	bits uint
}

// All candidate buckets of a key in a level lie in one region of the level. The first bits of the
// hash select the region, for all hash functions. A batch sorted by these bits touches a small part
// of the pool at a time. That makes host memory ten times as fast for a GPU and avoids conflicts
// between the cores of a CPU.
const maxRegionBits = 7 // log2 of the maximum number of regions per level

// minRegionBits is log2 of the minimum number of buckets per region. Smaller regions would fill too
// unevenly. The number is part of the format. Tests make regions smaller.
var minRegionBits uint = 13

func (l level) regions() uint { return min(max(l.bits, minRegionBits)-minRegionBits, maxRegionBits) }

// bucket returns the index of a key's candidate bucket for hash function j. The index differs from
// level to level. In the paper, neighboring buckets of a level share a bucket of the level below,
// so the same keys would collide in both levels. Then the first key without a slot would come at a
// load of .87 instead of .89 (3 million slots, TestPlaces).
func (l level) bucket(h uint64, j int) uint64 {
	derived := (bits.RotateLeft64(h, 32) ^ uint64(l.bits)) * multipliers[j]
	derived ^= derived >> 29
	derived *= multipliers[0]
	r := l.regions()
	return (h&^(^uint64(0)>>r) | derived>>r) >> (64 - l.bits)
}

// multipliers derive the hash functions of the candidates from one hash. They are odd.
var multipliers = [maxHashes]uint64{0x9e3779b97f4a7c15, 0xd1b54a32d192ed03, 0xaef17502108ef2d9, 0xbea225f9eb34556d}

// maxHashes is the maximum number of hash locations per key in a level.
const maxHashes = 4
