package experiment

import "math"

// exponents adds a parameter per operation: the exponent with which its time grows over the number
// of keys. It uses maps with at least a sixteenth of the largest number.
func exponents(res *Result) {
	type line struct{ x, y []float64 }
	lines := map[string]*line{}
	most := 0
	for _, row := range res.Rows {
		most = max(most, row.Keys)
	}
	for _, row := range res.Rows {
		if row.Reason != "" || row.Keys < most/16 {
			continue
		}
		name := "exponent_" + row.Structure + "_" + row.Op
		if lines[name] == nil {
			lines[name] = &line{}
		}
		l := lines[name]
		l.x, l.y = append(l.x, math.Log(float64(row.Keys))), append(l.y, math.Log(row.Seconds))
	}
	for name, l := range lines {
		if len(l.x) > 1 {
			res.Parameters[name] = math.Round(100*slope(l.x, l.y)) / 100
		}
	}
}

// slope returns the slope of the least-squares line through points.
func slope(x, y []float64) float64 {
	n := float64(len(x))
	var sx, sy, sxx, sxy float64
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
