package group

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/weftgo/weft/column"
)

// model groups rows in plain Go: a map from the text of a key to all values of its group.
type model struct {
	skip   bool
	at     map[string]int
	groups []*modelGroup
}

type modelGroup struct {
	keys   []any
	rows   int
	values [][]any // by column, without nulls
}

// normalize returns a key as results contain it.
func normalize(v any) any {
	switch v := v.(type) {
	case float32:
		if v == 0 {
			return float32(0)
		}
	case float64:
		if v == 0 {
			return float64(0)
		}
	}
	return v
}

// text returns a text for a key. Only equal keys have the same text, and all NaN have one.
func text(vs []any) string {
	var b []byte
	for _, v := range vs {
		switch v := v.(type) {
		case string:
			b = strconv.AppendQuote(b, v)
		case float32:
			b = strconv.AppendFloat(append(b, "float32 "...), float64(v), 'g', -1, 32)
		case float64:
			b = strconv.AppendFloat(append(b, "float64 "...), v, 'g', -1, 64)
		case uint64:
			b = strconv.AppendUint(append(b, "uint64 "...), v, 10)
		case int64:
			b = strconv.AppendInt(append(b, "int64 "...), v, 10)
		case int32:
			b = strconv.AppendInt(append(b, "int32 "...), int64(v), 10)
		case int16:
			b = strconv.AppendInt(append(b, "int16 "...), int64(v), 10)
		case uint8:
			b = strconv.AppendUint(append(b, "uint8 "...), uint64(v), 10)
		default:
			b = fmt.Appendf(b, "%T %v", v, v)
		}
		b = append(b, ", "...)
	}
	return string(b)
}

func (m *model) add(keys, values []column.Column, n int) {
	if m.at == nil {
		m.at = make(map[string]int)
	}
rows:
	for i := range n {
		ks := make([]any, len(keys))
		for j, c := range keys {
			ks[j] = normalize(c.Any(i))
			if m.skip && ks[j] == nil {
				continue rows
			}
		}
		at, ok := m.at[text(ks)]
		if !ok {
			at = len(m.groups)
			m.at[text(ks)] = at
			m.groups = append(m.groups, &modelGroup{keys: ks, values: make([][]any, len(values))})
		}
		g := m.groups[at]
		g.rows++
		for j, c := range values {
			if v := c.Any(i); v != nil {
				g.values[j] = append(g.values[j], v)
			}
		}
	}
}

// lines returns the groups with their aggregates.
func (m *model) lines(aggs []Aggregate, types []column.Type, wrap, sorted bool) (lines [][]any) {
	groups := slices.Clone(m.groups)
	if sorted {
		slices.SortFunc(groups, func(a, b *modelGroup) int {
			for i := range a.keys {
				if c := compareAny(a.keys[i], b.keys[i]); c != 0 {
					return c
				}
			}
			return 0
		})
	}
	for _, g := range groups {
		line := slices.Clone(g.keys)
		for _, a := range aggs {
			var typ column.Type
			if a.Func != Rows {
				typ = types[a.Column]
			}
			line = append(line, g.aggregate(a, typ))
		}
		lines = append(lines, line)
	}
	return lines
}

