package inorder

import "github.com/weftgo/weft/internal/core"

// Span are places [From,To).
type Span = core.Span

// Paint is [core.Paint].
func Paint(spans []Span) (all []Span, counts []int) {
	all, narrow := core.Paint(spans)
	counts = make([]int, len(narrow))
	for i, n := range narrow {
		counts[i] = int(n)
	}
	return all, counts
}
