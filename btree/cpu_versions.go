package btree

import (
	"cmp"
	"context"
	"slices"
	"unsafe"
)

// On the host, snapshots are the version lists of the thesis (section 4.4). A node that a snapshot
// may read keeps its address. Before its first change since the newest snapshot, the content of the
// node is copied to another node. The node then heads a list that leads to older content. The time
// of each content lies in a table beside the nodes. The table exists only while snapshots are held,
// so without one a change costs a comparison.
//
// A clock advances with each snapshot. A snapshot reads the latest content of each node that was
// written up to the time of the snapshot.

// versions has the held versions of a tree, and the lists of older content.
type versions struct {
	held []version // held versions, oldest first
	// By node: the time at which its content was written, or 0 if before the first snapshot; the
	// node with its older content; and the node with its newer content. noNode if there is no such
	// node.
	written      []uint64
	older, newer []uint32
	reclaimable  []uint32 // nodes that no version needs; the next change frees them
}

// version is the state of the map at a time of the clock.
type version struct {
	time    uint64
	pairs   uint64
	retired []uint32 // nodes that are neither in a later version nor in the present tree
}

// newest returns the time of the newest version. A version must exist.
func (v *versions) newest() uint64 { return v.held[len(v.held)-1].time }

// find returns the index in v.held of the version at time, and reports whether it exists.
func (v *versions) find(time uint64) (int, bool) {
	return slices.BinarySearchFunc(v.held, time, func(h version, time uint64) int { return cmp.Compare(h.time, time) })
}

// oldestTime returns the time of the oldest content in the list of a node. For a copy of old
// content, it returns the time of that content.
func (v *versions) oldestTime(id uint32) uint64 {
	if v.newer[id] == noNode {
		for v.older[id] != noNode {
			id = v.older[id]
		}
	}
	return v.written[id]
}

// isNeeded reports whether a version may read the node or older content in its list.
func (v *versions) isNeeded(id uint32) bool {
	return v.written[id] <= v.newest() || v.older[id] != noNode
}

// grow extends the tables to the given number of nodes.
func (v *versions) grow(nodes int) {
	from := len(v.written)
	extra := max(0, nodes-from)
	v.written, v.older, v.newer = append(v.written, make([]uint64, extra)...), append(v.older, make([]uint32, extra)...), append(v.newer, make([]uint32, extra)...)
	for i := from; i < nodes; i++ {
		v.older[i], v.newer[i] = noNode, noNode
	}
}

func (v *versions) unlink(id uint32) {
	o, n := v.older[id], v.newer[id]
	if n != noNode {
		v.older[n] = o
	}
	if o != noNode {
		v.newer[o] = n
	}
	v.older[id], v.newer[id] = noNode, noNode
}

// Pin implements core.Versioner.
func (e *cpuEngine[K, V, T]) Pin(context.Context) (time uint64, err error) {
	t := e.tree()
	if t.versions == nil {
		t.versions = &versions{}
		t.versions.grow(int(t.control().top))
	}
	e.clock++
	t.mu.Lock() // lookups of other versions may run
	defer t.mu.Unlock()
	t.versions.held = append(t.versions.held, version{time: e.clock, pairs: t.tally.Live})
	return e.clock, nil
}

// Unpin implements core.Versioner. Retired nodes pass to the previous version if it needs them.
// Others become reclaimable. Lookups may still read them, so lists stay as they are until the next
// change.
func (e *cpuEngine[K, V, T]) Unpin(_ context.Context, time uint64) error {
	t := e.tree()
	v := t.versions
	if v == nil {
		return nil // the version belonged to a replaced generation, which is freed as a whole
	}
	i, ok := v.find(time)
	if !ok {
		return nil
	}
	t.mu.Lock() // lookups of other versions may run
	defer t.mu.Unlock()
	for _, id := range v.held[i].retired {
		if i > 0 && v.oldestTime(id) <= v.held[i-1].time {
			v.held[i-1].retired = append(v.held[i-1].retired, id)
		} else {
			v.reclaimable = append(v.reclaimable, id)
		}
	}
	v.held = slices.Delete(v.held, i, i+1)
	delete(t.versionOrders, time)
	return nil
}

