package report

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weftgo/weft/lab/internal/experiment"
)

// Results read as Go's benchmarks: a line for each run, with names that identify the row.
func TestBenchmarks(t *testing.T) {
	res := &experiment.Result{
		Experiment: "linear", Device: "Test CPU", Version: "v1.2.3", Hardware: experiment.Hardware{OS: "linux/amd64"},
		Rows: []experiment.Row{
			{Structure: "builtin map", Op: "get_hit", KeyBits: 64, ValueBits: 64, N: 1000, Cores: 2, OpsPerS: 1e8, Runs: []float64{2, 1, 4}},
			{Structure: "linear", Op: "put/new", KeyBits: 32, ValueBits: 32, N: 7, Load: .5, Batch: 3, Keys: 4, Slots: 8, Buckets: 5, Units: 6, TableBytes: 9, Theta: .99, Cache: figure(.25), OpsPerS: 2e9},
			{Structure: "linear", Op: "launch", N: 256, OpsPerS: 1e3, Unit: "call/s"},
			{Structure: "linear", Op: "probes", N: 256},
			{Structure: "linear", Op: "nothing", OpsPerS: 1},
		},
	}
	other := &experiment.Result{Experiment: "cpu", Device: "Other", Version: "(devel)", Hardware: experiment.Hardware{OS: "darwin/arm64"}}
	var out strings.Builder
	if err := Benchmarks(&out, []*experiment.Result{res, other}); err != nil {
		t.Fatal(err)
	}
	const want = `goos: linux
goarch: amd64
pkg: github.com/weftgo/weft
cpu: Test CPU
weft-version: v1.2.3
BenchmarkLinear/builtin_map/get_hit/bits=64-64/n=1000/cores=2	1000	10 ns/op
BenchmarkLinear/builtin_map/get_hit/bits=64-64/n=1000/cores=2	1000	5 ns/op
BenchmarkLinear/builtin_map/get_hit/bits=64-64/n=1000/cores=2	1000	20 ns/op
BenchmarkLinear/linear/put-new/bits=32-32/n=7/load=0.5/batch=3/keys=4/slots=8/buckets=5/units=6/bytes=9/cores=0/theta=0.99/cache=0.25	7	0.5 ns/op
goos: darwin
goarch: arm64
pkg: github.com/weftgo/weft
cpu: Other
weft-version: (devel)
`
	if got := out.String(); got != strings.Replace(want, "/cores=0", "", 1) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	line := regexp.MustCompile(`^(Benchmark[A-Z]\S*\t\d+\t[\d.e+-]+ ns/op|[a-z-]+: .*)$`)
	for text := range strings.Lines(out.String()) {
		if !line.MatchString(strings.TrimSuffix(text, "\n")) {
			t.Errorf("benchstat would not read %q", text)
		}
	}
	if err := Benchmarks(failing{}, []*experiment.Result{res}); !errors.Is(err, errFailing) {
		t.Errorf("a failed write is %v", err)
	}
}

var errFailing = errors.New("failing")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFailing }

// A legend is never truncated: plots with many lines are higher.
func TestLegendFits(t *testing.T) {
	p := experiment.Plot{Name: "many", Title: "Many", XLabel: "load", YLabel: "rate"}
	if _, names, err := compose(p); err != nil || names.height() != 0 {
		t.Fatalf("of nothing: %v, %v", names.height(), err)
	}
	for range 40 {
		p.Series = append(p.Series, experiment.Series{Name: "a name that takes several lines of the legend, since it is long", X: []float64{0, 1}, Y: []float64{1, 2}})
	}
	_, names, err := compose(p)
	if err != nil {
		t.Fatal(err)
	}
	svg, err := SVG(p)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`viewBox="0 0 [\d.]+ ([\d.]+)"`).FindSubmatch(svg)
	if m == nil {
		t.Fatal("a plot of no size")
	}
	if height, err := strconv.ParseFloat(string(m[1]), 64); err != nil || names.height() <= plotHeight || height < float64(names.height()) {
		t.Errorf("a legend of %v in a plot of %s, %v", names.height(), m[1], err)
	}
	if n := strings.Count(string(svg), "a name that takes several"); n < 40 {
		t.Errorf("%d of 40 names", n)
	}
}
