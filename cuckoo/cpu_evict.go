package cuckoo

import "github.com/weftgo/weft/internal/cpu"

// maxNodes is the maximum number of keys that a search for a slot tries (twin: kNodes). Where
// every other bucket has a free slot, two or three are enough; at a load of 0.98 with eight slots,
// some forty. A search of 512 keys fails if keys crowd, or when the table is all but full.
const maxNodes = 512

// longSearch is a number of keys tried. Once a search has tried more, no more pieces of a batch run
// on all cores, which cannot be stopped.
const longSearch = 256

// node is a key that might be moved: the number of its slot, and the node with the key that would
// take that slot. The parent of a root is the new key, -1.
type node struct {
	slot   uint32
	parent int32
}

// evict frees a slot for a key with only full buckets. A breadth-first search
// finds the shortest sequence of moves, each of a key to another of its buckets, that ends at a
// free slot (Horton tables, section 3; the search is that of Erlingsson, Manasse, McSherry, "A Cool
// and Practical Alternative to Traditional Hash Tables", 2006). It returns the slot, which is dead,
// or nil; the number of keys it has tried; and whether a never-used slot is now in use.
func (t *cpuTable[K, V]) evict(p path) (free *cpu.Slot[K, V], tried int, usedEmpty bool) {
	var nodes [maxNodes]node
	n := 0
	for i := range t.functions {
		n = t.addNodes(nodes[:], n, p.bucket(t.geometry, i), -1)
	}
	for at := 0; at < n; at++ {
		from := &t.slotsAt(nodes[at].slot, 1)[0]
		of := pathOf(t.geometry, from.Key)
		for i := range t.functions {
			b := of.bucket(t.geometry, i)
			if b == nodes[at].slot>>t.shift {
				continue
			}
			if to := freeSlot(t.bucket(b)); to != nil {
				usedEmpty = to.Key == cpu.Sentinel[K](cpu.Empty)
				return t.moveAlong(nodes[:], int32(at), to), at + 1, usedEmpty
			}
			n = t.addNodes(nodes[:], n, b, int32(at))
		}
	}
	return nil, n, false
}

// addNodes adds the keys of a bucket to the nodes, as far as they have space.
func (t *cpuTable[K, V]) addNodes(nodes []node, n int, bucket uint32, parent int32) int {
	for s := bucket << t.shift; s < (bucket+1)<<t.shift && n < len(nodes); s++ {
		nodes[n] = node{s, parent}
		n++
	}
	return n
}

// moveAlong moves the key of a node to a free slot, that of its parent to the slot of the node,
// and so on, and returns the slot that is free in the end. No slot occurs twice on the way: from a
// slot the search always goes on to the same buckets, so the shortest way takes it once.
func (t *cpuTable[K, V]) moveAlong(nodes []node, at int32, to *cpu.Slot[K, V]) *cpu.Slot[K, V] {
	for ; at >= 0; at = nodes[at].parent {
		from := &t.slotsAt(nodes[at].slot, 1)[0]
		*to = *from
		from.Key = cpu.Sentinel[K](cpu.Dead)
		to = from
	}
	return to
}

// freeSlot returns a slot without a key, or nil.
func freeSlot[K cpu.Key, V cpu.Val](slots []cpu.Slot[K, V]) *cpu.Slot[K, V] {
	for i := range slots {
		if k := slots[i].Key; k == cpu.Sentinel[K](cpu.Empty) || k == cpu.Sentinel[K](cpu.Dead) {
			return &slots[i]
		}
	}
	return nil
}

// freeStashSlot returns a free slot of the stash for a key, or nil.
func (t *cpuTable[K, V]) freeStashSlot(p path) *cpu.Slot[K, V] {
	if t.stash == 0 {
		return nil
	}
	return freeSlot(t.line(p.stashLine(t.geometry)))
}
