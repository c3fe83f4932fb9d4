package groups

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// model is groups of rows in maps.
type model struct {
	counts   map[int64]int
	sums     map[int64]*big.Int
	min, max map[int64]int64
	total    map[int64]float64 // of floats with exact sums
}

func newModel() *model {
	return &model{map[int64]int{}, map[int64]*big.Int{}, map[int64]int64{}, map[int64]int64{}, map[int64]float64{}}
}

func (m *model) add(keys, values []int64) {
	for i, k := range keys {
		v := values[i]
		if m.counts[k]++; m.counts[k] == 1 {
			m.sums[k], m.min[k], m.max[k] = new(big.Int), v, v
		}
		m.sums[k].Add(m.sums[k], big.NewInt(v))
		m.min[k], m.max[k] = min(m.min[k], v), max(m.max[k], v)
		m.total[k] += float64(int8(v))
	}
}

// source is the rows that are added in batches.
type source struct {
	name string
	key  func(rng *rand.Rand) int64
	val  func(rng *rand.Rand) int64
}

func below(n int) func(*rand.Rand) int64 {
	return func(rng *rand.Rand) int64 { return rng.Int64N(int64(n)) - int64(n)/2 }
}

// wide returns values of all sizes.
func wide(rng *rand.Rand) int64 { return int64(rng.Uint64()) >> rng.IntN(64) }

var cases = []source{
	{"one key", below(1), wide},
	{"few keys, among them that of all bits", below(7), below(1000)},
	{"more than a block has cells for", below(100), wide},
	{"many", below(1 << 20), wide},
	{"extremes", below(3), func(rng *rand.Rand) int64 {
		return [...]int64{math.MaxInt64, math.MinInt64, math.MaxInt64}[rng.IntN(3)]
	}},
	{"in order", func() func(*rand.Rand) int64 {
		n := int64(0)
		return func(*rand.Rand) int64 { n++; return n / 40 }
	}(), below(5)},
}

func (r source) draw(rng *rand.Rand, n int) (keys, values []int64) {
	keys, values = make([]int64, n), make([]int64, n)
	for i := range keys {
		keys[i], values[i] = r.key(rng), r.val(rng)
	}
	return keys, values
}

// oneKey returns one key column without nulls.
func oneKey(t Type) Keys { return KeysOf([]Type{t}, false) }

// part is a column of a type, and its length.
type part struct {
	Column
	n int
}

func at[T number](values device.Slice[T]) part {
	return part{Column{Type: typeOf[T](), Values: values.Ptr()}, values.Len()}
}

func rowsOf(key part, values ...part) Rows {
	r := Rows{N: key.n, Keys: []Column{key.Column}}
	for _, v := range values {
		r.Values = append(r.Values, v.Column)
	}
	return r
}

var sumLayout = Layout{Keys: oneKey(Int64), Fields: []Field{{Op: Sum, Type: Int64}}}

// small options make tables that overflow.
var small = Options{MinSlots: 64, Round: 1024, Cells: 31, Blocks: 2}

// One kernel computes counts and sums of batches that fit in the table and of batches that do not.
func TestSmokeSum(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	for _, r := range cases {
		for _, o := range []Options{{}, {Capacity: 30000, Round: 1024}, small} {
			t.Run(fmt.Sprintf("%s/%+v", r.name, o), func(t *testing.T) { trySum(t, dev, r, o, 0, 1, 300, 6000) })
		}
	}
}

