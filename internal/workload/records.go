package workload

import (
	"encoding/binary"
	"math/bits"
)

// RecordKey fills key with the key that a record has under the given seed. Different records have
// different keys if keys have at least eight bytes.
func RecordKey(key []byte, seed, record uint64) {
	words(key, Key[uint64](seed, record))
}

// RecordValue fills value with the bytes that a write with this stamp stores in a record. Every
// byte depends on the record and the stamp.
func RecordValue(value []byte, record, stamp uint64) {
	words(value, mix64(record+1)+stamp*0x9e3779b97f4a7c15)
}

// IsRecordValue reports whether value holds the bytes that RecordValue writes for record and stamp.
func IsRecordValue(value []byte, record, stamp uint64) bool {
	w := mix64(record+1) + stamp*0x9e3779b97f4a7c15
	for ; len(value) >= 8; value = value[8:] {
		if binary.LittleEndian.Uint64(value) != w {
			return false
		}
		w = next(w)
	}
	for i := range value {
		if value[i] != byte(w>>(8*i)) {
			return false
		}
	}
	return true
}

// RecordStamp returns the stamp of a record's value. The value must be made by RecordValue and have
// at least eight bytes.
func RecordStamp(value []byte, record uint64) (stamp uint64) {
	const inverse = 0xf1de83e19937733d // inverse of 0x9e3779b97f4a7c15 modulo 2^64
	return (binary.LittleEndian.Uint64(value) - mix64(record+1)) * inverse
}

// words fills b with words. The first word is w; each further word is a function of the word
// before.
func words(b []byte, w uint64) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, w)
		w = next(w)
	}
	for i := range b {
		b[i] = byte(w >> (8 * i))
	}
}

func next(w uint64) uint64 { return bits.RotateLeft64(w, 29)*0xbf58476d1ce4e5b9 + 1 }
