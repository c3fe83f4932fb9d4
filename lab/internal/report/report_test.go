package report

import (
	gobytes "bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftgo/weft/lab/internal/experiment"
)

func figure(x float64) *float64 { return &x }

// results returns two results: one with a line per load and plots, and one with a line per row.
func results() []*experiment.Result {
	sweep := &experiment.Result{
		Experiment: "linear", Title: "Sweep <of loads>", Device: "Test GPU", Scale: "full",
		Date: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), Version: "v1.2.3",
		Hardware:   experiment.Hardware{Kind: "cuda", Name: "Test GPU", Units: 132, Arch: 90, MemoryBytes: 150e9, Host: "Host CPU", HostCores: 16},
		Limits:     map[string]float64{"read16": 36.5e9, "cas64": 15.5e9, "mixed_read16_cas64": 21.7e9},
		Parameters: map[string]any{"keys": 100_000_000, "limits_region_bytes": 4 << 30},
	}
	for _, load := range []float64{.5, .8} {
		sweep.Rows = append(sweep.Rows,
			experiment.Row{Structure: "linear", Op: "insert", KeyBits: 32, ValueBits: 32, N: 100_000_000, Load: load, OpsPerS: 14e9, LimitShare: .903, Limit: "cas64", MeanProbe: figure(.4774), MaxProbe: figure(6474)},
			experiment.Row{Structure: "linear", Op: "get_hit", KeyBits: 32, ValueBits: 32, N: 100_000_000, Load: load, OpsPerS: 36.4e9, LimitShare: .997, Limit: "read16"})
	}
	sweep.Plots = []experiment.Plot{
		{
			Name: "rates", Title: "Rates & loads", XLabel: "load", YLabel: "operations per second",
			Series: []experiment.Series{
				{Name: "get_hit", X: []float64{.5, .8}, Y: []float64{36.4e9, 28e9}},
				{Name: "limit: read16", X: []float64{.5, .8}, Y: []float64{36.5e9, 36.5e9}, Limit: true},
			},
		},
		{
			Name: "log", Title: "Logarithmic", XLabel: "load", YLabel: "insertions per second", LogY: true,
			Series: []experiment.Series{{Name: "published: GTX", X: []float64{0, .94}, Y: []float64{361e6, 17.5e6}, Published: true}},
		},
	}
	list := &experiment.Result{
		Experiment: "launch", Title: "Launch", Device: "Test GPU", Scale: "default", Limits: map[string]float64{"launch": 4e5},
		Rows: []experiment.Row{{Structure: "linear", Op: "get_256_issue", KeyBits: 64, ValueBits: 64, N: 256, Load: .5, OpsPerS: 390e3, Unit: "call/s", LimitShare: .975, Limit: "launch", Seconds: 2.6e-6}},
	}
	return []*experiment.Result{sweep, list}
}

