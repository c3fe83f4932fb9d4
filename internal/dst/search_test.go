package dst

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weftgo/weft"
)

// past makes up a history of one key: operations that took effect one after
// another, each at a time between its begin and its end, and then, more often
// than not, one result that may be wrong.
func past(rng *rand.Rand, n int, fixed bool) (h []event[uint64, uint64]) {
	var s state[uint64]
	returns := []Returns{{OK: true, Vals: true}, {OK: true, Vals: true}, {OK: true}, {}}[rng.IntN(4)]
	spread := 1 + rng.Int64N(int64(20*n))
	for i := range n {
		now := int64(10 * (i + 1))
		e := event[uint64, uint64]{
			op: weft.Op[uint64, uint64]{Kind: weft.OpKind(rng.IntN(4)), Key: 1, Value: uint64(i)}, returns: returns, full: fixed,
			from: now - rng.Int64N(spread), till: now + rng.Int64N(spread),
		}
		switch e.op.Kind {
		case weft.OpGet:
			e.ok, e.val = s.present, s.val
		case weft.OpDelete:
			e.ok, s = s.present, state[uint64]{}
		case weft.OpPut, weft.OpPutNew:
			full := fixed && !s.present && rng.IntN(3) == 0
			e.ok = !s.present && !full
			if e.op.Kind == weft.OpPutNew && s.present {
				e.val = s.val
			} else if !full || !returns.OK {
				s = state[uint64]{true, e.op.Value}
			}
		}
		h = append(h, e)
	}
	switch e := &h[rng.IntN(n)]; rng.IntN(4) {
	case 0:
		e.ok = !e.ok
	case 1:
		e.val = rng.Uint64N(uint64(n + 2))
	case 2: // swap what two operations returned
		o := &h[rng.IntN(n)]
		e.ok, o.ok, e.val, o.val = o.ok, e.ok, o.val, e.val
	}
	rng.Shuffle(n, func(i, j int) { h[i], h[j] = h[j], h[i] })
	return h
}

// times are the order of operations that took from one time till another.
func times[K weft.Key, V weft.Value](h []event[K, V]) func(i, j int) bool {
	return func(i, j int) bool { return h[i].till < h[j].from }
}

// sparse is an order of n operations with some of the pairs of another, and
// what follows from them.
func sparse(rng *rand.Rand, n int, before func(i, j int) bool) func(i, j int) bool {
	edges := make([][]bool, n)
	part := rng.IntN(3)
	for i := range edges {
		edges[i] = make([]bool, n)
		for j := range edges {
			edges[i][j] = before(i, j) && (part == 0 && (i-j)%3 == 0 || rng.IntN(4) < part)
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				edges[i][j] = edges[i][j] || edges[i][k] && edges[k][j]
			}
		}
	}
	return func(i, j int) bool { return edges[i][j] }
}

// An opinion counts on how many histories a search and porcupine agree.
type opinion struct{ legal, illegal, unknown int }

// agree compares the search with porcupine, which may get a model of its own.
func agree[S, T, O any](t *testing.T, seen *opinion, m *Model[S, O], its *Model[T, O], h []O, before func(i, j int) bool) {
	t.Helper()
	x := newSearch(m, h, before)
	got := x.found(m.Init)
	switch want := judge(its, h, before, 2*time.Second); {
	case want == porcupine.Unknown:
		seen.unknown++
	case got != (want == porcupine.Ok):
		var edges []string
		for i := range h {
			edges = append(edges, fmt.Sprintf("%d: %s", i, m.Tell(h[i:i+1])))
			for j := range h {
				if before(i, j) {
					edges = append(edges, fmt.Sprint(i, "<", j, " "))
				}
			}
		}
		t.Fatalf("the search says %v, porcupine %v:\n%s", got, want, edges)
	case got:
		seen.legal++
	default:
		seen.illegal++
	}
}

// enough reports whether there were histories of both sorts, and few on which
// porcupine has no opinion.
func (o opinion) enough(t *testing.T, n int) {
	t.Helper()
	if t.Logf("%+v", o); o.legal < n || o.illegal < n || o.unknown > (o.legal+o.illegal)/20 {
		t.Error("too few of either to tell")
	}
}

// The search and porcupine are of one opinion, on times and on partial orders.
func TestSearchAgreesWithPorcupine(t *testing.T) {
	var byTime, byEdges opinion
	m := mapModel[uint64, uint64]()
	for seed := range uint64(20000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fixed := rng.IntN(3) == 0
		h := past(rng, 1+rng.IntN(12), fixed)
		agree(t, &byTime, m, m, h, times(h))
		agree(t, &byEdges, m, m, h, sparse(rng, len(h), times(h)))
	}
	byTime.enough(t, 1000)
	byEdges.enough(t, 1000)
}

// Many operations at the same time are no trouble, whether an order explains
// them or not.
func TestSearchIsShort(t *testing.T) {
	longest := 0
	m := mapModel[uint64, uint64]()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		h := past(rng, 60+200*int(seed%2), false)
		before := times(h)
		if seed%4 < 2 {
			before = func(i, j int) bool { return false }
		}
		x := newSearch(m, h, before)
		found := x.found(m.Init)
		if longest = max(longest, x.steps); x.steps > maxSteps/64 {
			t.Errorf("seed %d: %d steps for %d operations: %v", seed, x.steps, len(h), found)
		}
	}
	t.Logf("longest search: %d steps", longest)
}

// What is possible once the search has given up is not called impossible.
func TestSearchGivesUp(t *testing.T) {
	h := past(rand.New(rand.NewPCG(1, 3)), 30, false)
	i := slices.IndexFunc(h, func(e event[uint64, uint64]) bool { return e.op.Kind == weft.OpPut })
	h[i].ok = !h[i].ok
	m := mapModel[uint64, uint64]()
	x := newSearch(m, h, times(h))
	x.limit = 1
	if x.found(m.Init) || x.steps != x.limit {
		t.Errorf("an order found in %d steps", x.steps)
	}
}
