package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/groups"
)

// typesOn are the types of columns as kernels know them.
var typesOn = map[column.Type]groups.Type{
	column.Int32: groups.Int32, column.Uint32: groups.Uint32, column.Int64: groups.Int64, column.Uint64: groups.Uint64,
	column.Float32: groups.Float32, column.Float64: groups.Float64,
}

// gpuOn is groups on a GPU.
type gpuOn[K KeyOn, V weft.Value] struct {
	aggs   []Aggregate
	opts   Options
	value  column.Type
	fields []int // by aggregate; of those that need one
	table  *groups.Table
}

func newGPUOn[K KeyOn, V weft.Value](dev device.Device, aggs []Aggregate, o Options) (groupsOn[K, V], error) {
	g := &gpuOn[K, V]{aggs: slices.Clone(aggs), opts: o, value: column.TypeOf[V](), fields: make([]int, len(aggs))}
	l := groups.Layout{Key: typesOn[column.TypeOf[K]()]}
	for i, a := range aggs {
		if a.Func == Rows || a.Func == Count {
			continue
		}
		f := groups.Field{Op: g.keeps(a.Func), Type: typesOn[g.value], Column: a.Column}
		if g.fields[i] = slices.Index(l.Fields, f); g.fields[i] < 0 {
			g.fields[i] = len(l.Fields)
			l.Fields = append(l.Fields, f)
		}
	}
	var err error
	g.table, err = groups.New(dev, l, groups.Options{Capacity: o.Capacity})
	return g, err
}

// keeps is what a function of values needs.
func (g *gpuOn[K, V]) keeps(f Func) groups.Op {
	switch {
	case f == Min:
		return groups.Min
	case f == Max:
		return groups.Max
	case g.value.Float():
		return groups.SumFloat
	}
	return groups.Sum
}

func (g *gpuOn[K, V]) add(s *device.Stream, keys device.Slice[K], values []device.Slice[V]) error {
	columns := make([]device.Ptr, len(values))
	for i, v := range values {
		columns[i] = v.Ptr()
	}
	err := g.table.Add(s, keys.Ptr(), columns, keys.Len())
	if errors.Is(err, groups.ErrRange) {
		return fmt.Errorf("%w: one goes over 2^94", ErrOverflow)
	}
	return err
}

func (g *gpuOn[K, V]) close() error { return g.table.Close() }

func (g *gpuOn[K, V]) result(ctx context.Context) (*Result, error) {
	rows, err := g.table.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("group: Result: %w", err)
	}
	key := column.TypeOf[K]()
	places := placesOf(key, rows.Keys)
	r := &Result{Keys: []column.Column{placed(key, places, rows.Keys)}}
	words := make([]uint64, len(places))
	for i, a := range g.aggs {
		over, first := false, 0
		for j := range words {
			var fits bool
			if words[j], fits = g.read(rows, a.Func, g.fields[i], j); !fits && (!over || places[j] < places[first]) {
				over, first = true, j
			}
		}
		if over && !g.opts.WrapSums {
			return nil, overflow(a.Column, g.value, keyText(r.Keys, int(places[first])))
		}
		r.Values = append(r.Values, placed(resultType(a.Func, g.value), places, words))
	}
	return r, nil
}

// read is an aggregate of a record as a word; fits: it has no more than 64 bits.
func (g *gpuOn[K, V]) read(rows *groups.Rows, f Func, field, i int) (word uint64, fits bool) {
	switch {
	case f == Rows || f == Count:
		return rows.Counts[i], true
	case f == Min || f == Max:
		return rows.Extreme(field, i), true
	case g.value.Float():
		sum := rows.SumFloat(field, i)
		if f == Mean {
			sum /= float64(rows.Counts[i])
		}
		return math.Float64bits(sum), true
	}
	beyond, sum := rows.Sum(field, i)
	rest := float64(sum)
	if g.value.Signed() {
		beyond -= int64(sum) >> 63
		rest = float64(int64(sum))
	}
	if f == Mean {
		return math.Float64bits((rest + math.Ldexp(float64(beyond), 64)) / float64(rows.Counts[i])), true
	}
	return sum, beyond == 0
}

// placesOf is the place of each key in ascending order, NaN last. Keys are words, as records have them.
func placesOf(t column.Type, keys []uint64) []uint64 {
	type ranked struct {
		rank uint64
		at   int
	}
	all := make([]ranked, len(keys))
	for i, k := range keys {
		all[i] = ranked{rankOf(t, k), i}
	}
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	places := make([]uint64, len(keys))
	for place, x := range all {
		places[x.at] = uint64(place)
	}
	return places
}

// rankOf is a number that is as large among the unsigned ones as a key is among its like; of NaN there is one, which is positive.
func rankOf(t column.Type, key uint64) uint64 {
	const sign = 1 << 63
	switch {
	case t.Float() && key&sign != 0:
		return ^key
	case t.Float() || t.Signed():
		return key ^ sign
	}
	return key
}

// placed is a column of words at places.
func placed(t column.Type, places, words []uint64) column.Column {
	w := newWriter(t, len(places), reader{})
	w.place(places, words)
	return w.column()
}
