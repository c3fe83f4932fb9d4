package shard

import (
	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/hash"
)

const (
	// Slots is the number of slots that keys hash to. It is also the maximum number of ranks.
	Slots = 1 << slotBits

	slotBits = 14
)

// slotSeed is the seed of [column.Hash] for slots. Tables use another hash function, so that the
// keys of a shard spread over its whole table.
const slotSeed = 0x77656674_736c6f74 // "weftslot"

var slotStart = hash.RowStart(slotSeed)

// Slot returns the slot of a key, from 0 to Slots-1: the top 14 bits of [column.Hash] of the key
// with seed 0x77656674736c6f74. It is the same in each process, on each machine, and in each
// version of weft. Keys of 32 and 64 bits with the same value have the same slot.
func Slot[K weft.Key](key K) int { return int(keyHash(slotStart, uint64(key)) >> (64 - slotBits)) }

// keyHash returns the hash of a key without the last step of hash.Mix. Its low 33 bits are not
// final.
func keyHash(start, word uint64) uint64 {
	x := start ^ word
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return (x ^ x>>27) * 0x94d049bb133111eb
}

// rankOf returns the rank, out of size ranks, that a hash belongs to.
func rankOf(h uint64, size int) int { return int(h >> (64 - slotBits) * uint64(size) >> slotBits) }

// Range returns the slots lo to hi-1 of a rank, out of size ranks. Ranges ascend with ranks, and
// their lengths differ by at most one slot.
func Range(rank, size int) (lo, hi int) {
	first := func(r int) int { return (r*Slots + size - 1) / size }
	return first(rank), first(rank + 1)
}
