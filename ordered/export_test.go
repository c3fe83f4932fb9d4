package ordered

import (
	"context"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
)

// Small maps have leaves behind blocks, too, where they are tested.
func init() { Blocks(2) }

// Blocks has maps on a GPU have so many blocks of leaves, and all others in a range, until the function returned is called.
func Blocks(most int) (restore func()) {
	was := mostBlocks
	mostBlocks = most
	return func() { mostBlocks = was }
}

// Images are those of the kernels.
var Images = conformance.Images(orderedImages)

// CheckInvariants checks the layout alone, for suites: whatever the core may make of it.
func (m *Map[K, V]) CheckInvariants() error {
	if m.core.Len() == 0 {
		return nil // perhaps it is closed
	}
	e := m.policy.engine
	return e.(core.Checker).Check(context.Background(), e.Current())
}

// Tiny makes pieces and chunks of changes so small that a few operations have many, until
// the function returned is called.
func Tiny(ops, leaves, items int) (restore func()) {
	p, e, l, i := piece, endlessPiece, chunkLeaves, chunkItems
	piece, endlessPiece, chunkLeaves, chunkItems = ops, ops, leaves, items
	return func() { piece, endlessPiece, chunkLeaves, chunkItems = p, e, l, i }
}
