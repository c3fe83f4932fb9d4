package btree

import (
	"context"

	"github.com/weftgo/weft/internal/core"
)

// Check implements core.Checker.
func (e *cpuEngine[K, V, T]) Check(_ context.Context, l *core.Lease) error {
	t := l.Parts.(*cpuTree[T])
	if err := t.shape.check(t.buf.Host); err != nil {
		return err
	}
	return t.checkNodes()
}

// checkNodes checks that each allocated node is exactly one of three: part of the tree, kept for
// versions, or free.
func (t *cpuTree[T]) checkNodes() error {
	a, top := t.nodes(), t.control().top
	part := make([]bool, top)
	level := []uint32{rootNode}
	for range t.depth() + 1 {
		var children []uint32
		for _, id := range level {
			part[id] = true
			n := a.at(id)
			for i, s := range n.slots[:n.count()] {
				if n.level() == 0 {
					break
				}
				if children = append(children, s.id()); i > 0 && s.key <= n.slots[i-1].key {
					return corrupt("children %d and %d of node %d are out of order", i-1, i, id)
				}
			}
		}
		level = children
	}
	if t.versions != nil {
		kept := t.versions.reclaimable
		for _, v := range t.versions.held {
			kept = append(kept[:len(kept):len(kept)], v.retired...)
		}
		for _, id := range kept {
			if id >= top || part[id] {
				return corrupt("node %d is kept for versions, and part of the tree or kept twice", id)
			}
			part[id] = true
		}
	}
	for _, id := range t.free {
		if id >= top || part[id] {
			return corrupt("node %d is free, and part of the tree or free twice or beyond the last one, %d", id, top)
		}
		if h := a.at(id).header; !h.isDead() || h.level() != freeLevel {
			return corrupt("node %d is free and has state %#x", id, h.state)
		}
		part[id] = true
	}
	for id, ok := range part {
		if !ok {
			return corrupt("node %d is neither part of the tree nor free", id)
		}
	}
	return nil
}
