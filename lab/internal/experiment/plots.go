package experiment

import (
	"fmt"
	"slices"
)

// plotLinear plots the rate of every operation over the load, with limits, for each structure and
// pair of widths.
func plotLinear(res *Result) []Plot {
	var plots []Plot
	for _, row := range res.Rows {
		name := linearPlot(row)
		i := slices.IndexFunc(plots, func(p Plot) bool { return p.Name == name })
		if i < 0 {
			i = len(plots)
			title := fmt.Sprintf("%s, %d-bit keys, %d-bit values", row.Structure, row.KeyBits, row.ValueBits)
			if row.ValueBits == 0 {
				title = fmt.Sprintf("%s, %d-bit keys", row.Structure, row.KeyBits)
			}
			plots = append(plots, Plot{Name: name, Title: title, XLabel: "load", YLabel: "operations per second"})
		}
		plots[i].point(row.Op, row.Load, row.OpsPerS)
	}
	for i := range plots {
		// The limit of mixed batches lies between the other two.
		plots[i].limits(res, func(row Row) bool { return linearPlot(row) == plots[i].Name && row.Op != "mixed" })
	}
	return plots
}

// linearPlot returns the name of the plot that shows a row.
func linearPlot(row Row) string {
	return fmt.Sprintf("%s-%d-%d", row.Structure, row.KeyBits, row.ValueBits)
}

func (p *Plot) point(series string, x, y float64) {
	i := slices.IndexFunc(p.Series, func(s Series) bool { return s.Name == series })
	if i < 0 {
		i = len(p.Series)
		p.Series = append(p.Series, Series{Name: series})
	}
	p.Series[i].X = append(p.Series[i].X, x)
	p.Series[i].Y = append(p.Series[i].Y, y)
}

func (p *Plot) span() (lo, hi float64) {
	lo, hi = p.Series[0].X[0], p.Series[0].X[0]
	for _, s := range p.Series {
		lo, hi = min(lo, slices.Min(s.X)), max(hi, slices.Max(s.X))
	}
	return lo, hi
}

// limits adds the limits of the selected rows as horizontal lines.
func (p *Plot) limits(res *Result, of func(Row) bool) {
	lo, hi := p.span()
	for _, row := range res.Rows {
		name := "limit: " + row.Limit
		if !of(row) || slices.ContainsFunc(p.Series, func(s Series) bool { return s.Name == name }) {
			continue
		}
		y := res.Limits[row.Limit]
		p.Series = append(p.Series, Series{Name: name, X: []float64{lo, hi}, Y: []float64{y, y}, Limit: true})
	}
}

// level adds a published figure as a horizontal line.
func (p *Plot) level(f Published) {
	lo, hi := p.span()
	p.Series = append(p.Series, Series{Name: "published: " + f.What, X: []float64{lo, hi}, Y: []float64{f.Value, f.Value}, Published: true})
}

// upright adds a vertical line, as high as the data, at an x that a paper names.
func (p *Plot) upright(what string, x float64) {
	lo, hi := p.Series[0].Y[0], p.Series[0].Y[0]
	for _, s := range p.Series {
		lo, hi = min(lo, slices.Min(s.Y)), max(hi, slices.Max(s.Y))
	}
	p.Series = append(p.Series, Series{Name: "published: " + what, X: []float64{x, x}, Y: []float64{lo, hi}, Published: true})
}
