package mutate

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// report summarizes verdicts.
type report struct {
	rows        map[string]*row // by kind of change
	unexplained []*Verdict
	explained   map[*Reason]int
	reasons     Reasons
}

// row counts the mutants of one kind.
type row struct {
	all, killed, unloaded int
	same                  int // survivors that have the effect of the original kernel
	escaped               int // all other survivors
}

// share returns the percentage of killed mutants among those that should be killed.
func (r *row) share() float64 {
	if r.killed == 0 {
		return 0
	}
	return 100 * float64(r.killed) / float64(r.killed+r.escaped)
}

// sum is the name of the row with the totals.
const sum = "all"

func newReport(verdicts []*Verdict, reasons Reasons, probed bool) *report {
	r := &report{rows: map[string]*row{sum: {}}, explained: map[*Reason]int{}, reasons: reasons}
	for _, v := range verdicts {
		kind := strings.Split(v.Mutant, ":")[3]
		if r.rows[kind] == nil {
			r.rows[kind] = &row{}
		}
		var reason *Reason
		if v.survived() {
			if reason = reasons.find(v, probed); reason == nil {
				r.unexplained = append(r.unexplained, v)
			} else {
				r.explained[reason]++
			}
		}
		r.rows[kind].count(v, reason)
		r.rows[sum].count(v, reason)
	}
	return r
}

func (r *row) count(v *Verdict, reason *Reason) {
	r.all++
	switch {
	case v.Outcome == Killed:
		r.killed++
	case v.Outcome == Unloaded:
		r.unloaded++
	case reason == nil || reason.Class == Escapes:
		r.escaped++
	default:
		r.same++
	}
}

func (r *report) String() string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "change\tmutants\tkilled\tnot loaded\tsame\tescaped\tkilled of those that differ")
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	for _, name := range append(names, sum) {
		if c := r.rows[name]; c != nil {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%.1f %%\n", name, c.all, c.killed, c.unloaded, c.same, c.escaped, c.share())
		}
	}
	w.Flush()
	for i := range r.reasons {
		if reason := &r.reasons[i]; r.explained[reason] > 0 {
			fmt.Fprintf(&s, "%d %s: %s\n", r.explained[reason], reason.Class, reason.Text)
		}
	}
	for _, v := range r.unexplained {
		fmt.Fprintf(&s, "no reason: %s (%s)\n\t%s\n\t%s\n", v.Mutant, v.Outcome, v.Context, v.Now)
	}
	return s.String()
}
