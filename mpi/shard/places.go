package shard

import (
	"sort"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/core"
)

// places says which rank has a key: each key has a position, and each rank a range of positions.
type places struct {
	// first is the first position of each rank. It is nil if positions are slots.
	first []uint64
	// order turns keys into positions that have the order of the keys, by exclusive or.
	order uint64
}

// position returns the position of a key.
func position[K weft.Key](p *places, key K) uint64 {
	if p.first == nil {
		return uint64(Slot(key))
	}
	return ordered(p.order, key)
}

// ordered returns the position of a key among all keys of its type.
func ordered[K weft.Key](order uint64, key K) uint64 {
	if order == 1<<31 {
		return uint64(uint32(key) ^ 1<<31)
	}
	return uint64(key) ^ order
}

// orderOf returns the order of a type.
func orderOf[K weft.Key]() uint64 { return core.SetTypes[K]().Key.Order() }

// rank returns the rank of a position.
func (p *places) rank(at uint64, size int) int {
	if p.first == nil {
		return int(at) * size >> slotBits
	}
	return sort.Search(size-1, func(i int) bool { return at < p.first[i+1] })
}

// span returns the first and the last position of a rank.
func (p *places) span(rank, size int) (first, last uint64) {
	if p.first == nil {
		lo, hi := Range(rank, size)
		return uint64(lo), uint64(hi - 1)
	}
	last = ^uint64(0)
	if rank+1 < size {
		last = p.first[rank+1] - 1
	}
	return p.first[rank], last
}

// name is what manifests say of positions.
func (p *places) name() string {
	if p.first == nil {
		return "slots"
	}
	return "keys"
}
