package beam

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// bundleFn is a DoFn that combines the blocks of a bundle.
type bundleFn interface {
	StartBundle(context.Context, func(int, []byte)) error
	ProcessElement(context.Context, []byte, func(int, []byte)) error
	FinishBundle(context.Context, func(int, []byte)) error
}

// bundles runs a DoFn as a runner may do. Blocks come in any order and in any bundles, which
// several instances of the DoFn process. Some bundles fail and run again, and the output of failed
// bundles is lost. It returns the emitted values for each key, in any order.
func bundles(
	t testing.TB, rng *rand.Rand, blocks [][]byte, instance func() bundleFn,
) map[int][][]byte {
	t.Helper()
	blocks = slices.Clone(blocks)
	shuffle(rng, blocks)
	instances := []bundleFn{instance(), instance()}
	out := map[int][][]byte{}
	for len(blocks) > 0 {
		n := 1 + rng.IntN(len(blocks))
		for range rng.IntN(3) { // bundles that fail
			runBundle(t, instances[rng.IntN(2)], blocks[:rng.IntN(n+1)], rng.IntN(2) == 0, func(int, []byte) {})
		}
		runBundle(t, instances[rng.IntN(2)], blocks[:n], true, func(key int, b []byte) {
			if len(b) > MaxBlock {
				t.Fatalf("a piece of %d bytes", len(b))
			}
			out[key] = append(out[key], b)
		})
		blocks = blocks[n:]
	}
	for _, key := range sortedKeys(out) {
		shuffle(rng, out[key])
	}
	for _, f := range instances {
		if f, ok := f.(interface{ Teardown() error }); ok {
			if err := f.Teardown(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

func runBundle(t testing.TB, f bundleFn, blocks [][]byte, finish bool, emit func(int, []byte)) {
	t.Helper()
	err := f.StartBundle(t.Context(), emit)
	for _, b := range blocks {
		if err == nil {
			err = f.ProcessElement(t.Context(), b, emit)
		}
	}
	if err == nil && finish {
		err = f.FinishBundle(t.Context(), emit)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func shuffle[T any](rng *rand.Rand, s []T) {
	rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

func sortedKeys(m map[int][][]byte) (keys []int) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// iterate returns an iterator of the kind that Beam passes to DoFns.
func iterate(blocks [][]byte) func(*[]byte) bool {
	return func(b *[]byte) bool {
		if len(blocks) == 0 {
			return false
		}
		*b, blocks = blocks[0], blocks[1:]
		return true
	}
}

// carried returns a plan after it was encoded and decoded, as workers receive it.
func carried[T any](t testing.TB, plan T) (p T) {
	t.Helper()
	if err := json.Unmarshal(must(json.Marshal(plan))(t), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// randomColumn returns n values. Few are distinct and some are null.
func randomColumn(rng *rand.Rand, n int, typ column.Type) (c column.Column) {
	few := 1 + rng.IntN(20)
	switch typ {
	case column.Int32:
		c = column.Of(randomValues(rng, n, func() int32 { return int32(rng.IntN(few)) - 5 }))
	case column.Int64:
		c = column.Of(randomValues(rng, n,
			func() int64 { return int64(rng.IntN(few)-few/2) << 40 }))
	case column.Uint64:
		c = column.Of(randomValues(rng, n, func() uint64 { return uint64(rng.IntN(few)) }))
	case column.Float64: // values with exact sums
		special := []float64{math.NaN(), math.Copysign(0, -1), 0, math.Inf(1)}
		c = column.Of(randomValues(rng, n, func() float64 {
			if i := rng.IntN(40); i < len(special) {
				return special[i]
			}
			return float64(rng.IntN(few)) / 4
		}))
	case column.Bool:
		c = column.Of(randomValues(rng, n, func() bool { return rng.IntN(2) == 0 }))
	default:
		c = column.OfStrings(randomValues(rng, n, func() string { return fmt.Sprint("text ", rng.IntN(few)) }))
	}
	if rng.IntN(3) == 0 {
		c = c.WithValid(column.OfBools(randomValues(rng, n,
			func() bool { return rng.IntN(4) > 0 })))
	}
	return c
}

func randomValues[T any](rng *rand.Rand, n int, value func() T) []T {
	values := make([]T, n)
	for i := range values {
		values[i] = value()
	}
	return values
}

var randomTypes = []column.Type{column.Int32, column.Int64, column.Uint64, column.Float64,
	column.Bool, column.Bytes}

// randomSide returns columns with names prefix0, prefix1, …
func randomSide(
	rng *rand.Rand, n, columns int, prefix string,
) (names []string, cs []column.Column) {
	for i := range columns {
		names = append(names, fmt.Sprint(prefix, i))
		cs = append(cs, randomColumn(rng, n, randomTypes[rng.IntN(len(randomTypes))]))
	}
	return names, cs
}

// randomBlocks shuffles rows and encodes them as blocks, including blocks without rows.
func randomBlocks(
	t testing.TB, rng *rand.Rand, names []string, columns []column.Column,
) (blocks [][]byte) {
	t.Helper()
	dev := must(openHost())(t)
	order := make([]uint32, columns[0].Len())
	for i := range order {
		order[i] = uint32(i)
	}
	shuffle(rng, order)
	for first := true; first || len(order) > 0; first = false {
		n := rng.IntN(len(order) + 1)
		part := make([]column.Column, len(columns))
		for i, c := range columns {
			part[i] = column.Take(dev, c, order[:n])
		}
		blocks = append(blocks, must(EncodeColumns(names, part))(t)...)
		order = order[n:]
	}
	return blocks
}

// randomAggregates returns aggregates for columns of the given types, and whether they need an
// order of rows.
func randomAggregates(
	rng *rand.Rand, values []column.Column,
) (aggs []group.Aggregate, ordered bool) {
	for range rng.IntN(5) {
		a := group.Aggregate{Func: group.Func(rng.IntN(int(group.Var) + 1))}
		if len(values) > 0 {
			a.Column = rng.IntN(len(values))
		}
		if a.Func != group.Rows {
			if len(values) == 0 {
				continue
			}
			t, suits := values[a.Column].Type(), true
			switch a.Func {
			case group.Sum, group.Mean:
				suits = t.Integer() || t.Float()
			case group.Var: // exact
				suits = t.Integer()
			case group.AnyTrue, group.AllTrue:
				suits = t == column.Bool
			case group.Any: // depends on the order of bundles
				suits = false
			}
			if !suits {
				continue
			}
		}
		ordered = ordered || a.Func == group.First || a.Func == group.Last
		aggs = append(aggs, a)
	}
	return aggs, ordered
}
