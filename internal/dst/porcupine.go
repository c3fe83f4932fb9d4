package dst

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// porcupineTimeout is porcupine's time limit for one part of a history.
	porcupineTimeout = time.Second
	// porcupineMaxOps is the maximum number of operations in a part that porcupine always judges.
	porcupineMaxOps = 12
)

// checkPorcupine runs porcupine on one part of a history, with the model but without hints.
// Porcupine supports only orders of intervals. So all operations overlap here, and a step
// is rejected if a predecessor of its operation is not done. Before an operation ends, all
// operations may take steps except their last.
func checkPorcupine[S, O any](m *Model[S, O], ops []O, before func(i, j int) bool) porcupine.CheckResult {
	x := newSearch(m, ops, before)
	history := make([]porcupine.Operation, len(ops))
	for i := range ops {
		history[i] = porcupine.Operation{ClientId: i, Input: i, Return: 1}
	}
	model := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{config[S, O]{m.Init, newSet(len(ops)), nil, ""}} },
		Equal: func(a, b any) bool { return a.(config[S, O]).key == b.(config[S, O]).key },
		Step: func(s, in, _ any) (next []any) {
			seen := map[string]bool{}
			for todo := []any{s}; len(todo) > 0; todo = todo[1:] {
				c := todo[0].(config[S, O])
				for i := 0; i < len(ops) && !seen[c.key]; i++ {
					if to, ends := x.step(c, i, in.(int)); ends {
						next = append(next, to...)
					} else {
						todo = append(todo, to...)
					}
				}
				seen[c.key] = true
			}
			return next
		},
	}
	return porcupine.CheckOperationsTimeout(model.ToModel(), history, porcupineTimeout)
}

// config is a state together with the set of operations that are done.
type config[S, O any] struct {
	state S
	done  set
	rest  map[int]O // rests of operations that have begun but not ended
	key   string    // identifies the config among those with the same operations done
}

// step returns the configs to which a step of operation i may lead. It returns none if the
// operation must not come next. ends reports whether the step ends the operation. Only the
// operation with index ending may end.
func (x *search[S, O]) step(c config[S, O], i, ending int) (to []any, ends bool) {
	if c.done.has(i) || !x.ops[i].before.coveredBy(c.done) {
		return nil, false
	}
	op, ok := c.rest[i]
	if !ok {
		op = x.ops[i].op
	}
	states, rest := x.m.Step(c.state, op)
	if rest == nil && i != ending {
		return nil, true
	}
	done, remainders := slices.Clone(c.done), map[int]O{}
	maps.Copy(remainders, c.rest)
	if delete(remainders, i); rest != nil {
		remainders[i] = *rest
	} else {
		done.flip(i)
	}
	for _, s := range states {
		key := fmt.Sprint(x.m.Key(s, func(any) bool { return true }), remainders)
		to = append(to, config[S, O]{s, done, remainders, key})
	}
	return to, rest == nil
}
