package dst

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weftgo/weft"
)

// secondOpinion bounds the time porcupine gets for a history that has no
// order, as far as we can see.
const secondOpinion = time.Second

// Check looks, in each part of a history, for an order of its operations that
// explains what they returned and keeps to a partial order: before(i, j)
// reports that operation i must precede operation j, as it ended before that
// began, or as edges between streams say. It is transitive.
//
// An order that is found proves itself; that there is none, porcupine may deny.
// A search that is given up counts as one that failed. Check also returns the
// steps of the longest search.
func (m *Model[S, O]) Check(ops []O, before func(i, j int) bool) (steps int, err error) {
	parts := [][]int{make([]int, len(ops))}
	for i := range ops {
		parts[0][i] = i
	}
	if m.Partition != nil {
		parts = m.Partition(ops)
	}
	for _, part := range parts {
		var own []O
		for _, i := range part {
			own = append(own, ops[i])
		}
		within := func(i, j int) bool { return before(part[i], part[j]) }
		x := newSearch(m, own, within)
		found := x.found(m.Init)
		steps = max(steps, x.steps)
		if found || judge(m, own, within, secondOpinion) == porcupine.Ok {
			continue
		}
		why := "no order of the operations explains what they returned:\n%s"
		if x.steps >= maxSteps {
			why = "no order of the operations found that explains what they returned, and not all tried:\n%s"
		}
		return steps, fmt.Errorf(why, m.Tell(own))
	}
	return steps, nil
}

// judge asks porcupine, which gets the model without its hints. It knows of
// intervals only, so to it all operations overlap, and its states carry what is
// done and refuse operations that others must precede. Operations that take
// several steps take them, as far as they go, before others end.
func judge[S, O any](m *Model[S, O], ops []O, before func(i, j int) bool, limit time.Duration) porcupine.CheckResult {
	type config struct {
		state S
		done  bits
		left  map[int]O // of operations that are under way
		key   string
	}
	n := len(ops)
	wait := make([]bits, n)
	history := make([]porcupine.Operation, n)
	for i := range ops {
		wait[i] = newBits(n)
		for j := range ops {
			wait[i].set(j, before(j, i))
		}
		history[i] = porcupine.Operation{ClientId: i, Input: i, Call: 0, Return: 1}
	}
	after := func(c config, i int, o Outcome[S, O]) config {
		c.state, c.done, c.left = o.State, slices.Clone(c.done), maps.Clone(c.left)
		if delete(c.left, i); o.Left != nil {
			c.left[i] = *o.Left
		} else {
			c.done.set(i, true)
		}
		c.key = fmt.Sprint(m.Key(c.state, func(any) bool { return true }), c.left)
		return c
	}
	model := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{config{m.Init, newBits(n), map[int]O{}, ""}} },
		Equal: func(a, b any) bool { return a.(config).key == b.(config).key },
		Step: func(s, in, _ any) (next []any) {
			seen := map[string]bool{}
			for under := []config{s.(config)}; len(under) > 0; under = under[1:] {
				c := under[0]
				for i, op := range ops {
					if c.done.has(i) || !wait[i].within(c.done) {
						continue
					}
					if left, ok := c.left[i]; ok {
						op = left
					}
					for _, o := range m.Step(c.state, op) {
						switch {
						case o.Left != nil:
							if d := after(c, i, o); !seen[d.key] {
								seen[d.key] = true
								under = append(under, d)
							}
						case i == in.(int):
							next = append(next, after(c, i, o))
						}
					}
				}
			}
			return next
		},
	}
	return porcupine.CheckOperationsTimeout(model.ToModel(), history, limit)
}

// byKey are the operations on each key, in the order in which keys occur.
func byKey[K weft.Key, V weft.Value](history []event[K, V]) (parts [][]int) {
	at := map[K]int{}
	for i, e := range history {
		p, ok := at[e.op.Key]
		if !ok {
			p = len(parts)
			at[e.op.Key] = p
			parts = append(parts, nil)
		}
		parts[p] = append(parts[p], i)
	}
	return parts
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
