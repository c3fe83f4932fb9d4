package gphash

import (
	"math/bits"

	"github.com/weftgo/weft/internal/pm"
)

// A slot is one control word, one tag and, for keys of more than 8 bytes, the key.
// All that ever changes while a slot holds a key is the control word, so every
// change of the index is one compare-and-swap, and a crash leaves one side of it or
// the other:
//
//	bits 63…62  state
//	bits 61…48  version, one more with each change
//	bits 47…0   the word of the pool at which the value begins
//
// The paper keeps the state in the fingerprint, or in the key, and the value in a
// word of its own (section 3.2.3), so that a delete and an update of one slot change
// different words, and a slot that is used again can pass its value off as that of
// the key before: who has read the old key reads the new value. Here who has read a
// key reads the control word again behind the value; what has changed meanwhile has
// another version. And since the state is not in the key, no key is reserved.
type control uint64

type state uint8

const (
	empty   state = iota // free; tag and key are anything
	writing              // taken by an insertion, which is writing tag and key
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

// next is what the word becomes by a change.
func (c control) next(s state, block uint64) control {
	version := (c.version() + 1) & (1<<versionBits - 1)
	return control(uint64(s)<<(blockBits+versionBits) | version<<blockBits | block)
}

// layout is where the parts of a bucket are, in words from its beginning: the control
// words of all slots, the tags of all slots, the keys. So a probe reads a line or two
// of a bucket, and the keys only where a tag agrees. Where keys have records, those have
// the keys.
type layout struct {
	keySize, valueSize uint64 // bytes; 0 is a variable length
	slots              uint64 // of a bucket
	keyWords           uint64 // of a key in its slot; 0 where the tag is the key
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

// records reports whether keys have records: because they, or their values, are of variable
// length.
func (l *layout) records() bool { return l.keySize == 0 || l.valueSize == 0 }

// stored is the size of what a key has besides its slot; 0 for records, of any size.
func (l *layout) stored() uint64 {
	if l.records() {
		return 0
	}
	return l.valueSize
}

// place is a slot: the word at which its bucket begins, and its number in it.
type place struct{ bucket, slot uint64 }

func (l *layout) control(at place) uint64 { return at.bucket + at.slot }
func (l *layout) tag(at place) uint64     { return at.bucket + l.slots + at.slot }
func (l *layout) key(at place) uint64     { return at.bucket + 2*l.slots + at.slot*l.keyWords }

// level is 2^bits buckets, which begin at a word. The one of most bits is the top
// (section 3.1).
type level struct {
	base uint64
	bits uint
}

// Regions. All candidate buckets of a key in a level lie in one part of it: the first
// bits of the hash say which, whatever the hash function. Who works through a batch
// in the order of these bits touches a small part of the pool at a time: memory of a
// host that a GPU works on is ten times as fast then, and cores of a CPU never meet.
const regionBits = 7 // most regions of a level, as a power of two

// regionBuckets is how many buckets a region has at least, as a power of two: fewer would
// fill too unevenly. It is part of the format. Tests make regions smaller.
var regionBuckets uint = 13

// regions is the number of them in a level, as a power of two.
func (l level) regions() uint { return min(max(l.bits, regionBuckets)-regionBuckets, regionBits) }

// bucket is the number of a key's candidate by hash function j. In each level it is
// another one: if buckets of a level were shared by neighbors of the level above, as in the
// paper, the same keys would crowd in both, and the first one without a slot would come at
// a load of .87 instead of .89 (3 million slots, TestPlaces).
func (l level) bucket(h uint64, j int) uint64 {
	other := (bits.RotateLeft64(h, 32) ^ uint64(l.bits)) * multipliers[j]
	other ^= other >> 29
	other *= multipliers[0]
	r := l.regions()
	return (h&^(^uint64(0)>>r) | other>>r) >> (64 - l.bits)
}

// multipliers make other hashes of a hash: odd numbers without a pattern.
var multipliers = [maxHashes]uint64{0x9e3779b97f4a7c15, 0xd1b54a32d192ed03, 0xaef17502108ef2d9, 0xbea225f9eb34556d}

// maxHashes is how many hash locations a key has at most.
const maxHashes = 4
