package shard

import (
	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/core"
)

// owners maps keys to ranks: each key has a position, and each rank owns a range of positions.
type owners struct {
	// first is the first position of each rank. It is nil if positions are slots.
	first []uint64
	// order is combined with a key by exclusive or. The resulting positions sort like the keys.
	order uint64
}

func position[K weft.Key](p *owners, key K) uint64 {
	if p.first == nil {
		return uint64(Slot(key))
	}
	return inOrder(p.order, uint64(key))
}

// inOrder returns the position of a key in the order of all keys of its type.
func inOrder(order, word uint64) uint64 {
	if order == 1<<31 {
		return uint64(uint32(word) ^ 1<<31)
	}
	return word ^ order
}

func orderOf[K weft.Key]() uint64 { return core.SetTypes[K]().Key.Order() }

func (p *owners) rank(at uint64, size int) int {
	if p.first == nil {
		return int(at) * size >> slotBits
	}
	lo, hi := 0, size-1 // bounds of the rank, inclusive
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if at < p.first[mid] {
			hi = mid - 1
		} else {
			lo = mid
		}
	}
	return lo
}

// of returns the rank that owns a key. It uses the hash only if positions are slots.
func (p *owners) of(word, hash uint64, size int) int {
	if p.first == nil {
		return rankOf(hash, size)
	}
	return p.rank(inOrder(p.order, word), size)
}

// span returns the first and the last position that a rank owns. If first > last, it owns none.
func (p *owners) span(rank, size int) (first, last uint64) {
	switch {
	case p.first == nil:
		lo, hi := Range(rank, size)
		return uint64(lo), uint64(hi - 1)
	case rank+1 == size:
		return p.first[rank], ^uint64(0)
	case p.first[rank] == p.first[rank+1]:
		return 1, 0
	}
	return p.first[rank], p.first[rank+1] - 1
}

func (p *owners) name() string {
	if p.first == nil {
		return "slots"
	}
	return "keys"
}
