package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/weftgo/weft/lab/internal/experiment"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// Table is the rows of a result as text, for a terminal or a page.
type Table struct {
	Head  []string
	Cells [][]string
	// Text reports for each column whether it contains words instead of numbers.
	Text []bool
}

// column is a column of a table: its head, and a function that formats a cell of a row.
type column struct {
	head string
	text bool
	cell func(experiment.Row) string
}

var (
	structureColumn = column{"structure", true, func(r experiment.Row) string { return r.Structure }}
	widthColumn     = column{"bits", true, width}
	sizeColumn      = column{"n", false, func(r experiment.Row) string { return zeroEmpty(r.N, count(r.N)) }}
	loadColumn      = column{"load", false, func(r experiment.Row) string {
		if r.Structure == "builtin map" { // it does not report a load
			return ""
		}
		return load(r.Load)
	}}
	coresColumn = column{"cores", false, func(r experiment.Row) string { return zeroEmpty(r.Cores, count(r.Cores)) }}
)

// Tabulate arranges the rows of a result. If several operations were measured at several loads or
// sizes, each load or size is a line and each operation a column. Otherwise each row is a line.
func Tabulate(res *experiment.Result) Table {
	if !pivoted(res) {
		return list(res.Rows)
	}
	return pivot(res.Rows, distinct(res.Rows, func(r experiment.Row) string { return r.Op }), res.Experiment == "sizes")
}

// pivoted reports whether a line of the table combines several rows.
func pivoted(res *experiment.Result) bool {
	loads := distinct(res.Rows, func(r experiment.Row) float64 { return r.Load })
	ops := distinct(res.Rows, func(r experiment.Row) string { return r.Op })
	return !res.Simulated && (res.Experiment == "sizes" ||
		len(loads) > 1 && len(ops) > 1 && (res.Experiment == "linear" || res.Experiment == "horton-side-by-side"))
}

