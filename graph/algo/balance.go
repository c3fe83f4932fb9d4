package algo

import (
	"math"
	"math/bits"
)

// rankTotals holds the totals of a ranking over all vertices, and decides from them how to
// continue. Rankings on a host and on a device share it.
type rankTotals struct {
	o        PageRankOptions
	directed bool
	vertices int
	damping  uint64 // in units of 2^-64
	base     uint64 // the rank that each vertex gets from restarts
	limit    uint64 // amount of rank that a vertex may leave unpushed

	arcs uint64 // sum of all degrees
	// sum of the ranks of vertices without neighbors; a walk restarts anywhere after them
	dangling    uint64
	distributed uint64 // the part of dangling that has been pushed
	residual    uint64 // sum of the ranks that vertices with neighbors have not yet pushed
	load        uint64 // sum of the degrees of the vertices that must push

	allActive bool // whether all vertices must push and all ranks change
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
		return b, invalid("ranking", "Warm is set, but a new Ranking has no ranks to start from; each update starts from the last ranks anyway")
	}
	return rankTotals{o: o, directed: directed, damping: uint64(math.Ldexp(o.Damping, 64))}, nil
}

// grow sets a larger number of vertices. Then all ranks change.
func (b *rankTotals) grow(vertices int) {
	b.vertices = vertices
	start, _ := bits.Mul64(RankOne, b.damping)
	b.base = (RankOne - start) / uint64(vertices)
	b.limit = uint64(b.o.Tolerance * RankOne / float64(2*vertices))
	b.allActive = true
}

// residualShare returns the part of all ranks that has not been pushed.
func (b *rankTotals) residualShare() float64 {
	return float64(b.residual+absDiff(b.dangling, b.distributed)) / RankOne
}

func absDiff(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// unconverged reports whether the ranking must continue. changed is the number of vertices with a
// changed sum, and active the number of vertices that must push.
func (b *rankTotals) unconverged(changed, active int) bool {
	return b.allActive || changed > 0 || active > 0 && b.residualShare() > b.o.Tolerance
}

// maxPushShare bounds the load for pushing only from active vertices, as a divisor of all arcs.
// Above that load a sweep over all arcs is cheaper. Pushing from active vertices reads their rows
// from the graph, and several cores add to one sum.
const maxPushShare = 32

func (b *rankTotals) shouldSweep() bool { return b.allActive || b.load > b.arcs/maxPushShare }

// redistribute reports whether the ranks of vertices without neighbors have changed by more than
// the limits of all vertices together. Then they must be distributed again, which changes all
// ranks.
func (b *rankTotals) redistribute() bool {
	if absDiff(b.dangling, b.distributed) <= b.limit*uint64(b.vertices) {
		return false
	}
	b.distributed = b.dangling
	return true
}

// degreeError returns the error of a vertex with a degree that does not match the edges.
func degreeError(v, degree, want uint32) error {
	return invalid("ranking",
		"vertex %d has %d neighbors, want %d by the inserted and deleted edges", v, degree, want)
}