func TestTables(t *testing.T) {
	var out gobytes.Buffer
	if err := Write(&out, results()); err != nil {
		t.Fatal(err)
	}
	want := `linear: Sweep <of loads>
Test GPU, full scale, keys 100 000 000, limits region 4.29 GB
 structure  bits   load          insert         get_hit  mean probe    max
───────────────────────────────────────────────────────────────────────────
 linear     32/32   0.5  14.0 G/s  90 %  36.4 G/s 100 %       0.477  6 474
 linear     32/32   0.8  14.0 G/s  90 %  36.4 G/s 100 %       0.477  6 474
limits: cas64 15.5 G/s, read16 36.5 G/s, mixed_read16_cas64 21.7 G/s

launch: Launch
Test GPU, default scale
 structure  operation      bits     n  load     time          rate  of limit  limit
─────────────────────────────────────────────────────────────────────────────────────
 linear     get_256_issue  64/64  256   0.5  2.60 µs  390 k call/s      98 %  launch
limits: launch 400 k launch/s
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Rows of many sizes have one line per size. A limit of many regions has its own line.
func TestTableOfSizes(t *testing.T) {
	res := &experiment.Result{
		Experiment: "sizes", Title: "Sizes", Device: "Test CPU", Scale: "quick",
		Limits:     map[string]float64{"read64@1MiB": 2e8, "read64@512KiB": 3e8, "cas64@1MiB": 1e8, "launch": 4e5},
		Parameters: map[string]any{"crossover_get": 256},
	}
	for _, n := range []int{16, 1024} {
		res.Rows = append(res.Rows,
			experiment.Row{Structure: "builtin map", Op: "get", KeyBits: 64, ValueBits: 64, N: n, Cores: 1, OpsPerS: 1e7, LimitShare: .05, Limit: "read64@1MiB"},
			experiment.Row{Structure: "linear", Op: "get", KeyBits: 64, ValueBits: 64, N: n, Load: .5, Cores: 2, OpsPerS: 4e7, LimitShare: .2, Limit: "read64@1MiB", Speedup: figure(4)})
	}
	var text, page gobytes.Buffer
	if err := errors.Join(Write(&text, []*experiment.Result{res}), HTML(&page, []*experiment.Result{res}, "weft-bench")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"crossover get 256", "linear       64/64  1 024   0.5      2  40.0 M/s  20 %   4.00x\n", "  1 024            1  10.0 M/s 5.0 %\n",
		"limits: launch 400 k launch/s\nlimit cas64 in 1MiB 100 M/s\nlimit read64 in 512KiB 300 M/s, 1MiB 200 M/s\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	if want := "random reads of 64 bytes in 1MiB"; !strings.Contains(page.String(), want) {
		t.Errorf("the page lacks %q", want)
	}
}

// The rate of a call alone is shown with that after other work.
func TestTableOfABusyDevice(t *testing.T) {
	res := &experiment.Result{Experiment: "sizes", Title: "Sizes", Device: "Test GPU", Limits: map[string]float64{"cas64@1MiB": 7e10}}
	for _, n := range []int{1024, 4096} {
		res.Rows = append(res.Rows,
			experiment.Row{Structure: "linear", Op: "insert", KeyBits: 32, ValueBits: 32, N: n, Load: .5, OpsPerS: 7e9, LimitShare: .1, Limit: "cas64@1MiB", BusyOpsPerS: figure(1.4e10)},
			experiment.Row{Structure: "linear", Op: "put_registered", KeyBits: 32, ValueBits: 32, N: n, Load: .5, OpsPerS: 1e9, Limit: "host_put"})
	}
	var text gobytes.Buffer
	if err := Write(&text, []*experiment.Result{res}); err != nil {
		t.Fatal(err)
	}
	if want := "7.00 G/s  10 %  busy 14.0 G  1.00 G/s   0 %"; !strings.Contains(text.String(), want) {
		t.Errorf("the text lacks %q:\n%s", want, text.String())
	}
}

// A cache of size zero is shown as such. Parts of a latency are shown in order.
func TestTableOfParts(t *testing.T) {
	row := experiment.Row{Structure: "LFU", Op: "C", N: 8, OpsPerS: 1e6, Limit: "cas64", Cache: figure(0), Parts: []experiment.Part{{What: "transfer", Seconds: 2e-5}, {What: "index", Seconds: 1e-3}}}
	other := row
	other.Structure, other.Cache, other.Parts = "none", nil, nil
	table := Tabulate(&experiment.Result{Experiment: "gphash-fig11", Rows: []experiment.Row{other, row}})
	for head, want := range map[string][2]string{"cache": {"", "0 %"}, "parts": {"", "transfer 20.0 µs, index 1.00 ms"}} {
		i := slices.Index(table.Head, head)
		if i < 0 || table.Cells[0][i] != want[0] || table.Cells[1][i] != want[1] {
			t.Errorf("column %q: %v", head, table)
		}
	}
}

// Rows show the graph they were measured on, and the similar one of a table.
func TestTableOfGraphs(t *testing.T) {
	row := experiment.Row{Structure: "graph", Op: "insert", N: 8, OpsPerS: 1e6, Limit: "arcs_8", Batch: 8, Graph: &experiment.GraphShape{
		Name: "roads", Vertices: 2000, Edges: 2410, Degrees: experiment.Degrees{Min: 2, Max: 3, Mean: 2.41, Sigma: .49},
		Like: "road_usa", LikeDegrees: &experiment.Degrees{Min: 1, Max: 9, Mean: 2.4, Sigma: .85},
	}}
	other := row
	other.Graph = &experiment.GraphShape{Name: "own.txt", Vertices: 3, Edges: 2}
	res := &experiment.Result{Experiment: "awad-table5.2", Title: "Edges", Limits: map[string]float64{"arcs_8": 1e9}, Rows: []experiment.Row{row, other}}
	table := Tabulate(res)
	for head, want := range map[string][2]string{
		"graph": {"roads", "own.txt"}, "edges": {count(2410), "2"}, "degrees": {"2-3, mean 2.41, sigma 0.49 (road_usa: 1-9, mean 2.4, sigma 0.85)", "0-0, mean 0, sigma 0"},
	} {
		i := slices.Index(table.Head, head)
		if i < 0 || table.Cells[0][i] != want[0] || table.Cells[1][i] != want[1] {
			t.Errorf("column %q: %v", head, table)
		}
	}
	if name := benchmarkName("awad-table5.2", row); name != "BenchmarkAwad-table5.2/graph/insert/n=8/graph=roads/batch=8" {
		t.Errorf("benchmark %s", name)
	}
	if slices.Contains(table.Head, "load") {
		t.Errorf("columns %q", table.Head)
	}
	if settingOf(row) == settingOf(other) {
		t.Error("rows of different graphs are compared")
	}
	var page gobytes.Buffer
	if err := HTML(&page, []*experiment.Result{res}, "weft-bench"); err != nil || !strings.Contains(page.String(), "copy of as many bytes an arc of a graph, read plus written: 8") {
		t.Errorf("the page: %v", err)
	}
}

// A structure without a figure shows the reason, and nothing that looks like a figure. A row
// without a limit has no share.
func TestTableOfReasons(t *testing.T) {
	table := Tabulate(&experiment.Result{Experiment: "ordered-load", Rows: []experiment.Row{
		{Structure: "ordered", Op: "none", Reason: "no kernels"}, {Structure: "memory", Op: "weak", N: 8, OpsPerS: 2e8, Seconds: 5e-9},
	}})
	for head, want := range map[string][2]string{"why not": {"no kernels", ""}, "rate": {"", "200 M/s"}} {
		i := slices.Index(table.Head, head)
		if i < 0 || table.Cells[0][i] != want[0] || table.Cells[1][i] != want[1] {
			t.Errorf("column %q: %v", head, table)
		}
	}
	if slices.Contains(table.Head, "of limit") {
		t.Errorf("columns %q", table.Head)
	}
}

// Rows show how calls vary, and whether they reach their targets.
func TestTableOfTargets(t *testing.T) {
	row := experiment.Row{Structure: "plain", Op: "insert", N: 8, OpsPerS: 2e8, Limit: "cas64", Spread: &experiment.Spread{Slowest: 1e8, Fastest: 3e8}, Targets: []experiment.Target{
		{Is: 2e8, Want: 1.5e8, Unit: "op/s", Reached: true}, {Is: 2.5, Want: 3, Unit: "x", Of: "slab"}, {Is: .1, Want: .15, Unit: "s", Reached: true},
	}}
	table := Tabulate(&experiment.Result{Experiment: "gphash-device", Rows: []experiment.Row{row}})
	for head, want := range map[string]string{
		"slowest": "100 M/s", "fastest": "300 M/s", "target": "150 M/s: 200 M/s, reached; 3.00x slab: 2.50x, missed; 150 ms: 100 ms, reached",
	} {
		if i := slices.Index(table.Head, head); i < 0 || table.Cells[0][i] != want {
			t.Errorf("column %q: %v", head, table)
		}
	}
	for name, want := range map[string]string{
		"distinct74_mapped_read128":          "random reads of 128 bytes of mapped host memory, one for 74 % of the operations of a batch",
		"cached72_distinct74_mapped_read128": "random reads of 128 bytes of mapped host memory, one for 74 % of the operations of a batch, 72 % of them in the memory of the device",
		"device_to_host_160":                 "copy of 160 bytes an operation to page-locked host memory",
	} {
		if got := describe(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", .4774: "0.477", .00012345: "0.0001", 1: "1.00", 12.345: "12.3", 999: "999", 999.6: "1.00 k", 36.43e9: "36.4 G", 4.273e12: "4.27 T", 5.13e15: "5130 T",
	} {
		if got := rate(x); got != want {
			t.Errorf("rate(%v) = %q, want %q", x, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0 %", .0134: "1.3 %", .0996: "10 %", .975: "98 %", 1.1: "110 %", 1.2: "120 %!"} {
		if got := share(x); got != want {
			t.Errorf("share(%v) = %q, want %q", x, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1 000", 100_000_000: "100 000 000"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	for s, want := range map[float64]string{2: "2.00 s", .0123: "12.3 ms", 2.6e-6: "2.60 µs"} {
		if got := seconds(s); got != want {
			t.Errorf("seconds(%v) = %q, want %q", s, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0", 2e10: "20 G", 1.5e8: "150 M", 2.5e9: "2.5 G"} {
		if got := tickLabel(x); got != want {
			t.Errorf("tickLabel(%v) = %q, want %q", x, got, want)
		}
	}
}

func TestRoundTicks(t *testing.T) {
	for hi, want := range map[float64]string{
		40e9: "0 10 G 20 G 30 G 40 G", 190e6: "0 20 M 40 M 60 M 80 M 100 M 120 M 140 M 160 M 180 M", 1: "0 0.2 0.4 0.6 0.8 1", 27: "0 5 10 15 20 25",
	} {
		var labels []string
		for _, tick := range roundTicks(0, hi) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != want {
			t.Errorf("up to %g: %s, want %s", hi, got, want)
		}
	}
}

// wellFormed parses a document to its end as strict XML.
func wellFormed(t *testing.T, what string, doc []byte) (elements map[string]int) {
	t.Helper()
	elements = map[string]int{}
	d := xml.NewDecoder(gobytes.NewReader(doc))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local]++
		}
	}
}

func TestSVG(t *testing.T) {
	for _, p := range results()[0].Plots {
		svg, err := SVG(p)
		if err != nil {
			t.Fatal(err)
		}
		elements := wellFormed(t, p.Name, svg)
		if elements["svg"] != 1 || elements["path"] == 0 || elements["text"] == 0 || elements["rect"] == 0 {
			t.Errorf("%s: elements %v; want lines and text on a background", p.Name, elements)
		}
		for _, s := range p.Series {
			for line := range strings.Lines(inLegend(s)) {
				if !strings.Contains(string(svg), ">"+strings.TrimSpace(line)+"</text>") {
					t.Errorf("%s: the legend lacks %q", p.Name, line)
				}
			}
			if want := "<title>" + inWords(s) + ": "; strings.Count(string(svg), want) != len(s.X) {
				t.Errorf("%s: %d points with %q, want %d", p.Name, strings.Count(string(svg), want), want, len(s.X))
			}
		}
		if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
			t.Errorf("%s: coordinates that are no numbers", p.Name)
		}
	}
}

func TestSVGRefusesWhatIsNoNumber(t *testing.T) {
	p := results()[0].Plots[0]
	p.Series[0].Y[0] = math.NaN()
	if _, err := SVG(p); err == nil || !strings.Contains(err.Error(), "rates") {
		t.Errorf("error %v, want one that names the plot", err)
	}
}

func renderPage(t *testing.T) string {
	t.Helper()
	var out gobytes.Buffer
	if err := HTML(&out, results(), "weft-bench run linear --device=cuda:0"); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPageIsWellFormedAndWhole(t *testing.T) {
	html := renderPage(t)
	// The page is valid XML, too, except for two HTML constructs.
	asXML := strings.NewReplacer("<!DOCTYPE html>", "", "<details open>", "<details>").Replace(html)
	elements := wellFormed(t, "page", []byte(asXML))
	if elements["svg"] != 2 || elements["section"] != 4 || elements["table"] == 0 {
		t.Errorf("elements %v; want two plots and four sections", elements)
	}
	for _, want := range []string{
		"Sweep &lt;of loads&gt;", "Rates &amp; loads", "36.4 G/s", "100 000 000", "Test GPU", "9.0", "Host CPU, 16 cores", "v1.2.3",
		"weft-bench run linear --device=cuda:0", "prefers-color-scheme: dark", "harmonic mean",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(html, "#000000") {
		t.Error("black lines, which vanish on a dark page")
	}
}

// The page must look the same on a machine without a network.
func TestPageIsSelfContained(t *testing.T) {
	html := renderPage(t)
	for _, ref := range regexp.MustCompile(`(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]*)`).FindAllStringSubmatch(html, -1) {
		if !strings.HasPrefix(ref[1], "#") {
			t.Errorf("the page refers to %q", ref[0])
		}
	}
	for _, tag := range []string{"<script", "<link", "<iframe", "<img", "@import"} {
		if strings.Contains(html, tag) {
			t.Errorf("the page has a %s", tag)
		}
	}
	// Links of the table of contents are valid.
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(html, -1) {
		if !strings.Contains(html, `id="`+m[1]+`"`) {
			t.Errorf("no section %q", m[1])
		}
	}
}

func TestPageOfNothing(t *testing.T) {
	if err := HTML(io.Discard, nil, ""); err == nil {
		t.Error("a page without results")
	}
}

func TestLimitsAreSortedAndDescribed(t *testing.T) {
	var names []string
	for _, l := range limits(results()[0]) {
		names = append(names, l.Name)
		if l.What == l.Name || l.Rate == "" {
			t.Errorf("limit %+v is not described", l)
		}
	}
	if want := []string{"cas64", "read16", "mixed_read16_cas64"}; !slices.Equal(names, want) {
		t.Errorf("limits %v, want %v", names, want)
	}
}

// Published figures are shown below the rows, and in a row if they apply to just that row.
func TestPublishedFigures(t *testing.T) {
	res := &experiment.Result{
		Experiment: "slabhash-fig7b", Title: "Peers", Device: "Test GPU", Scale: "default",
		Limits:    map[string]float64{"mixed20_read128_cas64": 24e9},
		Published: []experiment.Published{{What: "K40c, peak", Value: 512e6, Unit: "op/s"}, {What: "K40c, speedup", Value: 3.1, Unit: "x"}},
		Rows: []experiment.Row{{
			Structure: "slab-set", Op: "mixed_20", KeyBits: 32, N: 1e6, Buckets: 1024, OpsPerS: 12e9, LimitShare: .5, Limit: "mixed20_read128_cas64",
			PublishedOpsPerS: figure(8.8e9),
		}, {Structure: "slab alloc", Op: "free", N: 10, Units: 2048, OpsPerS: 1e9, Limit: "mixed20_read128_cas64"}},
	}
	var text, page gobytes.Buffer
	if err := errors.Join(Write(&text, []*experiment.Result{res}), HTML(&page, []*experiment.Result{res}, "weft-bench")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"8.80 G/s", "1 024", "2 048", "published: K40c, peak 512 M/s, K40c, speedup 3.10 x\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	for _, want := range []string{"K40c, peak", "3.10 x", "20 % compare-and-swaps"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// A logarithmic axis of numbers has a tick for each power of ten.
func TestLogarithmicX(t *testing.T) {
	svg, err := SVG(experiment.Plot{
		Name: "sizes", XLabel: "keys", YLabel: "operations per second", LogX: true, LogY: true,
		Series: []experiment.Series{{Name: "insert", X: []float64{1 << 16, 1 << 26}, Y: []float64{1e9, 12e9}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, "plot", svg)
	for _, want := range []string{">100 k<", ">1 M<", ">10 M<", ">10 G<"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the plot has no label %s", want)
		}
	}
}
