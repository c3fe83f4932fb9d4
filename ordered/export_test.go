package ordered

// Tiny makes pieces and chunks of changes so small that a few operations have many, until
// the function returned is called.
func Tiny(piece, leaves, items int) (restore func()) {
	p, e, l, i := corePiece, endlessPiece, chunkLeaves, chunkItems
	corePiece, endlessPiece, chunkLeaves, chunkItems = piece, piece, leaves, items
	return func() { corePiece, endlessPiece, chunkLeaves, chunkItems = p, e, l, i }
}
