package groups

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// series is values of a type as bits of its width; some may be null.
type series struct {
	typ   Type
	bits  []uint64
	valid []bool // nil: no value is null
}

// odd returns a value of a type: a small value, one of the given number, or a value at an end of
// the type. Floating-point sums of these values do not depend on the order.
func odd(rng *rand.Rand, t Type, smalls int) uint64 {
	small := int64(rng.IntN(smalls) - smalls/2)
	switch {
	case t == Bool:
		return uint64(rng.IntN(2))
	case t >= Float32:
		f := float64(small)
		if k := rng.IntN(40); k < 5 {
			f = [...]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.Copysign(math.NaN(), -1)}[k]
		}
		if t == Float32 {
			return uint64(math.Float32bits(float32(f)))
		}
		return math.Float64bits(f)
	case rng.IntN(10) == 0:
		width := 8 * t.Size()
		return [...]uint64{1<<(width-1) - 1, 1 << (width - 1), 1<<(width-1)<<1 - 1}[rng.IntN(3)]
	}
	return uint64(small) << (64 - 8*t.Size()) >> (64 - 8*t.Size())
}

func drawn(rng *rand.Rand, t Type, smalls, n int, nulls bool) series {
	s := series{typ: t, bits: make([]uint64, n)}
	for i := range s.bits {
		s.bits[i] = odd(rng, t, smalls)
	}
	if nulls {
		s.valid = make([]bool, n)
		for i := range s.valid {
			s.valid[i] = rng.IntN(3) > 0
		}
	}
	return s
}

func (s series) null(i int) bool { return s.valid != nil && !s.valid[i] }

// upload copies the column to a device; its bitmap begins at some bit.
func (s series) upload(t testing.TB, stream *device.Stream) Column {
	var raw []byte
	for _, v := range s.bits {
		raw = append(raw, binary.LittleEndian.AppendUint64(nil, v)[:s.typ.Size()]...)
	}
	c := Column{Type: s.typ, Values: devicetest.Upload(t, stream, append(raw, 0)).Ptr()}
	if s.valid != nil {
		c.Offset = 5
		bits := make([]byte, len(s.valid)/8+2)
		for i, v := range s.valid {
			if at := i + c.Offset; v {
				bits[at/8] |= 1 << (at % 8)
			}
		}
		c.Valid = devicetest.Upload(t, stream, bits).Ptr()
	}
	return c
}

// float returns a value given as bits as a float64.
func float(t Type, bits uint64) float64 {
	switch {
	case t == Float32:
		return float64(math.Float32frombits(uint32(bits)))
	case t == Float64:
		return math.Float64frombits(bits)
	case t.signed():
		return float64(word(t, bits))
	}
	return float64(bits)
}

func (t Type) signed() bool { return t < Bool && t%2 == 0 }

// word returns an integer given as bits.
func word(t Type, bits uint64) int64 {
	if shift := 64 - 8*t.Size(); t.signed() {
		return int64(bits<<shift) >> shift
	}
	return int64(bits)
}

// key returns a string that identifies a key. All NaNs are equal, and -0 equals 0.
func (s series) key(i int) string {
	switch {
	case s.null(i):
		return "null"
	case s.typ >= Float32:
		return fmt.Sprint(float(s.typ, s.bits[i]) + 0)
	}
	return fmt.Sprint(s.bits[i])
}

// less compares values of a type.
func less(t Type, a, b uint64) bool {
	if t.signed() {
		return word(t, a) < word(t, b)
	}
	return a < b
}

