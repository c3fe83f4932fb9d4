package ordered

import (
	"context"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
)

// Small maps have leaves beyond the blocks too when they are tested.
func init() { SetBlocks(2) }

// SetBlocks makes maps on a GPU have n blocks of leaves, and all other leaves in a range. The
// function that it returns undoes that.
func SetBlocks(n int) (restore func()) {
	was := nBlocks
	nBlocks = n
	return func() { nBlocks = was }
}

// Images lists the kernels.
var Images = conformance.Images(orderedImages)

// CheckInvariants checks the layout alone, for suites, regardless of the core's state.
func (m *Map[K, V]) CheckInvariants() error {
	if m.core.Len() == 0 {
		return nil // it may be closed
	}
	e := m.policy.engine
	return e.(core.Checker).Check(context.Background(), e.Current())
}

// ShrinkPieces makes pieces and chunks so small that a few operations have many. The function that
// it returns undoes that.
func ShrinkPieces(ops, leaves, items int) (restore func()) {
	p, e, l, i := piece, endlessPiece, chunkLeaves, chunkItems
	piece, endlessPiece, chunkLeaves, chunkItems = ops, ops, leaves, items
	return func() { piece, endlessPiece, chunkLeaves, chunkItems = p, e, l, i }
}
