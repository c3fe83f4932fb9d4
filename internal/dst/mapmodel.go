package dst

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/weftgo/weft"
)

type state struct {
	present bool
	val     uint64
}

// mapModel returns the model of maps and sets. Its facts (see [Hint]) are its states.
func mapModel(reduce combining) *Model[state, event] {
	return &Model[state, event]{
		Step: func(s state, e event) ([]state, *event) {
			ok, next := reduce.step(s, e)
			return only(next, ok), nil
		},
		Key: func(s state, live func(any) bool) string {
			if s.present && live(s) {
				return strconv.FormatUint(s.val, 16)
			}
			return strconv.FormatBool(s.present)
		},
		Partition: func(e event) any { return e.op.Key },
		Format:    formatEvents,
		Hint:      reduce.hint,
		Has:       func(s state, fact any) bool { return fact == s },
		Register:  true,
	}
}

// reduceModel returns the model of maps with operations that may combine values. It has no hints,
// because a value that was read does not identify the operation that wrote it.
func reduceModel(reduce combining) *Model[state, event] {
	m := mapModel(reduce)
	m.Key = func(s state, _ func(any) bool) string { return fmt.Sprint(s) }
	m.Hint, m.Has, m.Register = nil, nil, false
	return m
}

type combining func(kind weft.OpKind, a, b uint64) uint64

func reduced[V weft.Value](kind weft.OpKind, a, b V) V {
	switch kind {
	case weft.OpSum:
		return a + b
	case weft.OpMin:
		return min(a, b)
	case weft.OpMax:
		return max(a, b)
	case weft.OpAnd:
		return V(uint64(a) & uint64(b))
	}
	return V(uint64(a) | uint64(b))
}

// step reports whether an operation may have returned its results in state s, and returns the next
// state. In a full structure an insertion may fail.
func (reduce combining) step(s state, e event) (bool, state) {
	ok := !e.returns.OK // columns that are not returned may hold anything
	full := e.maybeFull && !s.present && !e.ok && e.returns.OK
	switch e.op.Kind {
	case weft.OpGet:
		return (ok || e.ok == s.present) && (!e.returns.Vals || e.val == s.val), s
	case weft.OpPut:
		if full {
			return true, s
		}
		return ok || e.ok == !s.present, state{true, e.op.Value}
	case weft.OpPutNew:
		if full { // the input value may still be in place
			return !e.returns.Vals || e.val == s.val || e.val == e.op.Value, s
		}
		if s.present {
			return (ok || !e.ok) && (!e.returns.Vals || e.val == s.val), s
		}
		return (ok || e.ok) && (!e.returns.Loaded || e.val == e.op.Value), state{true, e.op.Value}
	case weft.OpUpdate:
		if !s.present {
			return ok || !e.ok, s
		}
		return ok || e.ok, state{true, e.op.Value}
	case weft.OpSum, weft.OpMin, weft.OpMax, weft.OpAnd, weft.OpOr:
		switch {
		case full:
			return true, s
		case s.present:
			return ok || !e.ok, state{true, reduce(e.op.Kind, s.val, e.op.Value)}
		}
		return ok || e.ok, state{true, e.op.Value}
	}
	return ok || e.ok == s.present, state{}
}

// hint tries the operation in each of the states that it distinguishes: key absent, key with the
// value that the operation returned, and key with another value.
func (reduce combining) hint(e event) Hint {
	other := uint64(0)
	for other == e.val || other == e.op.Value {
		other++
	}
	h := Hint{Pure: true}
	var possible [3]bool
	var after []state
	for i, s := range [3]state{{}, {true, e.val}, {true, other}} {
		ok, next := reduce.step(s, e)
		if !ok {
			continue
		}
		possible[i], after = true, append(after, next)
		if next != s && !slices.Contains(h.Provides, any(next)) {
			h.Provides = append(h.Provides, next)
		}
		h.Pure = h.Pure && next.present == s.present
	}
	if returned := any(state{true, e.val}); possible[1] != possible[2] {
		if h.Requires = []any{returned}; possible[0] { // the fact is not necessary
			h.Provides = append(h.Provides, returned)
		}
	} else if possible[0] && !possible[1] {
		h.Requires = []any{state{}}
	}
	if len(slices.Compact(after)) == 1 && h.Provides != nil {
		h.Class = fmt.Sprint(possible, after[0].present)
	}
	return h
}
