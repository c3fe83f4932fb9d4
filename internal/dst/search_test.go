package dst

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/weftgo/weft"
)

// past generates a history of one key. Operations take effect one after another, each at a time
// between its start and its end. If wild is set, they return different columns and write some
// values more than once.
func past(rng *rand.Rand, n int, fixed, wild bool) (h []event) {
	var s state
	columns := []Returns{{OK: true, Vals: true}, {OK: true, Vals: true}, {OK: true}, {}}
	returns := columns[rng.IntN(4)]
	spread := 1 + rng.Int64N(int64(20*n))
	for i := range n {
		now, v := int64(10*(i+1)), i
		if wild {
			returns, v = columns[rng.IntN(4)], rng.IntN(4)
		}
		e := event{
			op: weft.Op[uint64, uint64]{Kind: weft.OpKind(rng.IntN(4)), Key: 1, Value: uint64(v)}, returns: returns, maybeFull: fixed,
			start: now - rng.Int64N(spread), end: now + rng.Int64N(spread),
		}
		switch e.op.Kind {
		case weft.OpGet:
			e.ok, e.val = s.present, s.val
		case weft.OpDelete:
			e.ok, s = s.present, state{}
		case weft.OpPut, weft.OpPutNew:
			full := fixed && !s.present && rng.IntN(3) == 0
			e.ok = !s.present && !full
			if e.op.Kind == weft.OpPutNew && s.present {
				e.val = s.val
			} else if !full || !returns.OK {
				s = state{true, e.op.Value}
			}
		}
		h = append(h, e)
	}
	rng.Shuffle(n, func(i, j int) { h[i], h[j] = h[j], h[i] })
	return h
}

func times(h []event) func(i, j int) bool {
	return func(i, j int) bool { return h[i].end < h[j].start }
}

// sparse returns the transitive closure of some edges of another order of n operations.
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

type agreement struct{ legal, illegal, unknown int }