// of returns a function of values of a type, as bits; none reports null.
func (f Func) of(t Type, rows int, values []uint64) (bits uint64, none bool) {
	if f == CountRows || f == CountOf {
		return uint64(map[Func]int{CountRows: rows, CountOf: len(values)}[f]), false
	}
	if len(values) == 0 {
		return 0, true
	}
	sum, total, least, most, exact := uint64(0), 0.0, values[0], values[0], new(big.Int)
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		sum += uint64(word(t, v))
		if t.signed() {
			exact.Add(exact, big.NewInt(word(t, v)))
		} else {
			exact.Add(exact, new(big.Int).SetUint64(v))
		}
		total += float(t, v)
		low, high = min(low, float(t, v)), max(high, float(t, v))
		if less(t, v, least) {
			least = v
		}
		if less(t, most, v) {
			most = v
		}
	}
	extreme := func(f float64, bits uint64) uint64 {
		switch t {
		case Float32:
			return uint64(math.Float32bits(float32(f)))
		case Float64:
			return math.Float64bits(f)
		}
		return bits
	}
	switch f {
	case SumOf:
		return sum, false
	case SumOfFloats:
		return math.Float64bits(total), false
	case MeanOf:
		total, _ := exact.Float64()
		return math.Float64bits(total / float64(len(values))), false
	case MeanOfFloats:
		return math.Float64bits(total / float64(len(values))), false
	case MinOf:
		return extreme(low, least), false
	case MaxOf:
		return extreme(high, most), false
	case FirstOf:
		return values[0], false
	}
	return values[len(values)-1], false
}

// width returns the size of results.
func (a Aggregate) width() int {
	if a.Func >= MinOf {
		return a.Type.Size()
	}
	return 8
}

// same compares results; the means of large integers may be rounded twice.
func (a Aggregate) same(got, want uint64) bool {
	x, y := math.Float64frombits(got), math.Float64frombits(want)
	switch {
	case a.Func == MeanOf:
		return math.Abs(x-y) <= 1e-14*math.Abs(y)
	case a.Func >= MinOf && a.Type >= Float32:
		x, y = float(a.Type, got), float(a.Type, want)
	case a.Func != SumOfFloats && a.Func != MeanOfFloats:
		return got == want
	}
	return got == want || x != x && y != y
}

// shape describes a trial with any columns.
type shape struct {
	keys, values []Type
	nulls        bool
	filter       Filter
	batches      []int
	smalls       int  // of keys
	full         bool // no value is null
	plain        bool // no first and last, so that the kernels of the most frequent columns run
}

var shapes = []shape{
	{of(Int8), of(Int64), false, AllRows, []int{300}, 7, false, false},
	{of(Float32), of(Int32), false, AllRows, []int{600, 40}, 7, false, false},
	{of(Float64), of(Uint64, Float64), false, AllRows, []int{300}, 7, false, false},
	{of(Int64), of(Float32), true, WithoutNulls, []int{250, 40}, 7, false, false},
	{of(Float32, Int8), of(Int16), true, AllRows, []int{300}, 7, false, false},
	{of(Uint8, Int16, Bool), of(Int8, Bool, Uint32), true, AllRows, []int{2000, 300}, 7, false, false},
	{of(Float32, Float32), of(Uint16), false, AllRows, []int{700}, 7, false, false},
	{of(Int32, Float32), of(Int64, Uint8), true, WithoutNulls, []int{300, 500}, 7, false, false},
	{of(Float64, Int64, Float32, Uint16), of(Int64, Float32), true, AllRows, []int{900, 300}, 7, false, false},
	{of(Int64, Int16), of(Int64), true, WithNulls, []int{400}, 7, false, false},
	{of(Int64, Bool), nil, true, WithoutNulls, []int{200, 1100}, 7, false, false},
	{nil, of(Uint64, Int8), true, AllRows, []int{100, 30}, 7, false, false},
	{of(Float32), of(Float32, Float64, Uint32), false, AllRows, []int{300, 50}, 7, false, true},
	{of(Uint64), of(Int64, Float64, Uint64), false, AllRows, []int{300}, 7, false, true},
}

func of(types ...Type) []Type { return types }

// Keys and values of any columns have the aggregates that a map computes.
func TestSmokeAny(t *testing.T) { tryAny(t, devicetest.OpenGPU(t)) }

func tryAny(t testing.TB, dev device.Device) {
	for i, x := range shapes {
		x.try(t, dev, uint64(i), small)
	}
}

