package btree

import (
	"context"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
)

// Iterations have several pages even for small maps.
func init() { core.PageBytes = 1 << 12 }

// Small lookups of the suites begin at the root, larger ones below it.
func init() { topKeys = 40 }

// Reclaim makes dead nodes free, however few they are.
func (m *Map[K, V]) Reclaim(ctx context.Context) error { return m.reclaim(ctx) }

// Images lists the kernels.
var Images = append(conformance.Images(btreeImages), conformance.Images(btreeVersionsImages)...)

// CheckInvariants checks the layout alone, for suites, regardless of the core's state.
func (m *Map[K, V]) CheckInvariants() error {
	if m.core.Len() == 0 {
		return nil // it may be closed
	}
	e := m.policy.engine
	return e.(core.Checker).Check(context.Background(), e.Current())
}

// ShrinkPieces makes pieces and tasks so small that a few operations have many. The function that
// it returns undoes that.
func ShrinkPieces(ops, tasks, items int) (restore func()) {
	p, e, m, i := piece, endlessPiece, targetTasks, minTaskItems
	piece, endlessPiece, targetTasks, minTaskItems = ops, ops, tasks, items
	return func() { piece, endlessPiece, targetTasks, minTaskItems = p, e, m, i }
}

// LimitPool limits the memory for copies of an update to that many nodes, in a small map.
func LimitPool(m *Map[uint32, uint32], nodes int) { m.gpu().minPool = nodes }

// NodesInUse returns the number of nodes in use by a tree of a host, including those that only
// snapshots read.
func NodesInUse(m *Map[uint32, uint32]) int {
	return m.policy.engine.(*cpuEngine[uint32, uint32, uint32]).tree().inUse()
}
