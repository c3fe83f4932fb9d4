package dst

import (
	"math/rand/v2"
	"slices"
	"testing"

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

// The search and porcupine are of one opinion.
func TestSearchAgreesWithPorcupine(t *testing.T) {
	var legal, illegal int
	for seed := range uint64(20000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fixed := rng.IntN(3) == 0
		h := past(rng, 1+rng.IntN(12), fixed)
		want := judge(h)
		if want == porcupine.Unknown {
			continue
		}
		if got := newSearch(h).found(0, 0); got != (want == porcupine.Ok) {
			t.Fatalf("seed %d: the search says %v, porcupine %v:\n%s", seed, got, want, tell(h))
		}
		if want == porcupine.Ok {
			legal++
		} else {
			illegal++
		}
	}
	if t.Logf("%d legal, %d illegal", legal, illegal); legal < 2000 || illegal < 2000 {
		t.Error("too few of either to tell")
	}
}

// Many operations at the same time are no trouble, whether an order explains
// them or not.
func TestSearchIsShort(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		h := past(rng, 60, false)
		if seed%2 == 0 {
			for i := range h {
				h[i].from, h[i].till = 1, 2
			}
		}
		s := newSearch(h)
		if s.found(0, 0); s.steps > maxSteps/64 {
			t.Errorf("seed %d: %d steps for 60 operations", seed, s.steps)
		}
	}
}

// What is possible once the search has given up is not called impossible.
func TestSearchGivesUp(t *testing.T) {
	h := past(rand.New(rand.NewPCG(1, 3)), 30, false)
	i := slices.IndexFunc(h, func(e event[uint64, uint64]) bool { return e.op.Kind == weft.OpPut })
	h[i].ok = !h[i].ok
	s := newSearch(h)
	s.limit = 1
	if s.found(0, 0) || s.steps != s.limit {
		t.Errorf("an order found in %d steps", s.steps)
	}
}