// manyKeys has enough distinct keys to make blocks stop using local tables, and keys of three
// words.
var manyKeys = []shape{
	{of(Float32), of(Int32), false, AllRows, []int{3000}, 300, false, false},
	{of(Uint64), of(Float32, Int32), false, AllRows, []int{3000}, 300, false, false},
	{of(Float64), of(Int16), false, AllRows, []int{3000}, 300, false, false},
	{of(Float32), of(Float32, Float64, Int32), false, AllRows, []int{3000}, 300, false, true},
	{of(Float32, Int16, Bool), of(Int8), true, AllRows, []int{3000}, 30, true, false},
	{of(Uint8, Int32), of(Uint8), true, WithoutNulls, []int{3000}, 40, true, false},
	{of(Float32, Int16, Bool), of(Float32, Int8, Bool), true, AllRows, []int{3000}, 20, false, false},
	{of(Float64), of(Uint16, Float64), true, WithoutNulls, []int{3000}, 300, false, false},
	{of(Int8, Uint16, Int32), of(Int64, Float32), true, AllRows, []int{3000}, 30, false, false},
	{of(Int64), of(Uint8, Int64), true, WithoutNulls, []int{3000}, 300, false, false},
	{of(Int16, Int32), of(Uint8), true, AllRows, []int{3000}, 60, true, false},
	{of(Int64), of(Int8), true, WithoutNulls, []int{3000}, 300, true, false},
	{of(Int64, Int64, Int8, Bool, Float32, Int16), of(Int64), true, AllRows, []int{1500, 100}, 3, false, false},
	{of(Int8, Bool, Float32, Int16, Float64, Float64), nil, true, WithoutNulls, []int{2500}, 4, false, false},
	{of(Int64, Bool, Int8, Int16, Float32, Int32), of(Int32), true, AllRows, []int{1500}, 3, true, false},
}

// Keys and values of any columns have the aggregates that a map computes, with many distinct keys.
func TestSmokeMany(t *testing.T) { tryMany(t, devicetest.OpenGPU(t)) }

func tryMany(t testing.TB, dev device.Device) {
	for i, x := range manyKeys {
		x.try(t, dev, uint64(i), small)
		// no launch ends before all rounds
		x.try(t, dev, uint64(i), Options{MinSlots: 1 << 14, Round: 1024, Cells: 31, Blocks: 2})
	}
}

// aggregates returns all aggregates of values of some types.
func (x shape) aggregates() (all []Aggregate) {
	all = append(all, Aggregate{Func: CountRows})
	for i, t := range x.values {
		funcs := []Func{CountOf, SumOf, MeanOf, MinOf, MaxOf, FirstOf, LastOf}
		switch {
		case t == Bool:
			funcs = slices.Delete(funcs, 1, 3)
		case t >= Float32:
			funcs[1], funcs[2] = SumOfFloats, MeanOfFloats
		}
		if x.plain {
			funcs = funcs[:len(funcs)-2]
		}
		if len(x.values) == 1 && (x.full || !x.nulls) {
			funcs = funcs[1:2] // which has its own kernel
		}
		for _, f := range funcs {
			all = append(all, Aggregate{Func: f, Type: t, Column: i})
		}
	}
	return all
}

// grouped is the rows of a key.
type grouped struct {
	rows   int
	values [][]uint64 // by column
}

func (x shape) try(t testing.TB, dev device.Device, seed uint64, o Options) {
	rng := rand.New(rand.NewPCG(seed, 1))
	aggs, keys := x.aggregates(), KeysOf(x.keys, x.nulls && x.filter == AllRows)
	var numbers *Numbers
	var err error
	if keys.Words() > 1 || x.filter == WithNulls {
		numbers, err = NewNumbers(dev, x.keys, Options{Round: 1024})
		must(t, err)
		defer numbers.Close()
		keys = Keys{}
	}
	table, err := New(dev, LayoutOf(keys, aggs), o)
	must(t, err)
	defer table.Close()
	s, want, before := devicetest.NewStream(t, dev), map[string]*grouped{}, 0
	for _, n := range x.batches {
		r := Rows{N: n, Filter: x.filter, Before: before}
		var k, v []series
		for _, typ := range x.keys {
			k = append(k, drawn(rng, typ, x.smalls, n, x.nulls))
			r.Keys = append(r.Keys, k[len(k)-1].upload(t, s))
		}
		for _, typ := range x.values {
			v = append(v, drawn(rng, typ, 7, n, x.nulls && !x.full))
			r.Values = append(r.Values, v[len(v)-1].upload(t, s))
		}
		x.count(want, k, v, n)
		if numbers == nil {
			must(t, table.Add(s, r))
		} else {
			must(t, numbers.Number(s, r, func(r Rows) error { return table.Add(s, r) }))
		}
		before += n
	}
	x.compare(t, s, table, numbers, aggs, want)
}

