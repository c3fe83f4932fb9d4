package core

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/weftgo/weft/internal/batch"
)

// The estimate of distinct keys in a column must be within 1% and not too low. For few keys it must
// be almost exact.
func TestDistinct(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, 100, 5000, 1 << 20} {
		for _, groups := range []int{1, 10, 3000, 1 << 30} {
			narrow, wide, have := make([]uint32, n), make([]int64, n), map[int]bool{}
			var text []byte
			spans := make([]batch.Span, n)
			for i := range n {
				g := rng.IntN(groups)
				narrow[i], wide[i], have[g] = uint32(g), int64(g)<<20, true
				before := len(text)
				text = strconv.AppendInt(text, int64(g), 36)
				spans[i] = batch.SpanOf(uint64(before), uint64(len(text)-before))
			}
			for _, c := range []batch.Column{batch.Input(narrow), batch.Input(wide), batch.Strings(text, spans)} {
				got, is := estimateDistinct(c, 5), len(have)
				if got > n || got < is-is/500 || got > is+is/100+int(4*math.Sqrt(float64(is)))+2 {
					t.Errorf("%d keys of %d are told to be %d different ones, and are %d", n, groups, got, is)
				}
			}
		}
	}
}

// The keys in a part of a batch must predict the number of keys in the whole batch.
func TestLikely(t *testing.T) {
	for _, c := range []struct {
		k, n          int
		times         float64
		least, atMost int
	}{
		{1000, 1 << 20, 20, 1000, 1001},
		{650_000, 1 << 20, 20, 950_000, 1_050_000},
		{1 << 20, 1 << 20, 20, 20 << 20, 20<<20 + 1},
		{1, 1, 1, 1, 1},
		{0, 5, 100, 0, 0},
		{7, 10, 1, 7, 8},
	} {
		if got := extrapolateDistinct(c.k, c.n, c.times); got < c.least || got > c.atMost {
			t.Errorf("%d different of %d, %v times: %d, want %d to %d", c.k, c.n, c.times, got, c.least, c.atMost)
		}
	}
}