func trySum(t testing.TB, dev device.Device, r source, o Options, batches ...int) {
	rng := rand.New(rand.NewPCG(1, 2))
	table, err := New(dev, sumLayout, o)
	must(t, err)
	defer table.Close()
	streams := []*device.Stream{devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)}
	m := newModel()
	for i, n := range batches {
		keys, values := r.draw(rng, n)
		m.add(keys, values)
		s := streams[i%2]
		must(t, table.Add(s, rowsOf(at(devicetest.Upload(t, s, keys)), at(devicetest.Upload(t, s, values)))))
	}
	got := read(t, table, Aggregate{}, Aggregate{Func: SumOf, Type: Int64}, Aggregate{Func: MeanOf, Type: Int64})
	checkRows(t, got, m)
	checkSums(t, got, 1, 2, m.sums, m.counts, true)
	for _, s := range streams {
		must(t, s.Sync(context.Background()))
	}
	must(t, table.Close(), table.Close())
}

// results holds the content of a table, one column per aggregate, as words; over lists sums that
// overflow.
type results struct {
	keys   []int64
	values [][]uint64
	over   []int
}

func read(t testing.TB, table *Table, aggs ...Aggregate) results {
	t.Helper()
	n, err := table.Len(context.Background())
	must(t, err)
	keys, err := device.Make[int64](table.dev, n)
	must(t, err)
	r := results{keys: make([]int64, n)}
	var outputs []Output
	var columns []device.Slice[uint64]
	for _, a := range aggs {
		c, err := device.Make[uint64](table.dev, n)
		must(t, err)
		columns = append(columns, c)
		outputs = append(outputs, Output{Aggregate: a, Column: c.Ptr(), OverflowRow: -1})
	}
	must(t, table.Result(context.Background(), n, Results{Keys: []KeyOutput{{Column: keys.Ptr()}}, Outputs: outputs}), keys.CopyTo(context.Background(), table.Stream(), r.keys))
	for i, c := range columns {
		words := make([]uint64, n)
		must(t, c.CopyTo(context.Background(), table.Stream(), words), c.Free())
		r.values, r.over = append(r.values, words), append(r.over, outputs[i].OverflowRow)
	}
	must(t, keys.Free())
	return r
}

// checkRows checks keys and counts of rows, which are column 0.
func checkRows(t testing.TB, got results, m *model) {
	t.Helper()
	if len(got.keys) != len(m.counts) {
		t.Fatalf("%d groups, want %d", len(got.keys), len(m.counts))
	}
	seen := map[int64]bool{}
	for i, k := range got.keys {
		if seen[k] || int(got.values[0][i]) != m.counts[k] {
			t.Fatalf("key %d has %d rows, want %d; seen before: %v", k, got.values[0][i], m.counts[k], seen[k])
		}
		seen[k] = true
	}
}

// checkSums checks sums and means of integers.
func checkSums(t testing.TB, got results, sum, mean int, want map[int64]*big.Int, counts map[int64]int, signed bool) {
	t.Helper()
	over := -1
	for i, k := range got.keys {
		fits := want[k].IsUint64()
		if signed {
			fits = want[k].IsInt64()
		}
		if !fits && (over < 0 || i == got.over[sum]) {
			over = i
		}
		if low := new(big.Int).And(want[k], new(big.Int).SetUint64(math.MaxUint64)); low.Uint64() != got.values[sum][i] {
			t.Fatalf("key %d has the sum %d, want %v", k, got.values[sum][i], want[k])
		}
		exact, _ := new(big.Float).SetInt(want[k]).Float64()
		exact /= float64(counts[k])
		if m := math.Float64frombits(got.values[mean][i]); math.Abs(m-exact) > 1e-9*math.Abs(exact)+0x1p11 {
			t.Fatalf("key %d has the mean %v, want %v", k, m, exact)
		}
	}
	if over != got.over[sum] {
		t.Fatalf("the sum that does not fit is that of row %d, want %d", got.over[sum], over)
	}
}

// Aggregates of several columns, with several fields per column, are correct.
func TestSmokeFields(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	for _, r := range cases {
		for _, o := range []Options{{}, small} {
			t.Run(fmt.Sprintf("%s/%+v", r.name, o), func(t *testing.T) { tryFields(t, dev, r, o, 1, 300, 3000) })
		}
	}
}

