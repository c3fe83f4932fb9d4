package shard

import (
	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/core"
)

// owners says which rank has a key: each key has a position, and each rank a range of positions.
type owners struct {
	// first is the first position of each rank. It is nil if positions are slots.
	first []uint64
	// order turns keys into positions that have the order of the keys, by exclusive or.
	order uint64
}

// position returns the position of a key.
func position[K weft.Key](p *owners, key K) uint64 {
	if p.first == nil {
		return uint64(Slot(key))
	}
	return inOrder(p.order, uint64(key))
}

// inOrder returns the position of a key among all keys of its type.
func inOrder(order, word uint64) uint64 {
	if order == 1<<31 {
		return uint64(uint32(word) ^ 1<<31)
	}
	return word ^ order
}

// orderOf returns the order of a type.
func orderOf[K weft.Key]() uint64 { return core.SetTypes[K]().Key.Order() }

// rank returns the rank of a position.
func (p *owners) rank(at uint64, size int) int {
	if p.first == nil {
		return int(at) * size >> slotBits
	}
	lo, hi := 0, size-1 // the rank is one of these
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

// of returns the rank of a key. It needs the hash only for slots.
func (p *owners) of(word, hash uint64, size int) int {
	if p.first == nil {
		return rankOf(hash, size)
	}
	return p.rank(inOrder(p.order, word), size)
}

// span returns the first and the last position of a rank. It has none if first is larger.
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

// name is what manifests say of positions.
func (p *owners) name() string {
	if p.first == nil {
		return "slots"
	}
	return "keys"
}
