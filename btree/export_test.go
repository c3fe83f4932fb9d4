package btree

import (
	"context"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
)

// Iterations have several pages even for small maps.
func init() { core.PageBytes = 1 << 12 }

// In tests, small lookups begin at the root, and larger ones below it.
func init() { topKeys = 40 }

// Reclaim makes dead nodes free, even if they are few.
func (m *Map[K, V]) Reclaim(ctx context.Context) error { return m.reclaim(ctx) }

// Images lists the kernels.
var Images = append(conformance.Images(btreeImages), conformance.Images(btreeVersionsImages)...)

// CheckInvariants checks the layout for the suites. It ignores the state of the core.
func (m *Map[K, V]) CheckInvariants() error {
	if m.core.Len() == 0 {
		return nil // the map may be closed
	}
	e := m.policy.engine
	return e.(core.Checker).Check(context.Background(), e.Current())
}

// ShrinkPieces makes pieces and tasks so small that a few operations make many of them. restore
// undoes that.
func ShrinkPieces(ops, tasks, items int) (restore func()) {
	p, e, m, i := piece, endlessPiece, targetTasks, minTaskItems
	piece, endlessPiece, targetTasks, minTaskItems = ops, ops, tasks, items
	return func() { piece, endlessPiece, targetTasks, minTaskItems = p, e, m, i }
}

// LimitPool sets the minimum number of nodes for copies of an update. A small map has no more.
func LimitPool(m *Map[uint32, uint32], nodes int) { m.gpu().minPool = nodes }

// NodesInUse returns the number of nodes that a tree on the host uses, including those that only
// snapshots read.
func NodesInUse(m *Map[uint32, uint32]) int {
	return m.policy.engine.(*cpuEngine[uint32, uint32, uint32]).tree().inUse()
}