// list makes a line per row. It omits columns in which all rows are empty.
func list(rows []experiment.Row) Table {
	columns := []column{
		structureColumn,
		{"operation", true, func(r experiment.Row) string {
			if r.Op == r.Limit { // the row is a limit
				return r.Op + ": " + roofline.Describe(r.Op)
			}
			return r.Op
		}},
		widthColumn,
		sizeColumn,
		{"load", false, func(r experiment.Row) string {
			if r.Load == 0 && (r.Op != "insert" || r.Latency != nil || r.Graph != nil) || r.N == 0 || r.Structure == "builtin map" {
				return ""
			}
			return load(r.Load)
		}},
		{"slots", false, func(r experiment.Row) string { return zeroEmpty(r.Slots, count(r.Slots)) }},
		{"table", false, func(r experiment.Row) string { return zeroEmpty(r.TableBytes, bytes(float64(r.TableBytes))) }},
		{"buckets", false, func(r experiment.Row) string { return zeroEmpty(r.Buckets, count(r.Buckets)) }},
		{"units", false, func(r experiment.Row) string { return zeroEmpty(r.Units, count(r.Units)) }},
		{"graph", true, ofGraph(func(g *experiment.GraphShape) string { return g.Name })},
		{"vertices", false, ofGraph(func(g *experiment.GraphShape) string { return count(g.Vertices) })},
		{"edges", false, ofGraph(func(g *experiment.GraphShape) string { return count(g.Edges) })},
		{"degrees", true, ofGraph(degrees)},
		{"batch", false, func(r experiment.Row) string { return zeroEmpty(r.Batch, count(r.Batch)) }},
		{"keys", false, func(r experiment.Row) string { return zeroEmpty(r.Keys, count(r.Keys)) }},
		{"cache", false, func(r experiment.Row) string {
			if r.Cache == nil {
				return ""
			}
			return share(*r.Cache)
		}},
		{"theta", false, func(r experiment.Row) string { return zeroEmpty(int(100*r.Theta), load(r.Theta)) }},
		coresColumn,
		{"time", false, func(r experiment.Row) string { return zeroEmpty(int(r.Seconds*1e9), seconds(r.Seconds)) }},
		{"rate", false, func(r experiment.Row) string { return rateWithUnit(r) }},
		spreadColumn("slowest", func(s *experiment.Spread) float64 { return s.Slowest }),
		spreadColumn("fastest", func(s *experiment.Spread) float64 { return s.Fastest }),
		{"of limit", false, func(r experiment.Row) string {
			if r.Op == r.Limit || r.Limit == "" { // the row is a limit, or has none
				return ""
			}
			return share(r.LimitShare)
		}},
		{"limit", true, func(r experiment.Row) string {
			if r.Op == r.Limit {
				return ""
			}
			return r.Limit
		}},
		latency("p50", func(l *experiment.Latency) float64 { return l.P50 }),
		latency("p99", func(l *experiment.Latency) float64 { return l.P99 }),
		latency("longest", func(l *experiment.Latency) float64 { return l.Max }),
		{"why not", true, func(r experiment.Row) string { return r.Reason }},
		{"parts", true, parts},
		{"target", true, targets},
		{"busy", false, func(r experiment.Row) string {
			if r.BusyOpsPerS == nil {
				return ""
			}
			return rate(*r.BusyOpsPerS) + "/s"
		}},
		{"speedup", false, func(r experiment.Row) string { return optional(r.Speedup) }},
		{"B/op computed", false, func(r experiment.Row) string { return optional(r.BytesPerOp) }},
		simulated("sectors/op simulated", func(r *experiment.Requested) float64 { return r.Sectors }),
		simulated("lines/op simulated", func(r *experiment.Requested) float64 { return r.Lines }),
		measured("per hit", func(r *experiment.Reads) float64 { return r.PerHit }),
		model(func(r *experiment.Reads) float64 { return r.PerHit }),
		measured("per miss", func(r *experiment.Reads) float64 { return r.PerMiss }),
		model(func(r *experiment.Reads) float64 { return r.PerMiss }),
		measured("per insert", func(r *experiment.Reads) float64 { return r.PerInsert }),
		model(func(r *experiment.Reads) float64 { return r.PerInsert }),
		measured("type B", func(r *experiment.Reads) float64 { return r.TypeB }),
		model(func(r *experiment.Reads) float64 { return r.TypeB }),
		measured("entries/bucket", func(r *experiment.Reads) float64 { return r.Entries }),
		model(func(r *experiment.Reads) float64 { return r.Entries }),
		{"hits", false, func(r experiment.Row) string {
			if r.HitRatio == nil {
				return ""
			}
			return share(*r.HitRatio)
		}},
		{"B/entry", false, func(r experiment.Row) string { return optional(r.BytesPerEntry) }},
		{"mean probe", false, func(r experiment.Row) string { return optional(r.MeanProbe) }},
		{"published", false, func(r experiment.Row) string { return optional(r.PublishedMeanProbe) }},
		{"max probe", false, func(r experiment.Row) string { return whole(r.MaxProbe) }},
		{"published", false, func(r experiment.Row) string { return whole(r.PublishedMaxProbe) }},
		{"published", false, func(r experiment.Row) string {
			if r.PublishedOpsPerS == nil {
				return ""
			}
			return rate(*r.PublishedOpsPerS) + "/s"
		}},
	}
	return fill(rows, columns)
}

// measured returns a column of table statistics. model returns a column of theoretical values.
func measured(head string, of func(*experiment.Reads) float64) column {
	return column{head, false, func(r experiment.Row) string { return reads(r.Measured, of) }}
}

func model(of func(*experiment.Reads) float64) column {
	return column{"model", false, func(r experiment.Row) string { return reads(r.Model, of) }}
}

func latency(head string, of func(*experiment.Latency) float64) column {
	return column{head, false, func(r experiment.Row) string {
		if r.Latency == nil {
			return ""
		}
		return seconds(of(r.Latency))
	}}
}

