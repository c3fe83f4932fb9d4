package algo

import (
	"math"
	"math/bits"
)

// balance is what a ranking knows of all vertices together, and decides by: the same wherever their ranks are.
type balance struct {
	o        PageRankOptions
	directed bool
	vertices int
	damping  uint64 // of 2^64
	base     uint64 // the rank that begins at any vertex
	limit    uint64 // of what a vertex has not handed on

	arcs    uint64 // the sum of degrees
	idle    uint64 // ranks of vertices without neighbors, which begin anywhere
	spread  uint64 // of those, what has been handed on
	waiting uint64 // what all others have not handed on
	load    uint64 // the sum of degrees of vertices that have to hand on

	all    bool // all vertices have to hand on, and get new ranks
	failed error
}

// newBalance is that of no vertices.
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

// grow is for more vertices than there were. All ranks become others then.
func (b *balance) grow(vertices int) {
	b.vertices = vertices
	start, _ := bits.Mul64(RankOne, b.damping)
	b.base = (RankOne - start) / uint64(vertices)
	b.limit = uint64(b.o.Tolerance * RankOne / float64(2*vertices))
	b.all = true
}

// off is what has not been handed on, as a share of all ranks.
func (b *balance) off() float64 { return float64(b.waiting+apart(b.idle, b.spread)) / RankOne }

func apart(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// unsettled reports whether there is something to hand on, or to be added up, by the number of vertices whose sum has changed, and of those that
// have to hand on.
func (b *balance) unsettled(changed, active int) bool {
	return b.all || changed > 0 || active > 0 && b.off() > b.o.Tolerance
}

// crowded is the part of all arcs from which on it costs less to hand on along all of them, in order, than along those of active vertices
// alone: the rows of those have to be read from the graph, and several cores add to one sum.
const crowded = 32

func (b *balance) crowded() bool { return b.all || b.load > b.arcs/crowded }

// adrift reports whether ranks of vertices without neighbors have become others by more than what all vertices may keep. They are spread anew
// then, which changes all ranks.
func (b *balance) adrift() bool {
	if apart(b.idle, b.spread) <= b.limit*uint64(b.vertices) {
		return false
	}
	b.spread = b.idle
	return true
}

// moved is the error of a graph to which the edges did not lead.
func moved(v, degree, want uint32) error {
	return invalid("ranking", "vertex %d has %d neighbors, and by the edges that came and went %d", v, degree, want)
}
