package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weftgo/weft/lab/internal/experiment"
)

// Benchmarks writes results in the format of Go benchmarks, which benchstat reads. Each run of a
// row is a line, under a name that identifies the row.
func Benchmarks(w io.Writer, results []*experiment.Result) error {
	out := bufio.NewWriter(w)
	for _, res := range results {
		system, arch, _ := strings.Cut(res.Hardware.OS, "/")
		fmt.Fprintf(out, "goos: %s\ngoarch: %s\npkg: github.com/weftgo/weft\ncpu: %s\nweft-version: %s\n", system, arch, res.Device, res.Version)
		for _, row := range res.Rows {
			writeRuns(out, res.Experiment, row)
		}
	}
	return out.Flush()
}

// writeRuns writes a line per run of a row, or one line with the median if the runs are unknown. It
// writes nothing if the row has no rate of operations.
func writeRuns(out io.Writer, experiment string, row experiment.Row) {
	if row.OpsPerS <= 0 || row.Unit != "" || row.N <= 0 {
		return
	}
	name, perOp := benchmarkName(experiment, row), 1e9/row.OpsPerS
	if len(row.Runs) == 0 {
		fmt.Fprintf(out, "%s\t%d\t%.6g ns/op\n", name, row.N, perOp)
	}
	for _, seconds := range row.Runs {
		// the run that has the rate of the row
		median := slices.Sorted(slices.Values(row.Runs))[len(row.Runs)/2]
		fmt.Fprintf(out, "%s\t%d\t%.6g ns/op\n", name, row.N, perOp*seconds/median)
	}
}

// benchmarkName returns a name that is unique among the rows of an experiment.
func benchmarkName(experiment string, row experiment.Row) string {
	parts := []string{"Benchmark" + strings.ToUpper(experiment[:1]) + experiment[1:], word(row.Structure), word(row.Op)}
	add := func(given bool, name, value string) {
		if given {
			parts = append(parts, name+"="+word(value))
		}
	}
	add(row.KeyBits > 0, "bits", width(row))
	add(true, "n", fmt.Sprint(row.N))
	add(row.Load > 0, "load", load(row.Load))
	if row.Graph != nil {
		add(true, "graph", row.Graph.Name)
	}
	add(row.Batch > 0, "batch", fmt.Sprint(row.Batch))
	add(row.Keys > 0, "keys", fmt.Sprint(row.Keys))
	add(row.Slots > 0, "slots", fmt.Sprint(row.Slots))
	add(row.Buckets > 0, "buckets", fmt.Sprint(row.Buckets))
	add(row.Units > 0, "units", fmt.Sprint(row.Units))
	add(row.TableBytes > 0, "bytes", fmt.Sprint(row.TableBytes))
	add(row.Cores > 0, "cores", fmt.Sprint(row.Cores))
	add(row.Theta > 0, "theta", load(row.Theta))
	if row.Cache != nil {
		add(true, "cache", load(*row.Cache))
	}
	return strings.Join(parts, "/")
}

// word replaces the characters that would end a name.
func word(s string) string {
	return strings.NewReplacer(" ", "_", "/", "-", ",", "").Replace(s)
}
