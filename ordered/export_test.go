package ordered

import (
	"context"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
)

// In tests, small maps also have leaves beyond the blocks.
func init() { SetBlocks(2) }

// SetBlocks sets nBlocks to n for maps on a GPU. restore undoes that.
func SetBlocks(n int) (restore func()) {
	was := nBlocks
	nBlocks = n
	return func() { nBlocks = was }
}

// Images lists the kernels.
var Images = conformance.Images(orderedImages)

// CheckInvariants checks the layout for the suites. It ignores the state of the core.
func (m *Map[K, V]) CheckInvariants() error {
	if m.core.Len() == 0 {
		return nil // the map may be closed
	}
	e := m.policy.engine
	return e.(core.Checker).Check(context.Background(), e.Current())
}

// ShrinkPieces makes pieces and chunks so small that a few operations make many of them. restore
// undoes that.
func ShrinkPieces(ops, leaves, items int) (restore func()) {
	p, e, l, i := piece, endlessPiece, chunkLeaves, chunkItems
	piece, endlessPiece, chunkLeaves, chunkItems = ops, ops, leaves, items
	return func() { piece, endlessPiece, chunkLeaves, chunkItems = p, e, l, i }
}
