package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftgo/weft/lab/internal/roofline"
)

// plotOverSizes plots rates and limits over the number of keys. On a GPU, a plot shows all
// operations of a structure, width and load. On a CPU, a plot shows one operation of both
// structures.
func plotOverSizes(res *Result) []Plot {
	var plots []Plot
	for _, row := range res.Rows {
		name, title, series := sizePlot(row)
		i := slices.IndexFunc(plots, func(p Plot) bool { return p.Name == name })
		if i < 0 {
			i = len(plots)
			plots = append(plots, Plot{Name: name, Title: title, XLabel: "keys", YLabel: "operations per second", LogX: true, LogY: true})
		}
		plots[i].point(series, float64(row.N), row.OpsPerS)
	}
	for i := range plots {
		of := func(row Row) bool { name, _, _ := sizePlot(row); return name == plots[i].Name }
		plots[i].limits(res, func(row Row) bool { _, region := roofline.Split(row.Limit); return region == 0 && of(row) })
		plots[i].limitsOfRegions(res, of)
	}
	return plots
}

// sizePlot returns the name and title of the plot that shows a row, and the name of the row's
// series.
func sizePlot(row Row) (name, title, series string) {
	if row.Cores > 0 { // a CPU
		op, own := strings.CutSuffix(row.Op, ownTable)
		series = row.Structure
		if own {
			series += ", table of as many"
		}
		return "sizes-" + op, "A call of " + op + " on all cores beside a loop over Go's map", series
	}
	return fmt.Sprintf("sizes-%s-%d-%d-%.0f", row.Structure, row.KeyBits, row.ValueBits, 100*row.Load),
		fmt.Sprintf("%s, %d-bit keys, %d-bit values, load %g", row.Structure, row.KeyBits, row.ValueBits, row.Load), row.Op
}

// limitsOfRegions adds limits that were measured in a region per table.
func (p *Plot) limitsOfRegions(res *Result, of func(Row) bool) {
	for _, row := range res.Rows {
		limit, region := roofline.Split(row.Limit)
		if region == 0 || !of(row) || row.Cores > 0 && !strings.HasSuffix(row.Op, ownTable) {
			continue
		}
		limit = "limit: " + limit
		i := slices.IndexFunc(p.Series, func(s Series) bool { return s.Name == limit })
		if i < 0 || !slices.Contains(p.Series[i].X, float64(row.N)) {
			p.point(limit, float64(row.N), res.Limits[row.Limit])
		}
		if i < 0 {
			p.Series[len(p.Series)-1].Limit = true
		}
	}
}
