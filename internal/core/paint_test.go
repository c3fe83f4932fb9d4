package core_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/internal/core"
)

// AssignRanges assigns each place to the first span that contains it.
func TestAssignRanges(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		const n = 40
		spans := make([]core.Span, g.IntN(8))
		var owner [n]int
		for i := range spans {
			from := g.IntN(n)
			spans[i] = core.Span{From: from, To: from + g.IntN(n-from+1)}
			for at := spans[i].From; at < spans[i].To; at++ {
				if owner[at] == 0 {
					owner[at] = i + 1
				}
			}
		}
		all, counts := core.AssignRanges(spans)
		want, painted := make([]uint32, len(spans)), [n]bool{}
		for at, i := range owner {
			if i > 0 {
				want[i-1]++
			}
			painted[at] = i > 0
		}
		last := -1
		for _, s := range all {
			if s.From <= last || s.From >= s.To {
				t.Fatalf("%v of %v", all, spans)
			}
			last = s.To
			for at := s.From; at < s.To; at++ {
				painted[at] = !painted[at]
			}
		}
		if !slices.Equal(counts, want) || slices.Contains(painted[:], true) {
			t.Fatalf("%v: %v with %v, want %v", spans, all, counts, want)
		}
	}
}
