package ordered

// Tiny makes pieces and chunks of changes so small that a few operations have many, until
// the function returned is called.
func Tiny(piece, leaves, items int) (restore func()) {
	p, l, i := corePiece, chunkLeaves, chunkItems
	corePiece, chunkLeaves, chunkItems = piece, leaves, items
	return func() { corePiece, chunkLeaves, chunkItems = p, l, i }
}
