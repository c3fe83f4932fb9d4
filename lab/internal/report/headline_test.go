package report

import (
	"strings"
	"testing"

	"github.com/weftgo/weft/lab/internal/experiment"
)

func ran(structure, op string, n, cores int, load, rate float64) experiment.Row {
	return experiment.Row{Structure: structure, Op: op, KeyBits: 64, ValueBits: 64, N: n, Cores: cores, Load: load, OpsPerS: rate}
}

// formatContests formats contests and their bars: name, rate, part, and a star for weft's.
func formatContests(all []contest) string {
	var text strings.Builder
	for _, c := range all {
		text.WriteString(c.Op + " | " + c.Says + "\n")
		for _, b := range c.Bars {
			text.WriteString("  " + b.Name + " " + b.Rate + " " + b.Part + " " + b.Of)
			if b.Ours {
				text.WriteString(" *")
			}
			text.WriteString("\n")
		}
	}
	return text.String()
}

// A page opens with weft and its rivals in the largest setting in which most structures were
// measured. A structure without a load is compared at any.
func TestHeadline(t *testing.T) {
	among := &experiment.Result{Rows: []experiment.Row{
		ran("linear", "insert", 1000, 1, .5, 4e7), ran("slab", "insert", 1000, 1, .5, 2e7),
	}}
	rivals := &experiment.Result{Rows: []experiment.Row{
		ran("builtin map", "insert", 1000, 1, 0, 1e7), ran("builtin map", "get", 1000, 1, 0, 2e7), ran("builtin map", "get", 1000, 2, 0, 4e7),
		ran("linear", "insert", 1000, 1, .5, 4e7), ran("linear", "get", 1000, 1, .5, 5e7), ran("linear", "get", 1000, 2, .5, 3e7),
		ran("linear", "alone", 1000, 2, .5, 1e8),
	}}
	rivals.Rows[3].LimitShare = .25
	simulated := &experiment.Result{Simulated: true, Rows: rivals.Rows}
	const beside = `insert | linear: 40.0 M/s, 4.00 times builtin map, 1 000 operations on one core
  linear 40.0 M/s 1.000 25 % of the limit *
  builtin map 10.0 M/s 0.250 
get | linear: 30.0 M/s, 0.750 times builtin map, 1 000 operations on 2 cores
  builtin map 40.0 M/s 1.000 
  linear 30.0 M/s 0.750  *
`
	const own = `insert | linear: 40.0 M/s, 2.00 times slab, 1 000 operations on one core
  linear 40.0 M/s 1.000  *
  slab 20.0 M/s 0.500  *
`
	for _, tt := range []struct {
		name    string
		results []*experiment.Result
		want    string
	}{
		{"none", nil, ""},
		{"simulated", []*experiment.Result{simulated}, ""},
		{"without rivals", []*experiment.Result{among}, own},
		{"rivals in the first", []*experiment.Result{rivals, among}, beside},
		{"rivals in the second", []*experiment.Result{among, rivals}, beside},
	} {
		if got := formatContests(headline(tt.results)); got != tt.want {
			t.Errorf("%s:\n%swant\n%s", tt.name, got, tt.want)
		}
	}
}

// Settings in which a structure was measured twice are not contests, nor are figures other than
// rates of operations. The number of contests is limited.
func TestContests(t *testing.T) {
	twice := &experiment.Result{Rows: []experiment.Row{
		ran("linear", "get", 1000, 1, .5, 1e7), ran("linear", "get", 1000, 1, .5, 2e7), ran("slab", "get", 1000, 1, .5, 2e7),
	}}
	if got := contests(twice); len(got) != 0 {
		t.Errorf("twice: %s", formatContests(got))
	}
	calls := &experiment.Result{Rows: []experiment.Row{ran("linear", "get", 1000, 1, .5, 1e7), ran("slab", "get", 1000, 1, .5, 2e7), ran("horton", "get", 1000, 1, .5, 0)}}
	calls.Rows[0].Unit = "call/s"
	if got := contests(calls); len(got) != 0 {
		t.Errorf("calls: %s", formatContests(got))
	}
	sizes := &experiment.Result{}
	for _, n := range []int{10, 1000, 100} {
		sizes.Rows = append(sizes.Rows, ran("linear", "get", n, 1, .5, float64(n)), ran("slab", "get", n, 1, .5, float64(n)/2))
	}
	if got := contests(sizes); len(got) != 1 || !strings.Contains(got[0].Says, "1 000 operations") {
		t.Errorf("sizes: %s", formatContests(got))
	}
	many := &experiment.Result{}
	for _, op := range []string{"a", "b", "c", "d", "e", "f"} {
		many.Rows = append(many.Rows, ran("linear", op, 10, 1, .5, 1), ran("slab", op, 10, 1, .5, 1))
	}
	if got := contests(many); len(got) != maxContests || got[0].Op != "a" {
		t.Errorf("many: %s", formatContests(got))
	}
}

func TestIsOurs(t *testing.T) {
	for name, want := range map[string]bool{"linear": true, "gphash-warp": true, "graph": true, "builtin map": false, "linearly": false, "": false} {
		if isWeft(name) != want {
			t.Errorf("%q is ours: %v", name, !want)
		}
	}
}
