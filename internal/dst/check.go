package dst

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weftgo/weft"
)

// secondOpinion bounds the time porcupine gets for a history that has no
// order, as far as we can see.
const secondOpinion = time.Second

// A state is what a map holds for one key.
type state[V weft.Value] struct {
	present bool
	val     V
}

// check looks, for each key, for an order of its operations that explains
// what they returned and keeps to their times. An order that is found proves
// itself; that there is none, porcupine may deny if there is one value a key.
// A search that is given up counts as one that failed. It also returns the
// steps of the longest search.
func check[K weft.Key, V weft.Value](history []event[K, V], multi bool) (steps int, err error) {
	byKey := map[K][]event[K, V]{}
	var order []K
	for _, e := range history {
		if byKey[e.op.Key] == nil {
			order = append(order, e.op.Key)
		}
		byKey[e.op.Key] = append(byKey[e.op.Key], e)
	}
	for _, k := range order {
		found, took := explained(byKey[k], multi)
		steps = max(steps, took)
		if found {
			continue
		}
		why := "no order of the operations on key %#x explains what they returned:\n%s"
		if took >= maxSteps {
			why = "no order of the operations on key %#x found, and not all tried:\n%s"
		}
		return steps, fmt.Errorf(why, k, tell(byKey[k]))
	}
	return steps, nil
}

// explained looks for an order of the operations on one key.
func explained[K weft.Key, V weft.Value](events []event[K, V], multi bool) (found bool, steps int) {
	if multi {
		s := newMultisearch(events)
		return s.found(nil), s.steps
	}
	s := newSearch(events)
	return s.found(0, 0) || judge(events) == porcupine.Ok, s.steps
}

// judge asks porcupine about the operations on one key.
func judge[K weft.Key, V weft.Value](events []event[K, V]) porcupine.CheckResult {
	model := porcupine.Model{
		Init: func() any { return state[V]{} },
		Step: func(s, in, _ any) (bool, any) {
			return step(s.(state[V]), in.(event[K, V]))
		},
	}
	var ops []porcupine.Operation
	for i, e := range events {
		ops = append(ops, porcupine.Operation{ClientId: i, Input: e, Call: e.from, Return: e.till})
	}
	return porcupine.CheckOperationsTimeout(model, ops, secondOpinion)
}

// step says whether an operation may return what it did in a state, and what
// state it leaves. In a full structure an insert may find no room.
func step[K weft.Key, V weft.Value](s state[V], e event[K, V]) (bool, state[V]) {
	ok := !e.returns.OK // what is not returned may be anything
	full := e.full && !s.present && !e.ok && e.returns.OK
	switch e.op.Kind {
	case weft.OpGet:
		return (ok || e.ok == s.present) && (!e.returns.Vals || e.val == s.val), s
	case weft.OpPut:
		if full {
			return true, s
		}
		return ok || e.ok == !s.present, state[V]{true, e.op.Value}
	case weft.OpPutNew:
		if s.present || full {
			return (ok || !e.ok) && (!e.returns.Vals || e.val == s.val), s
		}
		return ok || e.ok, state[V]{true, e.op.Value}
	}
	return ok || e.ok == s.present, state[V]{}
}

// tell lists events in the order in which they began.
func tell[K weft.Key, V weft.Value](events []event[K, V]) string {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b event[K, V]) int { return int(a.from - b.from) })
	var s strings.Builder
	for _, e := range events {
		fmt.Fprintf(&s, "  %6d–%-6d %s", e.from, e.till, describe(e.op))
		if e.returns.OK {
			fmt.Fprintf(&s, " = %v", e.ok)
		}
		if e.returns.Vals {
			fmt.Fprintf(&s, ", %#x", e.val)
		}
		if e.returns.Counts {
			fmt.Fprintf(&s, " = %d", e.removed)
		}
		if e.op.Kind == getAll {
			fmt.Fprintf(&s, " = %#x", e.all)
		}
		s.WriteByte('\n')
	}
	return s.String()
}
