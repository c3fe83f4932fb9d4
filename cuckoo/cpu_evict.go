package cuckoo

import "github.com/weftgo/weft/internal/cpu"

// maxNodes is the maximum number of keys in one search for a slot (kNodes in CUDA). If every other
// bucket has a free slot, two or three keys are enough. At a load of 0.98 with eight slots, some
// forty are. A search of 512 keys fails if too many keys share buckets, or if the table is all but
// full.
const maxNodes = 512

// longSearch is the number of keys tried above which a search is long. After a long search, pieces
// of a batch no longer run on all cores, since such pieces cannot be stopped.
const longSearch = 256

// node is a key that may be moved. parent is the node whose key would take the slot. A root has
// parent -1, which stands for the new key.
type node struct {
	slot   uint32
	parent int32
}

// evict frees a slot for a key whose buckets are all full. A breadth-first search finds the
// shortest sequence of moves that ends at a free slot. Each move takes a key to another of its
// buckets (Horton tables, section 3; the search is from Erlingsson, Manasse, McSherry, "A Cool and
// Practical Alternative to Traditional Hash Tables", 2006). evict returns the slot, which is dead,
// or nil. It also returns the number of keys tried, and whether a never-used slot is now in use.
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

// addNodes adds nodes for the keys of a bucket. It stops when nodes is full.
func (t *cpuTable[K, V]) addNodes(nodes []node, n int, bucket uint32, parent int32) int {
	for s := bucket << t.shift; s < (bucket+1)<<t.shift && n < len(nodes); s++ {
		nodes[n] = node{s, parent}
		n++
	}
	return n
}

// moveAlong moves the key of a node to a free slot, the key of the node's parent to the node's
// slot, and so on. It returns the slot that is free in the end. No slot occurs twice: from a slot
// the search always continues to the same buckets, so the shortest sequence has it once.
func (t *cpuTable[K, V]) moveAlong(nodes []node, at int32, to *cpu.Slot[K, V]) *cpu.Slot[K, V] {
	for ; at >= 0; at = nodes[at].parent {
		from := &t.slotsAt(nodes[at].slot, 1)[0]
		*to = *from
		from.Key = cpu.Sentinel[K](cpu.Dead)
		to = from
	}
	return to
}

func freeSlot[K cpu.Key, V cpu.Val](slots []cpu.Slot[K, V]) *cpu.Slot[K, V] {
	for i := range slots {
		if k := slots[i].Key; k == cpu.Sentinel[K](cpu.Empty) || k == cpu.Sentinel[K](cpu.Dead) {
			return &slots[i]
		}
	}
	return nil
}

// freeStashSlot returns a free slot in a key's line of the stash, or nil.
func (t *cpuTable[K, V]) freeStashSlot(p path) *cpu.Slot[K, V] {
	if t.stash == 0 {
		return nil
	}
	return freeSlot(t.line(p.stashLine(t.geometry)))
}