func tryFields(t testing.TB, dev device.Device, r source, o Options, batches ...int) {
	rng := rand.New(rand.NewPCG(1, 2))
	aggs := []Aggregate{
		{}, {Func: MinOf, Type: Int64}, {Func: SumOf, Type: Int64}, {Func: MeanOf, Type: Int64}, {Func: MaxOf, Type: Int64},
		{Func: SumOfFloats, Type: Float32, Column: 1}, {Func: MeanOfFloats, Type: Float32, Column: 1},
	}
	table, err := New(dev, LayoutOf(oneKey(Int64), aggs), o)
	must(t, err)
	defer table.Close()
	s := devicetest.NewStream(t, dev)
	m := newModel()
	for _, n := range batches {
		keys, values := r.draw(rng, n)
		m.add(keys, values)
		small := make([]float32, n)
		for i, v := range values {
			small[i] = float32(int8(v))
		}
		must(t, table.Add(s, rowsOf(at(devicetest.Upload(t, s, keys)), at(devicetest.Upload(t, s, values)), at(devicetest.Upload(t, s, small)))))
	}
	got := read(t, table, aggs...)
	checkRows(t, got, m)
	checkSums(t, got, 2, 3, m.sums, m.counts, true)
	for i, k := range got.keys {
		if least, most := int64(got.values[1][i]), int64(got.values[4][i]); least != m.min[k] || most != m.max[k] {
			t.Fatalf("key %d has extremes %d and %d, want %d and %d", k, least, most, m.min[k], m.max[k])
		}
		total, mean := math.Float64frombits(got.values[5][i]), math.Float64frombits(got.values[6][i])
		if total != m.total[k] || mean != m.total[k]/float64(m.counts[k]) {
			t.Fatalf("key %d has the total %v and the mean %v, want %v of %d", k, total, mean, m.total[k], m.counts[k])
		}
	}
}

// Sums are carried over, and a sum beyond the limit is an error.
func TestSmokeCarry(t *testing.T) { tryCarry(t, devicetest.OpenGPU(t)) }

func tryCarry(t testing.TB, dev device.Device) {
	for _, typ := range []Type{Int64, Uint64, Int32, Uint32} {
		signed := typ == Int64 || typ == Int32
		table, err := New(dev, Layout{Keys: oneKey(Int64), Fields: []Field{{Op: Max, Type: typ}, {Op: Sum, Type: typ}}}, small)
		must(t, err)
		s := devicetest.NewStream(t, dev)
		keys := devicetest.Upload(t, s, []int64{5, -1, 5, 5, -1})
		values := []uint64{1<<63 - 1, 1 << 63, 1<<32 - 1, 1<<63 - 5, 1 << 31}
		column := devicetest.Upload(t, s, values).Ptr()
		if typ.Size() == 4 {
			column = devicetest.Upload(t, s, narrow(values, signed)).Ptr()
		}
		columns := []Column{{Type: typ, Values: column}}
		want, counts := map[int64]*big.Int{5: new(big.Int), -1: new(big.Int)}, map[int64]int{5: 9, -1: 6}
		for range 3 {
			table.rows = carryRows // as if that many had been added
			must(t, table.Add(s, Rows{N: 5, Keys: []Column{{Type: Int64, Values: keys.Ptr()}}, Values: columns}))
			for i, k := range []int64{5, -1, 5, 5, -1} {
				v := new(big.Int).SetUint64(values[i])
				if signed {
					v = big.NewInt(int64(values[i]))
				}
				want[k].Add(want[k], v)
			}
		}
		got := read(t, table, Aggregate{Func: SumOf, Type: typ}, Aggregate{Func: MeanOf, Type: typ})
		checkSums(t, got, 0, 1, want, counts, signed)
		// The first word of the last record is small now. The test sets the second one beyond the
		// limit.
		last := table.records.Sub(table.Slots()*table.layout.stride(), table.records.Len())
		for _, high := range []uint64{1<<62 - 1, 1 << 62} {
			must(t, last.CopyFrom(s, []uint64{0, 1, 0, 0, high, 0, 0, 0}))
			table.rows = carryRows
			if err := table.Add(s, Rows{N: 5, Keys: []Column{{Type: Int64, Values: keys.Ptr()}}, Values: columns}); errors.Is(err, ErrRange) != (high == 1<<62) {
				t.Errorf("type %d: %v behind a sum of 2^32 times %d", typ, err, high)
			}
		}
		must(t, table.Close())
	}
}

