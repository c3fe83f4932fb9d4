package dst

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Check searches for an order of the operations of each part of a history. The order must explain
// the results and extend a partial order. before(i, j) reports that operation i must precede
// operation j, because i ended before j began, or because of an edge between streams. before need
// not be transitive.
//
// Porcupine also judges short parts, and parts for which the search finds no order. If the search
// and porcupine disagree, Check returns an error, unless the search was aborted. steps is the
// number of steps of the longest search.
func (m *Model[S, O]) Check(ops []O, before func(i, j int) bool) (steps int, err error) {
	var parts [][]int
	at := map[any]int{}
	for i, op := range ops {
		var name any
		if m.Partition != nil {
			name = m.Partition(op)
		}
		if _, ok := at[name]; !ok {
			at[name] = len(parts)
			parts = append(parts, nil)
		}
		parts[at[name]] = append(parts[at[name]], i)
	}
	for _, part := range parts {
		var partOps []O
		for _, i := range part {
			partOps = append(partOps, ops[i])
		}
		partBefore := transitiveClosure(len(part), func(i, j int) bool { return before(part[i], part[j]) })
		x := newSearch(m, partOps, partBefore)
		found, verdict := x.hasOrder(m.Init), porcupine.Unknown
		steps = max(steps, x.steps)
		if !found || len(partOps) <= porcupineMaxOps {
			verdict = checkPorcupine(m, partOps, partBefore)
		}
		var reason string
		switch {
		case found && verdict == porcupine.Illegal, !found && x.steps < x.limit && verdict == porcupine.Ok:
			reason = "the search and porcupine disagree on whether an order of the operations explains what they returned"
		case !found && x.steps < x.limit:
			reason = "no order of the operations explains what they returned"
		case !found && verdict != porcupine.Ok:
			reason = "no order of the operations found that explains what they returned, and not all tried"
		default:
			continue
		}
		return steps, fmt.Errorf("%s:\n%s", reason, m.Format(partOps))
	}
	return steps, nil
}

func formatEvents(events []event) string {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b event) int { return int(a.start - b.start) })
	var s strings.Builder
	for _, e := range events {
		fmt.Fprintf(&s, "  %6d–%-6d %s", e.start, e.end, describe(e.op))
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
