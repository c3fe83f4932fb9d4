package ordered

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

type word interface{ uint32 | uint64 }

// index maps a key to its leaf, and a leaf to the number of pairs before it. It is immutable,
// except that sizes and ranks change while no version shares it. A version keeps the index that was
// present when the version was made.
//
// Its memory has these arrays, one after the other, each at a multiple of [lineBytes]:
//
//	separators by level   those of all leaves, of every 16th leaf, of every 256th, …
//	ids                   the number of each leaf in the pool
//	sizes                 the number of pairs of each leaf
//	ranks                 the number of pairs before every 16th leaf, and of all
//
// A leaf has the keys from its separator up to the next one. The first separator is 0. A node of a
// level has 16 separators. The last node is filled up with the largest key.
type index[K word] struct {
	mem    device.Buffer
	refs   int // number of uses: as the present index, and by versions
	leaves int
	counts []int // number of separators, by level
	seps   [][]K
	ids    []uint32
	sizes  []uint8
	ranks  []uint64
}

// nodes returns the number of nodes that hold the given number of entries.
func nodes(entries int) int { return (entries + fanout - 1) / fanout }

// indexBytes returns the size in bytes of an index with the given number of leaves.
func indexBytes[K word](leaves int) int {
	var k K
	size := 0
	add := func(n, width int) { size += (n*width + lineBytes - 1) &^ (lineBytes - 1) }
	for n := leaves; ; n = nodes(n) {
		add(nodes(n)*fanout, int(unsafe.Sizeof(k)))
		if n <= fanout {
			break
		}
	}
	add(nodes(leaves)*fanout, 4)
	add(nodes(leaves)*fanout, 1)
	add(nodes(leaves)+1, 8)
	return size
}

// newIndex allocates memory for an index with up to the given number of leaves.
func newIndex[K word](dev device.Device, leaves int) (*index[K], error) {
	size := indexBytes[K](leaves)
	mem, err := dev.Alloc(size)
	if err != nil {
		return nil, fmt.Errorf("the index of %d leaves: %w", leaves, err)
	}
	return &index[K]{mem: mem}, nil
}

// layOutArrays divides the memory of the index into arrays for the given number of leaves. The
// contents of the arrays are undefined.
func (x *index[K]) layOutArrays(leaves int) {
	remaining := x.mem.Host
	x.leaves, x.seps, x.counts = leaves, x.seps[:0], x.counts[:0]
	for n := leaves; ; n = nodes(n) {
		x.counts = append(x.counts, n)
		x.seps = append(x.seps, carve[K](&remaining, nodes(n)*fanout))
		if n <= fanout {
			break
		}
	}
	x.ids = carve[uint32](&remaining, nodes(leaves)*fanout)
	x.sizes = carve[uint8](&remaining, nodes(leaves)*fanout)
	x.ranks = carve[uint64](&remaining, nodes(leaves)+1)
}

func (x *index[K]) empty() {
	x.layOutArrays(0)
	x.complete()
}

// carve cuts an array of n elements off the beginning of mem.
func carve[T any](mem *[]byte, n int) []T {
	var t T
	size := n * int(unsafe.Sizeof(t))
	s := batch.View[T]((*mem)[:size:size])
	*mem = (*mem)[(size+lineBytes-1)&^(lineBytes-1):]
	return s
}

// complete computes the upper levels and the ranks from the lowest level and the sizes.
func (x *index[K]) complete() {
	if x.leaves > 0 {
		x.seps[0][0] = 0
	}
	clear(x.ids[x.leaves:])
	clear(x.sizes[x.leaves:])
	for l, n := range x.counts {
		for i := n; i < len(x.seps[l]); i++ {
			x.seps[l][i] = ^K(0)
		}
		if l+1 < len(x.seps) {
			for i := range x.counts[l+1] {
				x.seps[l+1][i] = x.seps[l][i*fanout]
			}
		}
	}
	x.ranks[0] = 0
	x.recount(0, len(x.ranks)-1)
}

// recount updates the ranks after the sizes in nodes [from,to) have changed. It recomputes the
// ranks after each of these nodes, and shifts all later ranks by the change of the last one.
func (x *index[K]) recount(from, to int) {
	was := x.ranks[to]
	for node := from; node < to; node++ {
		x.ranks[node+1] = x.ranks[node] + uint64(sum(x.sizes[node*fanout:], fanout))
	}
	if diff := x.ranks[to] - was; diff != 0 {
		for i := range x.ranks[to+1:] {
			x.ranks[to+1+i] += diff
		}
	}
}

func (x *index[K]) pairs() uint64 { return x.ranks[len(x.ranks)-1] }

// sum adds the first n of 16 sizes. It adds eight sizes at a time.
func sum(sizes []uint8, n int) int {
	const even = 0x00ff00ff00ff00ff
	words := (*[2]uint64)(unsafe.Pointer(unsafe.SliceData(sizes[:fanout])))
	total := uint64(0)
	for _, w := range words {
		keep := min(n, 8)
		w &= ^uint64(0) >> (64 - 8*keep) // in Go, a shift by 64 gives 0
		w = w&even + w>>8&even
		total += w * 0x0001000100010001 >> 48
		n -= keep
	}
	return int(total)
}

// before returns the number of pairs in the leaves before leaf.
func (x *index[K]) before(leaf int) uint64 {
	node := leaf / fanout
	if leaf == x.leaves {
		return x.pairs()
	}
	return x.ranks[node] + uint64(sum(x.sizes[node*fanout:], leaf%fanout))
}

// place returns the leaf of the pair at a rank, and the index of the pair in the leaf. The pair
// must exist.
func (x *index[K]) place(rank uint64) (leaf, at int) {
	node, _ := slices.BinarySearchFunc(x.ranks, rank, func(before, rank uint64) int {
		if before <= rank {
			return -1
		}
		return 1
	})
	node--
	at = int(rank - x.ranks[node])
	for leaf = node * fanout; at >= int(x.sizes[leaf]); leaf++ {
		at -= int(x.sizes[leaf])
	}
	return leaf, at
}

// child returns the index of the last separator in a node that is at most key. The first separator
// must be at most key.
func child[K word](node *[fanout]K, key K) int {
	i := lessEq(node[8], key) << 3
	i += lessEq(node[i|4], key) << 2
	i += lessEq(node[i|2], key) << 1
	return i + lessEq(node[i|1], key)
}

// lessEq returns 1 if a <= b and 0 otherwise, without a branch, which would be mispredicted half
// of the time.
func lessEq[K word](a, b K) int {
	n := 0
	if a <= b {
		n = 1
	}
	return n
}

// step returns the child of a node that key belongs to. The child is a node of the next lower
// level, or a leaf at level 0.
func (x *index[K]) step(level, node int, key K) int {
	s := x.seps[level]
	return min(node*fanout+child((*[fanout]K)(s[node*fanout:]), key), x.counts[level]-1)
}

// leaf returns the number of the leaf that key belongs to. The index must have leaves.
func (x *index[K]) leaf(key K) int {
	at := 0
	for l := len(x.seps) - 1; l >= 0; l-- {
		at = x.step(l, at, key)
	}
	return at
}
