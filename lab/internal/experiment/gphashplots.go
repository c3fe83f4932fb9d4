package experiment

import (
	"fmt"
	"slices"
)

// plotFor returns the plot with a name. If it is missing, plotFor adds the result of fresh.
func plotFor(plots *[]Plot, name string, fresh func() Plot) *Plot {
	i := slices.IndexFunc(*plots, func(p Plot) bool { return p.Name == name })
	if i < 0 {
		i = len(*plots)
		p := fresh()
		p.Name = name
		*plots = append(*plots, p)
	}
	return &(*plots)[i]
}

// lineOf returns the name of the line that shows a row: the operation and, for a peer, the peer.
func lineOf(row Row) string {
	if row.Structure == gphashName {
		return row.Op
	}
	return row.Structure + ": " + row.Op
}

// plotLatencies plots the latency of calls over the throughput, for each key size. Each operation
// of an index is a line, along which the batch size grows.
func plotLatencies(res *Result) []Plot {
	var plots []Plot
	for _, row := range res.Rows {
		line := lineOf(row)
		for _, c := range []struct {
			name, what string
			seconds    float64
		}{{"p50", "median", row.Latency.P50}, {"p99", "99th percentile", row.Latency.P99}} {
			name := fmt.Sprintf("%s-%d-%s", res.Experiment, row.KeyBits/8, c.name)
			plotFor(&plots, name, func() Plot {
				return Plot{
					Title:  fmt.Sprintf("Latency over throughput, keys of %d bytes, %s", row.KeyBits/8, c.what),
					XLabel: "operations per second", YLabel: "seconds", LogY: true,
				}
			}).point(line, row.OpsPerS, c.seconds)
		}
	}
	return plots
}
