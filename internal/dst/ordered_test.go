package dst

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

type pair struct{ key, val int }

// orderedOp is an operation on an ordered map: Put, Delete, or a Range that atomically lists the
// pairs with keys from lo to hi.
type orderedOp struct {
	kind   string
	pair   pair // pair to put, or with the key to delete
	lo, hi int
	listed []pair
}

// apply returns the pairs after an operation. s is sorted by key.
func (o orderedOp) apply(s []pair) []pair {
	i, found := slices.BinarySearchFunc(s, o.pair.key, func(p pair, k int) int { return p.key - k })
	if s = slices.Clone(s); found {
		s = slices.Delete(s, i, i+1)
	}
	if o.kind == "Put" {
		s = slices.Insert(s, i, o.pair)
	}
	return s
}

// list returns the pairs that a Range must list.
func (o orderedOp) list(s []pair) []pair {
	return slices.DeleteFunc(slices.Clone(s), func(p pair) bool { return p.key < o.lo || p.key > o.hi })
}

// orderedModel returns the model of ordered maps. Its operations concern several keys, and its
// facts are the pairs.
func orderedModel() *Model[[]pair, orderedOp] {
	return &Model[[]pair, orderedOp]{
		Step: func(s []pair, o orderedOp) ([][]pair, *orderedOp) {
			if o.kind == "Range" {
				return only(s, slices.Equal(o.list(s), o.listed)), nil
			}
			return only(o.apply(s), true), nil
		},
		Key: func(s []pair, live func(any) bool) (key string) {
			for _, p := range s {
				if !live(p) {
					p.val = -1
				}
				key += fmt.Sprint(p)
			}
			return key
		},
		Format: func(ops []orderedOp) string { return fmt.Sprintf("%+v", ops) },
		Hint: func(o orderedOp) Hint {
			switch o.kind {
			case "Put":
				return Hint{Provides: []any{o.pair}, Class: fmt.Sprint(o.kind, o.pair.key)}
			case "Delete":
				return Hint{Class: fmt.Sprint(o.kind, o.pair.key)}
			}
			h := Hint{Pure: true}
			for _, p := range o.listed {
				h.Requires = append(h.Requires, p)
			}
			return h
		},
		Has: func(s []pair, fact any) bool { return slices.Contains(s, fact.(pair)) },
	}
}

// pastOfOrdered generates a history of an ordered map. Each operation precedes those that begin at
// least spread operations later. Most histories are then spoiled.
func pastOfOrdered(rng *rand.Rand, n, spread int) (h []orderedOp, before func(i, j int) bool) {
	var s []pair
	for i := range n {
		o := orderedOp{kind: []string{"Put", "Put", "Delete", "Range", "Range"}[rng.IntN(5)], pair: pair{rng.IntN(4), i}}
		if o.kind == "Range" {
			o.lo = rng.IntN(4)
			o.hi = o.lo + rng.IntN(4)
			o.listed = o.list(s)
		} else {
			s = o.apply(s)
		}
		h = append(h, o)
	}
	for i := range h {
		switch e := &h[i]; {
		case len(e.listed) == 0 || rng.IntN(2) == 0:
		case rng.IntN(3) == 0:
			e.listed = e.listed[1:]
		default:
			e.listed[0].val = h[rng.IntN(n)].pair.val
		}
	}
	return h, func(i, j int) bool { return i+spread <= j }
}

// The search must also order operations that concern several keys, which form a single part.
func TestOrderedMap(t *testing.T) {
	m := orderedModel()
	var seen agreement
	for seed := range trials(1000) {
		rng := rand.New(rand.NewPCG(seed, 6))
		h, before := pastOfOrdered(rng, 2+rng.IntN(8), 1+rng.IntN(8))
		agree(t, &seen, m, m, h, before)
		agree(t, &seen, m, m, h, sparse(rng, len(h), before))
	}
	seen.requireBoth(t)
	longest := 0
	for seed := range uint64(100) {
		h, before := pastOfOrdered(rand.New(rand.NewPCG(seed, 7)), 60, 8)
		x := newSearch(m, h, before)
		x.hasOrder(m.Init)
		longest = max(longest, x.steps)
	}
	if t.Logf("longest search: %d steps", longest); longest > maxSteps/64 {
		t.Errorf("%d steps for 60 operations", longest)
	}
}
