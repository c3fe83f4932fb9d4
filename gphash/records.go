package gphash

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"

	"github.com/weftgo/weft/internal/pm"
)

// Records. If keys or values have a variable length, a slot holds neither. Its tag is the hash of
// the key, and its control word refers to a record. A record is a header, the key and the value,
// each starting at a word. So one control word publishes key and value together, and a lookup reads
// the record where it would otherwise read a value. A record contains its key, so the slot that
// refers to the record can be found.
//
// A unit has records of one class, with sizes that differ by at most an eighth. The class of a unit
// is not stored. The records that control words refer to determine it.

// header is the first word of a record:
//
//	bits 63…62  zero
//	bits 61…45  length of the value in bytes
//	bits 44…32  length of the key
//	bits 31…0   checksum of lengths, key, value and place
//
// The header of a record is never zero. Freed memory begins with zero.
type header uint64

const (
	maxLongKey = 4096    // maximum length of a key of variable length, in bytes
	maxValue   = 1 << 16 // maximum length of a value, in bytes

	keyBits = 13
)

type lengths struct{ min, max int }

func (l lengths) contains(n int) bool { return n >= l.min && n <= l.max }

func (l *layout) keyLength() lengths   { return lengthsOf(l.keySize, 1, maxLongKey) }
func (l *layout) valueLength() lengths { return lengthsOf(l.valueSize, 0, maxValue) }

func (l lengths) String() string {
	if l.min == l.max {
		return fmt.Sprint(l.min)
	}
	return fmt.Sprintf("%d to %d", l.min, l.max)
}

func lengthsOf(size uint64, shortest, longest int) lengths {
	if size > 0 {
		return lengths{int(size), int(size)}
	}
	return lengths{shortest, longest}
}

func newHeader(key, value int) header { return header(uint64(value)<<keyBits|uint64(key)) << 32 }

func (h header) keyLen() int   { return int(h >> 32 & (1<<keyBits - 1)) }
func (h header) valueLen() int { return int(h >> (32 + keyBits)) }

// valueOffset returns the number of words from the header to the value.
func (h header) valueOffset() uint64 { return 1 + pm.WordsOf(h.keyLen()) }
func (h header) words() uint64       { return h.valueOffset() + pm.WordsOf(h.valueLen()) }

// sizesBits is log2 of the number of sizes in each power of two. Each number up to 16 is a size.
const sizesBits = 3

// classOf returns the class with the smallest size that is at least the given number of words.
func classOf(words uint64) int {
	shift := max(bits.Len64(words-1), sizesBits+1) - sizesBits - 1
	return shift<<sizesBits + int((words-1)>>shift)
}

func classSize(class int) uint64 {
	shift := max(class>>sizesBits, 1) - 1
	return uint64(class-shift<<sizesBits+1) << shift
}

// recordClasses returns the unit layouts by class. Large records share several consecutive units,
// which wastes little memory at their end. Classes that do not fit maxRunUnits units are left out.
func recordClasses(unit uint64) (classes []unitLayout) {
	for class := range classOf(newHeader(maxLongKey, maxValue).words()) + 1 {
		l := unitLayout{unit: unit, words: classSize(class)}
		for l.unit < maxRunUnits*unit && l.unit < minRunRecords*l.words {
			l.unit *= 2
		}
		if l.perUnit = l.unit / l.words; l.perUnit > 0 {
			classes = append(classes, l)
		}
	}
	return classes
}

const (
	minRunRecords = 8  // minimum number of records in a run of units
	maxRunUnits   = 16 // maximum number of units in a run
)

// class returns the class of a record, given the lengths of its key and value in bytes. ok is false
// if no run fits the record.
func (v *values) class(key, value int) (class int, ok bool) {
	class = classOf(newHeader(key, value).words())
	return class, class < len(v.classes)
}

func (v *values) validateRecord(key, value int) error {
	if _, ok := v.class(key, value); !ok {
		return fmt.Errorf("key and value have %d and %d bytes, but units of this pool have %d", key,
			value, v.unit*pm.Word)
	}
	return nil
}

// record returns the header of the record at a block. ok is false if the header is zero or the
// record would end outside the pool. During a concurrent write the header is undefined, until the
// caller has checked that the control word is unchanged.
func (v *values) record(block uint64) (h header, ok bool) {
	if block < v.first || block >= v.end() {
		return 0, false
	}
	h = header(v.mem.Load(block))
	return h, h != 0 && h.words() <= v.end()-block
}

// writeRecord writes a record before a slot refers to it.
func (v *values) writeRecord(block uint64, it *item, value []byte) {
	h := newHeader(len(it.key), len(value))
	v.mem.Write(block+1, it.key)
	v.mem.Write(block+h.valueOffset(), value)
	v.mem.Store(block, uint64(h)|uint64(recordSum(h, it.key, value)^placeSum(block, it.hash)))
}

// recordSum returns the part of a record's checksum that does not depend on its place.
func recordSum(h header, key, value []byte) uint32 {
	crc := crc32.Checksum(binary.LittleEndian.AppendUint32(nil, uint32(h>>32)), castagnoli)
	return crc32.Update(crc32.Update(crc, castagnoli, key), castagnoli, value)
}

func (v *values) hasKey(block uint64, key []byte) bool {
	h, ok := v.record(block)
	return ok && h.keyLen() == len(key) && v.mem.Equal(block+1, key)
}

// appendKey appends the key of the record at a block to a slice, and appendValue the value. They
// append nothing if no record lies there.
func (v *values) appendKey(block uint64, to []byte) []byte {
	h, ok := v.record(block)
	if !ok {
		return to
	}
	return v.appendBytes(block+1, h.keyLen(), to)
}

func (v *values) appendValue(block uint64, to []byte) []byte {
	h, ok := v.record(block)
	if !ok {
		return to
	}
	return v.appendBytes(block+h.valueOffset(), h.valueLen(), to)
}

func (v *values) appendBytes(at uint64, n int, to []byte) []byte {
	to = slices.Grow(to, n)[:len(to)+n]
	v.mem.Read(at, to[len(to)-n:])
	return to
}

// intactRecord reports whether the checksum of a record is correct for a key with this hash.
func (v *values) intactRecord(block, hash uint64, buffer *[]byte) bool {
	h, ok := v.record(block)
	if !ok {
		return false
	}
	*buffer = v.appendBytes(block+h.valueOffset(), h.valueLen(), v.appendBytes(block+1, h.keyLen(), (*buffer)[:0]))
	return uint32(h) == recordSum(h, (*buffer)[:h.keyLen()], (*buffer)[h.keyLen():])^placeSum(block, hash)
}
