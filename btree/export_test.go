package btree

import (
	"context"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
)

// Iterations have several pages, also of small maps.
func init() { core.PageBytes = 1 << 12 }

// Lookups of the suites begin at the root, and, where they are of some more keys, below it.
func init() { topKeys = 40 }

// Reclaim makes dead nodes free, however few they are.
func (m *Map[K, V]) Reclaim(ctx context.Context) error { return m.reclaim(ctx) }

// Images are those of the kernels.
var Images = append(conformance.Images(btreeImages), conformance.Images(btreeVersionsImages)...)

// CheckInvariants checks the layout alone, for suites: whatever the core may make of it.
func (m *Map[K, V]) CheckInvariants() error {
	if m.core.Len() == 0 {
		return nil // perhaps it is closed
	}
	e := m.policy.engine
	return e.(core.Checker).Check(context.Background(), e.Current())
}

// Tiny makes pieces and shares of changes so small that a few operations have many, until the
// function returned is called.
func Tiny(ops, tasks, items int) (restore func()) {
	p, e, m, i := piece, endlessPiece, manyTasks, taskItems
	piece, endlessPiece, manyTasks, taskItems = ops, ops, tasks, items
	return func() { piece, endlessPiece, manyTasks, taskItems = p, e, m, i }
}

// Pool makes an update have memory for so many copies only, of a small map.
func Pool(m *Map[uint32, uint32], nodes int) { m.kernels().pool = nodes }

// Taken is the number of nodes that a tree of a host has, with those that only snapshots read.
func Taken(m *Map[uint32, uint32]) int {
	return m.policy.engine.(*cpuEngine[uint32, uint32, uint32]).tree().taken()
}