// spreadColumn returns a column of the slowest or the fastest rate.
func spreadColumn(head string, of func(*experiment.Spread) float64) column {
	return column{head, false, func(r experiment.Row) string {
		if r.Spread == nil {
			return ""
		}
		return rate(of(r.Spread)) + "/s"
	}}
}

// targets formats the targets of a row, and whether the row reaches them: "3.00x plain: 4.21x,
// reached".
func targets(r experiment.Row) string {
	lines := make([]string, len(r.Targets))
	for i, t := range r.Targets {
		figure := map[string]func(float64) string{
			"x": func(x float64) string { return digits(x) + "x" }, "s": seconds, "op/s": func(x float64) string { return rate(x) + "/s" },
		}[t.Unit]
		verdict := "missed"
		if t.Reached {
			verdict = "reached"
		}
		lines[i] = strings.TrimSuffix(figure(t.Want)+" "+t.Of, " ") + ": " + figure(t.Is) + ", " + verdict
	}
	return strings.Join(lines, "; ")
}

// simulated returns a column of counts from a simulated GPU.
func simulated(head string, of func(*experiment.Requested) float64) column {
	return column{head, false, func(r experiment.Row) string {
		if r.Requested == nil {
			return ""
		}
		return strconv.FormatFloat(of(r.Requested), 'f', 3, 64)
	}}
}

// reads formats a figure of r, or returns "" if there is none.
func reads(r *experiment.Reads, of func(*experiment.Reads) float64) string {
	if r == nil || of(r) == 0 {
		return ""
	}
	return strconv.FormatFloat(of(r), 'f', 4, 64)
}

func zeroEmpty(n int, s string) string {
	if n == 0 {
		return ""
	}
	return s
}

// rateWithUnit formats a row's rate: "36.4 G/s", "4.27 TB/s", "119 k call/s".
func rateWithUnit(r experiment.Row) string {
	if r.Reason != "" || r.OpsPerS == 0 {
		return ""
	}
	switch r.Unit {
	case "":
		return rate(r.OpsPerS) + "/s"
	case "B/s":
		return bytes(r.OpsPerS) + "/s"
	}
	return rate(r.OpsPerS) + " " + r.Unit
}

// fill makes a table and omits columns in which all cells are empty.
func fill(rows []experiment.Row, columns []column) Table {
	var t Table
	t.Cells = make([][]string, len(rows))
	for _, c := range columns {
		cells := make([]string, len(rows))
		for i, r := range rows {
			cells[i] = c.cell(r)
		}
		if !slices.ContainsFunc(cells, func(s string) bool { return s != "" }) {
			continue
		}
		t.Head = append(t.Head, c.head)
		t.Text = append(t.Text, c.text)
		for i := range cells {
			t.Cells[i] = append(t.Cells[i], cells[i])
		}
	}
	return t
}

