package algo

import (
	"math"
	"math/bits"
)

// rankTotals holds the totals of a ranking over all vertices, and the decisions that depend on
// them. It is the same wherever the ranks are.
type rankTotals struct {
	o        PageRankOptions
	directed bool
	vertices int
	damping  uint64 // in units of 2^-64
	base     uint64 // the rank that starts at any vertex
	limit    uint64 // maximum residual that a vertex need not push

	arcs        uint64 // the sum of degrees
	dangling    uint64 // ranks of vertices without neighbors, which restart anywhere
	distributed uint64 // the part of dangling that has been pushed
	residual    uint64 // what all other vertices have not pushed
	load        uint64 // the sum of degrees of vertices that must push

	allActive bool // all vertices must push, and get new ranks
	failed    error
}

// newRankTotals returns the totals of a graph without vertices.
func newRankTotals(opts *PageRankOptions, directed bool) (b rankTotals, err error) {
	o, err := opts.check()
	switch {
	case err != nil:
		return b, err
	case o.Tolerance <= 0:
		return b, invalid("ranking", "Tolerance %v, want more than 0", o.Tolerance)
	case o.Warm:
		return b, invalid("ranking", "Warm: it has no ranks yet, and begins with its own from then on")
	}
	return rankTotals{o: o, directed: directed, damping: uint64(math.Ldexp(o.Damping, 64))}, nil
}

// grow adapts the totals to more vertices. All ranks change then.
func (b *rankTotals) grow(vertices int) {
	b.vertices = vertices
	start, _ := bits.Mul64(RankOne, b.damping)
	b.base = (RankOne - start) / uint64(vertices)
	b.limit = uint64(b.o.Tolerance * RankOne / float64(2*vertices))
	b.allActive = true
}

// residualShare returns the residual, what has not been pushed, as a share of all ranks.
func (b *rankTotals) residualShare() float64 {
	return float64(b.residual+absDiff(b.dangling, b.distributed)) / RankOne
}

func absDiff(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// unconverged reports whether ranks must be pushed or added up. changed is the number of vertices
// with a changed sum, active the number of those that must push.
func (b *rankTotals) unconverged(changed, active int) bool {
	return b.allActive || changed > 0 || active > 0 && b.residualShare() > b.o.Tolerance
}

// maxPushShare is the divisor of all arcs that bounds the load. Above it, handing on along all arcs
// in order is cheaper than along those of active vertices alone. The rows of active vertices have
// to be read from the graph, and several cores add to one sum.
const maxPushShare = 32

func (b *rankTotals) shouldSweep() bool { return b.allActive || b.load > b.arcs/maxPushShare }

// redistribute reports whether the ranks of vertices without neighbors have changed by more than
// what all vertices may keep. They are spread anew then, which changes all ranks.
func (b *rankTotals) redistribute() bool {
	if absDiff(b.dangling, b.distributed) <= b.limit*uint64(b.vertices) {
		return false
	}
	b.distributed = b.dangling
	return true
}

// degreeError returns the error of a graph that does not match the edges.
func degreeError(v, degree, want uint32) error {
	return invalid("ranking", "vertex %d has %d neighbors, and by the edges that came and went %d", v, degree, want)
}
