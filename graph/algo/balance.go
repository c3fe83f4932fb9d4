package algo

import (
	"math"
	"math/bits"
)

// balance holds the totals of a ranking over all vertices, and the decisions that depend on them.
// It is the same wherever the ranks are.
type balance struct {
	o        PageRankOptions
	directed bool
	vertices int
	damping  uint64 // in units of 2^-64
	base     uint64 // the rank that starts at any vertex
	limit    uint64 // maximum that a vertex need not hand on

	arcs    uint64 // the sum of degrees
	idle    uint64 // ranks of vertices without neighbors, which restart anywhere
	spread  uint64 // the part of idle that has been handed on
	waiting uint64 // what all others have not handed on
	load    uint64 // the sum of degrees of vertices that must hand on

	all    bool // all vertices must hand on, and get new ranks
	failed error
}

// newBalance returns the balance of a graph without vertices.
func newBalance(opts *PageRankOptions, directed bool) (b balance, err error) {
	o, err := opts.check()
	switch {
	case err != nil:
		return b, err
	case o.Tolerance <= 0:
		return b, invalid("ranking", "Tolerance %v, want more than 0", o.Tolerance)
	case o.Warm:
		return b, invalid("ranking", "Warm: it has no ranks yet, and begins with its own from then on")
	}
	return balance{o: o, directed: directed, damping: uint64(math.Ldexp(o.Damping, 64))}, nil
}

// grow adapts the balance to more vertices. All ranks change then.
func (b *balance) grow(vertices int) {
	b.vertices = vertices
	start, _ := bits.Mul64(RankOne, b.damping)
	b.base = (RankOne - start) / uint64(vertices)
	b.limit = uint64(b.o.Tolerance * RankOne / float64(2*vertices))
	b.all = true
}

// off returns what has not been handed on, as a share of all ranks.
func (b *balance) off() float64 { return float64(b.waiting+apart(b.idle, b.spread)) / RankOne }

func apart(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// unsettled reports whether ranks must be handed on or added up. changed is the number of vertices
// with a changed sum, active the number of those that must hand on.
func (b *balance) unsettled(changed, active int) bool {
	return b.all || changed > 0 || active > 0 && b.off() > b.o.Tolerance
}

// crowded is the divisor of all arcs that bounds the load. Above it, handing on along all arcs in
// order is cheaper than along those of active vertices alone. The rows of active vertices have to
// be read from the graph, and several cores add to one sum.
const crowded = 32

func (b *balance) crowded() bool { return b.all || b.load > b.arcs/crowded }

// adrift reports whether the ranks of vertices without neighbors have changed by more than what all
// vertices may keep. They are spread anew then, which changes all ranks.
func (b *balance) adrift() bool {
	if apart(b.idle, b.spread) <= b.limit*uint64(b.vertices) {
		return false
	}
	b.spread = b.idle
	return true
}

// moved returns the error of a graph that does not match the edges.
func moved(v, degree, want uint32) error {
	return invalid("ranking", "vertex %d has %d neighbors, and by the edges that came and went %d", v, degree, want)
}
