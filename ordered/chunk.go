package ordered

import (
	"sort"

	"github.com/weftgo/weft/internal/cpu"
)

// chunk is a run of neighboring leaves and the operations on their keys, in key order. One core
// works on a chunk at a time. A leaf with many operations is cut: several chunks share it, and each
// has a range of its keys.
type chunk[K word] struct {
	a, b   int // leaves [a,b)
	lo, hi int // items [lo,hi)
	cut    bool
	from   K    // if cut: first key
	to     K    // if cut: key after the last, unless last is set
	last   bool // if cut: the keys extend to the end of the leaf

	touched  []uint32 // numbers of the leaves that have items
	maxExtra int      // max leaves to write in addition to the chunk's own
	ids      []uint32 // maxExtra new leaves; those not needed stay here
	out      entries[K]
	retired  []uint32 // leaves that are no longer in use
	delta    int64    // change of the number of pairs
	// moved is set if the set of leaves in use has changed, not only their sizes.
	moved bool
}

// entries lists leaves in key order, with the separator, the number and the size of each leaf.
type entries[K word] struct {
	seps  []K
	ids   []uint32
	sizes []uint8
}

func entriesFor[K word](n int) entries[K] {
	return entries[K]{make([]K, 0, n), make([]uint32, 0, n), make([]uint8, 0, n)}
}

func (e *entries[K]) add(sep K, id uint32, size int) {
	e.seps, e.ids, e.sizes = append(e.seps, sep), append(e.ids, id), append(e.sizes, uint8(size))
}

// chunks groups the leaves that have operations into chunks. The result does not depend on the
// number of cores.
func (f *forest[K, V]) chunks(items []cpu.Item[K]) (chunks []chunk[K]) {
	x := f.present
	if x.leaves == 0 {
		for lo := 0; lo < len(items); {
			hi := cpu.RunEnd(items, lo+chunkItems)
			chunks = append(chunks, chunk[K]{lo: lo, hi: hi})
			lo = hi
		}
		return chunks
	}
	for lo := 0; lo < len(items); {
		a := x.leaf(items[lo].Key) / chunkLeaves * chunkLeaves
		b := min(a+chunkLeaves, x.leaves)
		hi := x.items(items, lo, b)
		if hi-lo <= chunkItems {
			chunks = append(chunks, chunk[K]{a: a, b: b, lo: lo, hi: hi})
		} else {
			chunks = x.cutLeaves(chunks, items[:hi], lo, a, b)
		}
		lo = hi
	}
	return chunks
}

// items returns the index of the first item, from index lo on, that belongs to leaf b or to a later
// leaf.
func (x *index[K]) items(items []cpu.Item[K], lo, b int) int {
	if b == x.leaves {
		return len(items)
	}
	sep := x.seps[0][b]
	return lo + sort.Search(len(items)-lo, func(i int) bool { return items[lo+i].Key >= sep })
}

// cutLeaves groups leaves [a,b) into chunks of at most about chunkItems items. The items of the
// leaves begin at index lo.
func (x *index[K]) cutLeaves(chunks []chunk[K], items []cpu.Item[K], lo, a, b int) []chunk[K] {
	for p := a; p < b; {
		q, hi := p, lo
		for q < b {
			end := x.items(items, hi, q+1)
			if q > p && end-lo > chunkItems {
				break
			}
			q, hi = q+1, end
		}
		switch {
		case hi-lo > chunkItems && q == p+1:
			chunks = x.cutLeaf(chunks, items[:hi], lo, p)
		case hi > lo:
			chunks = append(chunks, chunk[K]{a: p, b: q, lo: lo, hi: hi})
		}
		p, lo = q, hi
	}
	return chunks
}

// cutLeaf makes several chunks that share leaf p. The items of the leaf begin at index lo.
func (x *index[K]) cutLeaf(chunks []chunk[K], items []cpu.Item[K], lo, p int) []chunk[K] {
	from := x.seps[0][p]
	for lo < len(items) {
		hi := cpu.RunEnd(items, lo+chunkItems)
		c := chunk[K]{a: p, b: p + 1, lo: lo, hi: hi, cut: true, from: from, last: hi == len(items)}
		if !c.last {
			c.to = items[hi].Key
		}
		chunks = append(chunks, c)
		lo, from = hi, c.to
	}
	return chunks
}

// visitLeaves calls visit with each leaf of a chunk and the items on its keys.
func (c *chunk[K]) visitLeaves(x *index[K], items []cpu.Item[K], visit func(p int, items []cpu.Item[K])) {
	at := c.lo
	for p := c.a; p < c.b; p++ {
		from := at
		if p+1 == c.b {
			at = c.hi
		} else {
			for next := x.seps[0][p+1]; at < c.hi && items[at].Key < next; {
				at++
			}
		}
		visit(p, items[from:at])
	}
}