// freeReclaimable frees the nodes that no version needs. No lookup may be running.
func (t *cpuTree[T]) freeReclaimable() {
	v := t.versions
	if v == nil {
		return
	}
	for _, id := range v.reclaimable {
		v.unlink(id)
	}
	t.freeNodes(v.reclaimable)
	if v.reclaimable = nil; len(v.held) == 0 {
		t.versions = nil
	}
}

func (t *cpuTree[T]) isVersioned() bool { return t.versions != nil && len(t.versions.held) > 0 }

// maxCopies returns the maximum number of nodes that n operations may copy for versions. They copy
// nodes on the paths to their leaves, and the nodes that these are merged with.
func (t *cpuTree[T]) maxCopies(n int) int {
	if !t.isVersioned() {
		return 0
	}
	d := t.depth() + 1
	return min(t.inUse(), 16*n*d*d)
}

// copyOnWrite must be called before a node is written. If a version may read the node, copyOnWrite
// copies its content to another node.
func (w *worker[K, V, T]) copyOnWrite(id uint32) {
	v := w.versions
	if v == nil || v.written[id] > w.newest {
		return
	}
	c := w.allocNode()
	size := 1 << nodeShift[T]()
	copy(unsafe.Slice((*byte)(unsafe.Pointer(w.at(c))), size), unsafe.Slice((*byte)(unsafe.Pointer(w.at(id))), size))
	o := v.older[id]
	v.older[c], v.newer[c], v.written[c] = o, id, v.written[id]
	if o != noNode {
		v.newer[o] = c
	}
	v.older[id], v.written[id] = c, w.newest+1
	w.kept = append(w.kept, c)
}

// retire adds removed nodes and copies of old content to the retired nodes of the newest version.
// It frees the removed nodes that no version needs.
func (t *cpuTree[T]) retire(removed, kept []uint32) {
	if !t.isVersioned() {
		t.freeNodes(removed)
		return
	}
	v := t.versions
	last := &v.held[len(v.held)-1]
	last.retired = append(last.retired, kept...)
	for _, id := range removed {
		if v.isNeeded(id) {
			last.retired = append(last.retired, id)
		} else {
			t.freeNodes([]uint32{id})
		}
	}
}

// nKept returns the number of nodes that only versions use.
func (v *versions) nKept() (n int) {
	if v == nil {
		return 0
	}
	n = len(v.reclaimable)
	for _, h := range v.held {
		n += len(h.retired)
	}
	return n
}

// nodeAt returns the node that holds the content of node id as of the given time.
func (v *versions) nodeAt(id uint32, time uint64) uint32 {
	for v.written[id] > time {
		id = v.older[id]
	}
	return id
}

// view reads the nodes of a tree in the present or in a version.
type view[T word] struct {
	nodes[T]
	versions *versions // nil for the present
	time     uint64
}

func (t *cpuTree[T]) view(time uint64) view[T] {
	v := view[T]{nodes: t.nodes(), time: time}
	if time != 0 {
		v.versions = t.versions
	}
	return v
}

func (v *view[T]) node(id uint32) *node[T] {
	if v.versions != nil {
		id = v.versions.nodeAt(id, v.time)
	}
	return v.at(id)
}

// depth returns the level of the root.
func (v *view[T]) depth() int { return v.node(rootNode).level() }

// pairsAt returns the number of pairs in the version at time, or in the present if time is 0.
func (t *cpuTree[T]) pairsAt(time uint64) uint64 {
	if time != 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		if i, ok := t.versions.find(time); ok {
			return t.versions.held[i].pairs
		}
	}
	return t.tally.Live
}