// pivot makes a line per structure, width and load and, if bySize is set, per number of keys. The
// column of an operation shows its rate, its share of the limit, and its speedup.
func pivot(rows []experiment.Row, ops []string, bySize bool) Table {
	type key struct {
		structure, width string
		load             float64
		n                int
	}
	keyOf := func(r experiment.Row) key {
		k := key{r.Structure, width(r), r.Load, 0}
		if bySize {
			k.n = r.N
		}
		return k
	}
	keys := distinct(rows, keyOf)

	cell := func(k key, op string) (experiment.Row, bool) {
		i := slices.IndexFunc(rows, func(r experiment.Row) bool { return keyOf(r) == k && r.Op == op })
		if i < 0 {
			return experiment.Row{}, false
		}
		return rows[i], true
	}
	// the first columns and the statistics of a line come from this row
	first := make([]experiment.Row, len(keys))
	for i, k := range keys {
		first[i], _ = cell(k, ops[0])
	}
	compared := slices.ContainsFunc(rows, func(r experiment.Row) bool { return r.Speedup != nil })
	busy := slices.ContainsFunc(rows, func(r experiment.Row) bool { return r.BusyOpsPerS != nil })
	columns := []column{structureColumn, widthColumn}
	if bySize {
		columns = append(columns, sizeColumn)
	}
	columns = append(columns, loadColumn, coresColumn)
	for _, op := range ops {
		columns = append(columns, column{op, false, func(line experiment.Row) string {
			r, ok := cell(keyOf(line), op)
			if !ok {
				return ""
			}
			s := rateWithUnit(r) + " " + fmt.Sprintf("%5s", share(r.LimitShare))
			switch {
			case r.Speedup != nil:
				s += fmt.Sprintf(" %7s", digits(*r.Speedup)+"x")
			case compared: // aligned with the other cells
				s += fmt.Sprintf(" %7s", "")
			}
			switch {
			case r.BusyOpsPerS != nil:
				s += fmt.Sprintf(" %12s", "busy "+rate(*r.BusyOpsPerS))
			case busy:
				s += fmt.Sprintf(" %12s", "")
			}
			return s
		}})
	}
	columns = append(columns,
		column{"mean probe", false, func(r experiment.Row) string { return optional(r.MeanProbe) }},
		column{"max", false, func(r experiment.Row) string { return whole(r.MaxProbe) }},
		column{"B/entry", false, func(r experiment.Row) string { return optional(r.BytesPerEntry) }},
		measured("per hit", func(r *experiment.Reads) float64 { return r.PerHit }),
		measured("per miss", func(r *experiment.Reads) float64 { return r.PerMiss }),
	)
	for _, op := range ops[1:] { // the statistics may differ from those of the first operation
		then := func(of func(*experiment.Reads) float64) func(line experiment.Row) string {
			return func(line experiment.Row) string {
				r, _ := cell(keyOf(line), op)
				return reads(r.Measured, of)
			}
		}
		columns = append(columns,
			column{"per hit, " + op, false, then(func(r *experiment.Reads) float64 { return r.PerHit })},
			column{"per miss, " + op, false, then(func(r *experiment.Reads) float64 { return r.PerMiss })})
	}
	return fill(first, columns)
}

// Write prints results as aligned tables. Lines with the title and the device precede each table.
func Write(w io.Writer, results []*experiment.Result) error {
	for i, res := range results {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if res.Simulated {
			if _, err := fmt.Fprintln(w, "On a simulated device: counts are as on hardware, and no time means anything, so there are no rates."); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n%s, %s\n", res.Experiment, res.Title, res.Device, parameters(res)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, render(Tabulate(res))); err != nil {
			return err
		}
		for _, line := range []string{limitsLine(res), publishedLine(res)} {
			if line == "" {
				continue
			}
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

func render(t Table) string {
	tw := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Options.SeparateHeader = true
	style.Format.Header = text.FormatDefault
	tw.SetStyle(style)
	tw.SuppressTrailingSpaces()
	tw.AppendHeader(tableRow(t.Head))
	configs := make([]table.ColumnConfig, len(t.Head))
	for i := range t.Head {
		configs[i] = table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight}
		if t.Text[i] {
			configs[i].Align, configs[i].AlignHeader = text.AlignLeft, text.AlignLeft
		}
	}
	tw.SetColumnConfigs(configs)
	for _, cells := range t.Cells {
		tw.AppendRow(tableRow(cells))
	}
	return tw.Render()
}

func tableRow(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = c
	}
	return row
}

// ofGraph returns a cell function for rows that were measured on a graph.
func ofGraph(value func(*experiment.GraphShape) string) func(experiment.Row) string {
	return func(r experiment.Row) string {
		if r.Graph == nil {
			return ""
		}
		return value(r.Graph)
	}
}

// degrees formats the degrees of a graph, and those of the published graph that it is modeled on.
func degrees(g *experiment.GraphShape) string {
	text := func(d experiment.Degrees) string {
		return fmt.Sprintf("%d-%d, mean %.3g, sigma %.3g", d.Min, d.Max, d.Mean, d.Sigma)
	}
	if g.Like == "" {
		return text(g.Degrees)
	}
	return fmt.Sprintf("%s (%s: %s)", text(g.Degrees), g.Like, text(*g.LikeDegrees))
}