func (g *modelGroup) aggregate(a Aggregate, typ column.Type) any {
	if a.Func == Rows {
		return int64(g.rows)
	}
	vs := g.values[a.Column]
	switch {
	case a.Func == Count:
		return int64(len(vs))
	case len(vs) == 0:
		return nil
	case a.Func == First || a.Func == Any:
		return vs[0]
	case a.Func == AnyTrue:
		return slices.Contains(vs, any(true))
	case a.Func == AllTrue:
		return !slices.Contains(vs, any(false))
	case a.Func.isSpread() && len(vs) < 2:
		return nil
	case a.Func.isSpread():
		return spreadOf(a.Func, vs)
	case a.Func == Last:
		return vs[len(vs)-1]
	case a.Func == Min || a.Func == Max:
		return extreme(a.Func, vs)
	}
	if typ.Float() {
		sum := 0.0
		for _, v := range vs {
			sum += toFloat(v)
		}
		if a.Func == Mean {
			return sum / float64(len(vs))
		}
		return sum
	}
	sum := new(big.Int)
	for _, v := range vs {
		if typ.Signed() {
			sum.Add(sum, big.NewInt(int64(toFloat(v))))
		} else {
			sum.Add(sum, new(big.Int).SetUint64(uint64(toFloat(v))))
		}
	}
	if a.Func == Mean {
		f, _ := new(big.Float).SetInt(sum).Float64()
		return f / float64(len(vs))
	}
	wrapped := new(big.Int).And(sum, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	if typ.Signed() {
		return int64(wrapped)
	}
	return wrapped
}

// approx is a float that results match up to rounding.
type approx float64

// spreadOf returns the variance or the standard deviation of at least two values, by exact sums.
func spreadOf(f Func, vs []any) any {
	float := func() *big.Float { return new(big.Float).SetPrec(4500) }
	sum, squares, n := float(), float(), float().SetInt64(int64(len(vs)))
	for _, v := range vs {
		if x := toFloat(v); math.IsNaN(x) || math.IsInf(x*x, 0) {
			return math.NaN()
		}
		x := float().SetFloat64(toFloat(v))
		switch v := v.(type) {
		case int64:
			x.SetInt64(v)
		case uint64:
			x.SetUint64(v)
		}
		sum.Add(sum, x)
		squares.Add(squares, x.Mul(x, x))
	}
	if s, _ := squares.Float64(); math.IsInf(s, 0) {
		return math.NaN()
	}
	sum.Mul(sum, sum)
	squares.Sub(squares, sum.Quo(sum, n))
	v, _ := squares.Quo(squares, n.Sub(n, big.NewFloat(1))).Float64()
	if f == StdDev {
		v = math.Sqrt(v)
	}
	return approx(v)
}

func extreme(f Func, vs []any) any {
	best := vs[0]
	for _, v := range vs[1:] {
		switch b := best.(type) {
		case float32:
			best = float32(pick(f, float64(b), float64(v.(float32))))
		case float64:
			best = pick(f, b, v.(float64))
		default:
			if c := compareAny(v, best); f == Min && c < 0 || f == Max && c > 0 {
				best = v
			}
		}
	}
	return best
}

func pick(f Func, a, b float64) float64 {
	if f == Min {
		return min(a, b)
	}
	return max(a, b)
}

// toFloat returns a value as a float64.
func toFloat(v any) float64 {
	switch v := v.(type) {
	case int8:
		return float64(v)
	case int16:
		return float64(v)
	case int32:
		return float64(v)
	case int64:
		return float64(v)
	case uint8:
		return float64(v)
	case uint16:
		return float64(v)
	case uint32:
		return float64(v)
	case uint64:
		return float64(v)
	case float32:
		return float64(v)
	}
	return v.(float64)
}

// compareAny compares values of one type. NaN comes after all others, and nil after NaN.
func compareAny(a, b any) int {
	if a == nil || b == nil {
		return order(a == nil, b == nil)
	}
	switch x := a.(type) {
	case bool:
		return cmp.Compare(bit(x), bit(b.(bool)))
	case string:
		return bytes.Compare([]byte(x), []byte(b.(string)))
	case float32, float64:
		na, nb := math.IsNaN(toFloat(a)), math.IsNaN(toFloat(b))
		if na || nb {
			if na && nb {
				return 0
			}
			return order(na, nb)
		}
		return cmp.Compare(toFloat(a), toFloat(b))
	case uint64:
		return cmp.Compare(x, b.(uint64))
	case int64:
		return cmp.Compare(x, b.(int64))
	}
	return cmp.Compare(toFloat(a), toFloat(b))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// linesOf returns the lines of a result.
func linesOf(r *Result) (lines [][]any) {
	for i := range r.Len() {
		var line []any
		for _, c := range r.Keys {
			line = append(line, c.Any(i))
		}
		for _, c := range r.Values {
			line = append(line, c.Any(i))
		}
		lines = append(lines, line)
	}
	return lines
}

// differ describes the first line that differs, or returns "".
func differ(got, want [][]any) string {
	for i := range min(len(got), len(want)) {
		if text(rounded(got[i], want[i])) != text(want[i]) {
			return fmt.Sprintf("group %d is %s, want %s", i, text(got[i]), text(want[i]))
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d groups, want %d", len(got), len(want))
	}
	return ""
}

// rounded returns a line with the floats of another line where both are equal up to rounding.
func rounded(line, like []any) []any {
	line = slices.Clone(line)
	for i := range min(len(line), len(like)) {
		want, ok := like[i].(approx)
		if got, isFloat := line[i].(float64); ok && isFloat && math.Abs(got-float64(want)) <= 1e-12*float64(want)+1e-140 {
			line[i] = want
		}
	}
	return line
}

// order compares two values. a and b report whether each comes after all other values.
func order(a, b bool) int {
	switch {
	case a && b:
		return 0
	case a:
		return 1
	}
	return -1
}