// count adds rows to the expected result.
func (x shape) count(want map[string]*grouped, keys, values []series, n int) {
	for i := range n {
		text, null := "", false
		for _, k := range keys {
			text, null = text+k.key(i)+" ", null || k.null(i)
		}
		if x.filter != AllRows && null != (x.filter == WithNulls) {
			continue
		}
		g := want[text]
		if g == nil {
			g = &grouped{values: make([][]uint64, len(values))}
			want[text] = g
		}
		g.rows++
		for j, v := range values {
			if !v.null(i) {
				g.values[j] = append(g.values[j], v.bits[i])
			}
		}
	}
}

// cells is a column of results, as bits of a width.
type cells struct {
	device.Slice[byte]
	valid device.Slice[uint32]
	width int
}

func (c cells) read(t testing.TB, s *device.Stream, n int) (all series) {
	raw, bits := devicetest.Download(t, s, c.Slice), devicetest.Download(t, s, c.valid)
	for i := range n {
		var word [8]byte
		copy(word[:], raw[i*c.width:][:c.width])
		all.bits = append(all.bits, binary.LittleEndian.Uint64(word[:]))
		all.valid = append(all.valid, bits[i/32]>>(i%32)&1 != 0)
	}
	return all
}

func (x shape) compare(t testing.TB, s *device.Stream, table *Table, numbers *Numbers, aggs []Aggregate, want map[string]*grouped) {
	n, err := table.Len(t.Context())
	must(t, err)
	if n != len(want) {
		t.Fatalf("%v: %d groups, want %d", x, n, len(want))
	}
	made := func(width int) cells {
		return cells{devicetest.Upload(t, s, make([]byte, n*width+1)), devicetest.Upload(t, s, make([]uint32, n/32+1)), width}
	}
	to := Results{Numbers: numbers}
	var keys, values []cells
	for i, typ := range x.keys {
		keys = append(keys, made(typ.Size()))
		to.Keys = append(to.Keys, KeyOutput{Column: keys[i].Ptr(), Valid: keys[i].valid.Ptr()})
	}
	for i, a := range aggs {
		values = append(values, made(a.width()))
		to.Outputs = append(to.Outputs, Output{Aggregate: a, Column: values[i].Ptr()})
		if a.Func > CountOf {
			to.Outputs[i].Valid = values[i].valid.Ptr()
		}
	}
	must(t, s.Sync(t.Context()), table.Result(t.Context(), n, to))
	var k, v []series
	for i, c := range keys {
		k = append(k, c.read(t, s, n))
		k[i].typ = x.keys[i]
	}
	for _, c := range values {
		v = append(v, c.read(t, s, n))
	}
	for i := range n {
		text := ""
		for _, c := range k {
			text += c.key(i) + " "
		}
		g := want[text]
		if g == nil {
			t.Fatalf("%v: no group %s, or twice", x, text)
		}
		delete(want, text)
		for j, a := range aggs {
			var of []uint64
			if a.Func != CountRows {
				of = g.values[a.Column]
			}
			bits, none := a.Func.of(a.Type, g.rows, of)
			if got := v[j]; none == got.valid[i] && a.Func > CountOf || !a.same(got.bits[i], bits) {
				t.Fatalf("%v: of group %s aggregate %v is %x, %v, want %x", x, text, a, got.bits[i], got.valid[i], bits)
			}
		}
	}
}