// endsLater is a context that ends after some checks.
type endsLater struct {
	context.Context
	looks int
}

func (c *endsLater) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A Len that ends early leaves no pending work that a growing table would break.
func TestLenEnds(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	s := devicetest.NewStream(t, dev)
	keys := make([]int64, 300)
	for i := range keys {
		keys[i] = int64(i)
	}
	there := devicetest.Upload(t, s, keys)
	for looks, ended := 0, true; ended; looks++ {
		table, err := New(dev, sumLayout, Options{MinSlots: 64})
		must(t, err)
		must(t, table.Add(s, rowsOf(at(there.Sub(0, 3)), at(there.Sub(0, 3)))))
		_, err = table.Len(&endsLater{t.Context(), looks})
		if ended = err != nil; ended && !errors.Is(err, context.Canceled) {
			t.Fatalf("a context that ends after %d looks: %v", looks, err)
		}
		must(t, table.Add(s, rowsOf(at(there), at(there))))
		if n, err := table.Len(t.Context()); err != nil || n != len(keys) || table.Slots() == 64 {
			t.Fatalf("%d groups of %d; %v", n, len(keys), err)
		}
		must(t, table.Close())
	}
}

// narrow truncates values to 32 bits, and widens them to the remaining value.
func narrow(values []uint64, signed bool) []uint32 {
	narrowed := make([]uint32, len(values))
	for i, v := range values {
		narrowed[i], values[i] = uint32(v), uint64(uint32(v))
		if signed {
			values[i] = uint64(int64(int32(v)))
		}
	}
	return narrowed
}

// The layout of a key must fit shared memory at least twice.
func TestNewRefuses(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	l := Layout{Keys: oneKey(Int64)}
	for l.words() < localBytes/16 {
		l.Fields = append(l.Fields, Field{Op: Max, Type: Int64, Column: len(l.Fields)})
	}
	for _, c := range []struct {
		fields int
		want   error
	}{{0, nil}, {1, device.ErrUnsupported}} {
		for range c.fields {
			l.Fields = append(l.Fields, Field{Op: Min, Type: Int64})
		}
		table, err := New(dev, l, Options{MinSlots: 64})
		if !errors.Is(err, c.want) {
			t.Errorf("%d words: %v, want %v", l.words(), err, c.want)
		}
		if err == nil {
			must(t, table.Close())
		}
	}
}

// A table with a given capacity does not grow for that many keys.
func TestCapacity(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	const n = 1 << 17
	keys := make([]int64, n)
	for i := range keys {
		keys[i] = int64(i)
	}
	for _, o := range []Options{{Capacity: n}, {}} {
		table, err := New(dev, sumLayout, o)
		must(t, err)
		s := devicetest.NewStream(t, dev)
		there := devicetest.Upload(t, s, keys)
		for range 2 {
			must(t, table.Add(s, rowsOf(at(there), at(there))))
		}
		if grown := table.Slots() != max(slotsOf(o.Capacity), minSlots); grown != (o.Capacity == 0) {
			t.Errorf("capacity for %d keys, and %d slots for %d", o.Capacity, table.Slots(), n)
		}
		if groups, err := table.Len(context.Background()); err != nil || groups != n {
			t.Errorf("%d groups, want %d; %v", groups, n, err)
		}
		must(t, table.Close())
	}
}
