package experiment

import (
	"fmt"
	"slices"
)

// plotLinear draws a plot per structure and width: every operation over the
// load, with the limits that bind them.
func plotLinear(res *Result) []Plot {
	var plots []Plot
	for _, row := range res.Rows {
		name := fmt.Sprintf("%s-%d-%d", row.Structure, row.KeyBits, row.ValueBits)
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
		addLimits(&plots[i], res)
	}
	return plots
}

// point appends a point to the series of that name.
func (p *Plot) point(series string, x, y float64) {
	i := slices.IndexFunc(p.Series, func(s Series) bool { return s.Name == series })
	if i < 0 {
		i = len(p.Series)
		p.Series = append(p.Series, Series{Name: series})
	}
	p.Series[i].X = append(p.Series[i].X, x)
	p.Series[i].Y = append(p.Series[i].Y, y)
}

// addLimits draws the limits of a plot's rows as level lines. The mixed
// limits are left out: they lie between the two others.
func addLimits(p *Plot, res *Result) {
	lo, hi := p.Series[0].X[0], p.Series[0].X[0]
	for _, s := range p.Series {
		lo, hi = min(lo, slices.Min(s.X)), max(hi, slices.Max(s.X))
	}
	for _, row := range res.Rows {
		if p.Name != fmt.Sprintf("%s-%d-%d", row.Structure, row.KeyBits, row.ValueBits) || row.Op == "mixed" {
			continue
		}
		name := "limit: " + row.Limit
		if slices.ContainsFunc(p.Series, func(s Series) bool { return s.Name == name }) {
			continue
		}
		y := res.Limits[row.Limit]
		p.Series = append(p.Series, Series{Name: name, X: []float64{lo, hi}, Y: []float64{y, y}, Limit: true})
	}
}
