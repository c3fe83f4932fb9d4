package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weftgo/weft/lab/internal/experiment"
)

// contest is an operation that was measured on several structures in the same setting. Bars are
// sorted; the fastest structure comes first.
type contest struct {
	Op, Says string
	Bars     []bar
}

// bar is a structure in a contest.
type bar struct {
	Name, Rate, Of string
	Part           string // rate over the rate of the fastest structure: 0.731
	Ours           bool
}

// weftStructures are weft's structures. All others in results are rivals.
var weftStructures = []string{"linear", "slab", "cuckoo", "horton", "gphash", "ordered", "btree", "sorted", "lsm", "graph"}

func isWeft(structure string) bool {
	name, _, _ := strings.Cut(structure, "-")
	return slices.Contains(weftStructures, name)
}

// maxContests is the maximum number of contests at the top of a page.
const maxContests = 4

// headline returns the contests of the first result that has any. It prefers a result that has
// contests with rivals.
func headline(results []*experiment.Result) (all []contest) {
	rivals := func(c contest) bool { return slices.ContainsFunc(c.Bars, func(b bar) bool { return !b.Ours }) }
	for _, res := range results {
		if res.Simulated {
			continue
		}
		found := contests(res)
		if len(all) == 0 || slices.ContainsFunc(found, rivals) && !slices.ContainsFunc(all, rivals) {
			all = found
		}
	}
	return all
}

// contests returns a contest per operation. It uses the setting in which most structures were
// measured and, among these, the largest.
func contests(res *experiment.Result) (all []contest) {
	for _, op := range distinct(res.Rows, func(r experiment.Row) string { return r.Op }) {
		var best []experiment.Row
		for _, s := range distinct(res.Rows, settingOf) {
			rows := slices.DeleteFunc(slices.Clone(res.Rows), func(r experiment.Row) bool {
				return r.Op != op || r.OpsPerS <= 0 || r.Unit != "" || !s.matches(r)
			})
			structures := distinct(rows, func(r experiment.Row) string { return r.Structure })
			if len(structures) == len(rows) && len(rows) > 1 && (len(rows) > len(best) || len(rows) == len(best) && rows[0].N >= best[0].N) {
				best = rows
			}
		}
		if best != nil && len(all) < maxContests {
			all = append(all, contestOf(op, best))
		}
	}
	return all
}

// setting holds the fields in which comparable rows are equal.
type setting struct {
	key, value, n, batch, cores, keys, buckets, slots int
	load, theta                                       float64
	graph                                             string
}

// matches reports whether a row was measured in a setting. A row that has no load, such as one of
// Go's map, matches any load.
func (s setting) matches(r experiment.Row) bool {
	of := settingOf(r)
	if of.load == 0 {
		of.load = s.load
	}
	return of == s
}

func settingOf(r experiment.Row) setting {
	s := setting{r.KeyBits, r.ValueBits, r.N, r.Batch, r.Cores, r.Keys, r.Buckets, r.Slots, r.Load, r.Theta, ""}
	if r.Graph != nil {
		s.graph = r.Graph.Name
	}
	return s
}

func contestOf(op string, rows []experiment.Row) contest {
	slices.SortStableFunc(rows, func(a, b experiment.Row) int { return cmp.Compare(b.OpsPerS, a.OpsPerS) })
	c := contest{Op: op}
	for _, r := range rows {
		b := bar{Name: r.Structure, Rate: rate(r.OpsPerS) + "/s", Part: fmt.Sprintf("%.3f", r.OpsPerS/rows[0].OpsPerS), Ours: isWeft(r.Structure)}
		if r.LimitShare > 0 {
			b.Of = share(r.LimitShare) + " of the limit"
		}
		c.Bars = append(c.Bars, b)
	}
	first := func(want bool) (r experiment.Row, ok bool) {
		i := slices.IndexFunc(c.Bars, func(b bar) bool { return b.Ours == want })
		if i < 0 {
			return r, false
		}
		return rows[i], true
	}
	weft, any := first(true)
	rival, rivals := first(false)
	if !any || !rivals {
		weft, rival = rows[0], rows[1]
	}
	c.Says = fmt.Sprintf("%s: %s/s, %s times %s", weft.Structure, rate(weft.OpsPerS), digits(weft.OpsPerS/rival.OpsPerS), rival.Structure)
	if sizes := rows[0]; sizes.N > 0 {
		c.Says += fmt.Sprintf(", %s operations", count(sizes.N))
	}
	if cores := rows[0].Cores; cores == 1 {
		c.Says += " on one core"
	} else if cores > 1 {
		c.Says += fmt.Sprintf(" on %d cores", cores)
	}
	return c
}
