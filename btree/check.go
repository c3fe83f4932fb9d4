package btree

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// pair is a slot. In a leaf it has a key and its value, in an inner node a child's low key and
// number.
type pair struct{ key, val uint64 }

// slotsOf returns all slots of a node in host memory.
func slotsOf(mem []byte, s shape, id uint32) []pair {
	at := unsafe.Add(unsafe.Pointer(headerOf(mem, s, id)), headerBytes)
	all := make([]pair, s.slots)
	for i := range all {
		if s.slot == 8 {
			w := *(*uint64)(unsafe.Add(at, 8*i))
			all[i] = pair{w >> 32, w & (1<<32 - 1)}
		} else {
			w := *(*wideSlot)(unsafe.Add(at, 16*i))
			all[i] = pair{w.key, w.val}
		}
	}
	return all
}

// checker is the state of one check.
type checker struct {
	shape
	mem   []byte
	nodes int
	seen  map[uint32]bool
	pairs uint64
}

// check checks that all rules of layout.go hold in the memory of a tree. No change may be running.
func (s shape) check(mem []byte) error {
	c := checker{shape: s, mem: mem, nodes: controlOf(mem).nAllocated(), seen: map[uint32]bool{}}
	if s.bytesFor(c.nodes) > len(mem) {
		return corrupt("%d nodes are allocated, but the memory has only %d bytes", c.nodes,
			len(mem))
	}
	level := []pair{{0, rootNode}}
	for depth := headerOf(mem, s, rootNode).level(); ; depth-- {
		children, err := c.level(depth, level)
		if err != nil {
			return err
		}
		if depth == 0 {
			break
		}
		level = children
	}
	if live := controlOf(mem).tally.Live; live != c.pairs {
		return corrupt("the leaves have %d pairs, the counters %d", c.pairs, live)
	}
	return nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", op.ErrCorrupt, fmt.Sprintf(format, args...))
}

// level checks the nodes of a level, which are given as children of the level above with their low
// keys. It returns the children of these nodes in order.
func (c *checker) level(depth int, nodes []pair) (children []pair, err error) {
	if depth == 0 && headerOf(c.mem, c.shape, rootNode).level() == 0 {
		return nil, corrupt("the root is a leaf")
	}
	for i, n := range nodes {
		id := uint32(n.val)
		if n.val >= uint64(c.nodes) || c.seen[id] {
			return nil, corrupt("node %d of level %d does not exist, or is linked twice", n.val,
				depth)
		}
		c.seen[id] = true
		h := headerOf(c.mem, c.shape, id)
		next, high := noNode, uint64(0)
		if i+1 < len(nodes) {
			next, high = uint32(nodes[i+1].val), nodes[i+1].key
		}
		switch {
		case h.level() != depth || h.isDead() || h.isLatched():
			return nil, corrupt("node %d of level %d has state %#x", id, depth, h.state)
		case h.link != next || next != noNode && h.high != high:
			return nil, corrupt("node %d of level %d has link %#x and high key %#x, but the next node is %#x with low key %#x", id, depth, h.link, h.high, next, high)
		case h.count() > c.slots || depth > 0 && h.count() == 0:
			return nil, corrupt("node %d of level %d has %d slots", id, depth, h.count())
		}
		slots, err := c.slotsIn(id, h, n.key, depth)
		if err != nil {
			return nil, err
		}
		children = append(children, slots...)
	}
	if depth == 0 {
		c.pairs = uint64(len(children))
	}
	return children, nil
}

// slotsIn checks the slots of a node, and returns the used slots in key order.
func (c *checker) slotsIn(id uint32, h *header, low uint64, depth int) ([]pair, error) {
	all := slotsOf(c.mem, c.shape, id)
	used := all[:h.count()]
	if depth > 0 {
		for i, s := range all[h.count():] {
			if s != all[0] {
				return nil, corrupt("slot %d of inner node %d is unused, and is not slot 0", h.count()+i, id)
			}
		}
		if all[0].key != low {
			return nil, corrupt("inner node %d begins with key %#x, its parent says %#x", id, all[0].key, low)
		}
		slices.SortFunc(used, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	}
	for i, s := range used {
		if s.key < low || !h.has(s.key) || i > 0 && used[i-1].key >= s.key {
			return nil, corrupt("slot %d of node %d of level %d has key %#x, out of order or out of range", i, id, depth, s.key)
		}
	}
	return used, nil
}

// Check implements core.Checker. It copies the tree to the host. The counters must have been read
// since the last change.
func (e *gpuEngine) Check(ctx context.Context, l *core.Lease) error {
	t := l.Parts.(*tree)
	size := t.bytesFor(t.maxUsed)
	mem, err := e.Dev.AllocHost(size)
	if err != nil {
		return err
	}
	defer e.Dev.FreeHost(mem)
	if err := e.Stream.CopyOut(ctx, mem, t.buf.Ptr); err != nil {
		return err
	}
	return e.shape.check(mem)
}