// agree requires the search and porcupine to agree on a history. its is the model that porcupine
// uses.
func agree[S, T, O any](t *testing.T, seen *agreement, m *Model[S, O], its *Model[T, O], h []O, before func(i, j int) bool) {
	t.Helper()
	x := newSearch(m, h, before)
	got := x.hasOrder(m.Init)
	switch want := checkPorcupine(its, h, before); {
	case want == porcupine.Unknown:
		seen.unknown++
	case got != (want == porcupine.Ok):
		var edges []string
		for i := range h {
			edges = append(edges, fmt.Sprintf("%d: %s", i, m.Format(h[i:i+1])))
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

// requireBoth requires the histories to include legal and illegal ones, and few for which porcupine
// reached no result.
func (o agreement) requireBoth(t *testing.T) {
	t.Helper()
	few := (o.legal + o.illegal) / 20
	if t.Logf("%+v", o); o.legal <= few || o.illegal <= few || o.unknown > few {
		t.Error("too few of a sort to tell")
	}
}

// trials returns n, a smaller number in short tests, or the value of -sim.seeds.
func trials(n uint64) uint64 {
	if testing.Short() {
		n /= 10
	}
	return uint64(Seeds(int(n)))
}

// The search and porcupine must agree, for orders by time and for partial orders.
func TestSearchAgreesWithPorcupine(t *testing.T) {
	var byTime, byEdges agreement
	m := mapModel(reduced[uint64])
	for seed := range trials(2500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fixed := rng.IntN(3) == 0
		h := past(rng, 1+rng.IntN(12), fixed, rng.IntN(3) == 0)
		spoil(rng, h)
		agree(t, &byTime, m, m, h, times(h))
		agree(t, &byEdges, m, m, h, sparse(rng, len(h), times(h)))
	}
	byTime.requireBoth(t)
	byEdges.requireBoth(t)
}

// short searches for an order of a history. seed selects the partial order: by time, by batch, or
// by some edges. If the history has few operations, it is then spoiled, except with edges, because
// that may take long.
func short[S any](t *testing.T, m *Model[S, event], seed uint64, h []event, maxOps int) (longest int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	before := times(h)
	switch seed % 3 {
	case 0:
		before = func(i, j int) bool { return h[i].batch < h[j].batch }
	case 1:
		before = sparse(rng, len(h), before)
	}
	x := newSearch(m, h, before)
	if !x.hasOrder(m.Init) || x.steps > maxOps {
		t.Errorf("seed %d: %d steps find no order for %d operations", seed, x.steps, len(h))
	}
	longest = x.steps
	if spoil(rng, h); len(h) <= 60 && seed%3 != 1 {
		x = newSearch(m, h, before)
		if x.hasOrder(m.Init); x.steps > maxOps {
			t.Errorf("seed %d: %d steps for %d operations that may have no order", seed, x.steps, len(h))
		}
	}
	return max(longest, x.steps)
}

// The search must be fast with as many operations per key as programs have.
func TestSearchIsShort(t *testing.T) {
	few, many := 0, 0
	m := mapModel(reduced[uint64])
	for seed := range trials(100) {
		few = max(few, short(t, m, seed, past(rand.New(rand.NewPCG(seed, 2)), 60, false, false), 4000))
		if seed%5 == 0 {
			many = max(many, short(t, m, seed, past(rand.New(rand.NewPCG(seed, 2)), 260, false, false), 1000))
		}
	}
	t.Logf("longest searches: %d steps for 60 operations, %d for 260", few, many)
}

// A search that was aborted must not report a possible history as impossible.
func TestSearchGivesUp(t *testing.T) {
	h := past(rand.New(rand.NewPCG(1, 3)), 30, false, false)
	i := slices.IndexFunc(h, func(e event) bool { return e.op.Kind == weft.OpPut })
	h[i].ok = !h[i].ok
	m := mapModel(reduced[uint64])
	x := newSearch(m, h, times(h))
	x.limit = 1
	if x.hasOrder(m.Init) || x.steps != x.limit {
		t.Errorf("an order found in %d steps", x.steps)
	}
}

// Two streams are ordered by themselves and by the edges between them, which need not agree with
// times.
func TestEdges(t *testing.T) {
	put := func(v uint64, ok bool) event { return at(0, 0, weft.OpPut, v, ok, 0) }
	get := func(v uint64) event { return at(0, 0, weft.OpGet, 0, v != 0, v) }
	type edges [][2]int
	for _, test := range []struct {
		name  string
		h     []event
		edges edges
		legal bool
	}{
		{"a stream reads what it wrote", []event{put(5, true), get(5)}, edges{{0, 1}}, true},
		{"a stream misses what it wrote", []event{put(5, true), get(0)}, edges{{0, 1}}, false},
		{"another stream misses it", []event{put(5, true), get(0)}, nil, true},
		{"another stream that waited misses it", []event{put(5, true), put(6, false), get(5), get(6)}, edges{{0, 1}, {0, 2}, {0, 3}, {1, 2}}, false},
		{"each stream reads what the other wrote", []event{put(5, true), get(6), put(6, false), get(5)}, edges{{0, 1}, {2, 3}}, false},
		{"one stream does", []event{put(5, true), get(6), put(6, false), get(6)}, edges{{0, 1}, {2, 3}}, true},
		{"two readers, one order", []event{put(5, true), put(6, false), get(5), get(6), get(5), get(6)}, edges{{2, 3}, {4, 5}}, true},
		{"two readers, two orders", []event{put(5, true), put(6, false), get(5), get(6), get(6), get(5)}, edges{{2, 3}, {4, 5}}, false},
		{"who reads 5 waits for 6, so 6 is first", []event{put(4, true), put(5, false), put(6, false), get(5), get(6)}, edges{{0, 1}, {0, 2}, {0, 3}, {0, 4}, {2, 3}, {2, 4}}, true},
		{"the end of one before the begin of the other", []event{put(5, true), get(6), put(6, false), get(6)}, edges{{0, 1}, {2, 3}, {1, 2}, {0, 2}, {0, 3}, {1, 3}}, false},
	} {
		before := func(i, j int) bool { return slices.Contains(test.edges, [2]int{i, j}) }
		if _, err := mapModel(reduced[uint64]).Check(test.h, before); (err == nil) != test.legal {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// Wrong hints must be detected, whichever way they mislead the search, because porcupine uses no
// hints.
func TestWrongHints(t *testing.T) {
	h := []event{at(1, 4, weft.OpGet, 0, true, 5), at(1, 4, weft.OpPut, 5, true, 0), at(5, 6, weft.OpGet, 0, true, 5)}
	gone := append(slices.Clone(h[1:2]), at(5, 6, weft.OpGet, 0, false, 0))
	for _, test := range []struct {
		h    []event
		hint Hint
	}{
		{h, Hint{Requires: []any{"what nobody gives"}}},
		{gone, Hint{Pure: true}},
	} {
		m := mapModel(reduced[uint64])
		_, right := m.Check(test.h, times(test.h))
		m.Hint = func(event) Hint { return test.hint }
		m.Key = func(state, func(any) bool) string { return "" }
		if _, wrong := m.Check(test.h, times(test.h)); wrong == nil || !strings.Contains(wrong.Error(), "disagree") {
			t.Errorf("%+v: %v instead of %v", test.hint, wrong, right)
		}
	}
}

// regOp is an operation on a register: a read, a write, or a compare-and-swap.
type regOp struct{ reads, writes, found, val int }

// registerModel returns the model of a register with compare-and-swap. The initial value is 0.
func registerModel() *Model[int, regOp] {
	return &Model[int, regOp]{
		Step: func(s int, o regOp) ([]int, *regOp) {
			possible := o.reads == 0 || s == o.found
			if o.writes != 0 {
				s = o.val
			}
			return only(s, possible), nil
		},
		Key: func(s int, live func(any) bool) string {
			if live(s) {
				return fmt.Sprint(s)
			}
			return "another"
		},
		Format: func(ops []regOp) string { return fmt.Sprintf("%+v", ops) },
		Hint: func(o regOp) Hint {
			h := Hint{Pure: o.writes == 0}
			if o.reads != 0 {
				h.Requires = []any{o.found}
			}
			if o.writes != 0 {
				h.Provides, h.Class = []any{o.val}, fmt.Sprint(o.reads, o.reads*o.found)
			}
			return h
		},
		Has:      func(s int, fact any) bool { return fact == s },
		Register: true,
	}
}

// An operation may write the value that it needs, or find that value initially.
func TestRegister(t *testing.T) {
	m := registerModel()
	var seen agreement
	for seed := range trials(2500) {
		rng := rand.New(rand.NewPCG(seed, 8))
		n, s := 1+rng.IntN(8), 0
		h, wait := make([]regOp, n), rng.IntN(n)
		for i := range h {
			if h[i] = (regOp{rng.IntN(2), rng.IntN(2), s, i + 1}); seed%4 == 0 {
				h[i].val = rng.IntN(n)
			}
			if h[i].writes != 0 {
				s = h[i].val
			}
		}
		if rng.IntN(2) == 0 {
			h[rng.IntN(n)].found = rng.IntN(n)
		}
		agree(t, &seen, m, m, h, sparse(rng, n, func(i, j int) bool { return i+wait < j }))
	}
	seen.requireBoth(t)
}
