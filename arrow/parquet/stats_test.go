package parquet

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weftgo/weft/column"
)

// TestBounds tests each rule about bounds in statistics.
func TestBounds(t *testing.T) {
	f8 := func(v float64) []byte { return le64(int64(math.Float64bits(v))) }
	nan, zero := math.NaN(), math.Copysign(0, -1)
	for i, c := range []struct {
		t           Type
		physical    format.Type
		width       int
		least, most []byte
		want        string
	}{
		{Type{Column: column.Int32}, format.Int32, 4, le32(-5), le32(7), "[-5 7]"},
		{Type{Column: column.Int32}, format.Int32, 4, le32(7), le32(-5), "[<nil> <nil>]"},
		{Type{Column: column.Uint32}, format.Int32, 4, le32(7), le32(-5), "[7 4294967291]"},
		{Type{Column: column.Uint64}, format.Int64, 8, le64(1), le64(-1),
			"[1 18446744073709551615]"},
		{Type{Column: column.Int8}, format.Int32, 4, le32(-128), le32(128), "[-128 <nil>]"},
		{Type{Column: column.Int64}, format.Int64, 8, nil, le64(1), "[<nil> 1]"},
		{Type{Column: column.Int64}, format.Int64, 8, le32(1), le64(1), "[<nil> 1]"},
		{Type{Column: column.Float64}, format.Double, 8, f8(nan), f8(1), "[<nil> 1]"},
		{Type{Column: column.Float64}, format.Double, 8, f8(1), f8(-nan), "[1 <nil>]"},
		{Type{Column: column.Float64}, format.Double, 8, f8(0), f8(zero), "[0 -0]"},
		{Type{Kind: Bool, Column: column.Bool}, format.Boolean, 0, []byte{0}, []byte{1},
			"[false true]"},
		{Type{Kind: Bool, Column: column.Bool}, format.Boolean, 0, []byte{0}, []byte{2},
			"[false <nil>]"},
		{Type{Kind: Text, Column: column.Bytes}, format.ByteArray, 0, nil, []byte("b"), "[ b]"},
		{Type{Kind: Text, Column: column.Bytes}, format.ByteArray, 0, []byte("a"), nil,
			"[a <nil>]"},
		{Type{Kind: Text, Column: column.Bytes}, format.ByteArray, 0, []byte("\xff"), []byte("a"),
			"[<nil> <nil>]"},
		{Type{Kind: Fixed, Column: column.Bytes, Width: 2}, format.FixedLenByteArray, 2,
			[]byte("a"), []byte("b"), "[a b]"},
	} {
		l := leaf{Field: Field{Type: c.t}, physical: c.physical, width: c.width}
		if got := fmt.Sprint(anys(l.bounds(c.least, c.most))); got != c.want {
			t.Errorf("case %d: %s, want %s", i, got, c.want)
		}
	}
	half := leaf{Field: Field{Type: Type{Column: column.Float32}},
		physical: format.FixedLenByteArray, width: 2, half: true}
	if got := fmt.Sprint(anys(half.bounds([]byte{0, 0xbc}, []byte{0, 0x3c}))); got != "[-1 1]" {
		t.Errorf("halves: %s", got)
	}
}

// asked is a filter that passes everything and records its arguments.
type asked struct {
	mu            sync.Mutex // row groups are processed concurrently
	bounds, nulls []string
}

func (a *asked) MayContain(i int, bounds column.Column, nulls bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bounds, a.nulls = append(a.bounds, fmt.Sprint(anys(bounds))), append(a.nulls,
		fmt.Sprint(nulls))
	return true
}

func (a *asked) Select(keys []column.Column, rows []uint32) ([]uint32, error) {
	for i := range keys[0].Len() {
		rows = append(rows, uint32(i))
	}
	return rows, nil
}

// Reading uses min_value and max_value if the file states the order of the type, the older bounds
// of signed numbers, and the number of nulls.
func TestStatistics(t *testing.T) {
	one, two, count := le32(1), le32(2), thrift.Null[int64]{Valid: true}
	newer, older := statistics{MinValue: one, MaxValue: two}, statistics{Min: one, Max: two}
	signed := leaf{Field: Field{Type: Type{Column: column.Int32}}, physical: format.Int32,
		width: 4, ordered: true}
	unsigned, optional, unordered := signed, signed, signed
	unsigned.Type.Column, optional.optional, unordered.ordered = column.Uint32, true, false
	texts := leaf{Field: Field{Type: Type{Kind: Text, Column: column.Bytes}},
		physical: format.ByteArray, ordered: true}
	with := func(s statistics, nulls int64) statistics {
		count.V = nulls
		s.NullCount = count
		return s
	}
	for i, c := range []struct {
		l     leaf
		s     statistics
		order bool
		want  string
	}{
		{signed, newer, true, "[1 2] false"},
		{signed, newer, false, "[<nil> <nil>] false"},
		{signed, older, false, "[1 2] false"},
		{signed, older, true, "[<nil> <nil>] false"},
		{unordered, older, false, "[<nil> <nil>] false"},
		{unsigned, newer, true, "[1 2] false"},
		{unsigned, older, false, "[<nil> <nil>] false"},
		{texts, statistics{Min: one, Max: two}, false, "[ <nil>] false"},
		{optional, newer, true, "[1 2] true"},
		{optional, with(newer, 0), true, "[1 2] false"},
		{optional, with(newer, 3), true, "[1 2] true"},
		{optional, with(newer, 9), true, "[] true"},
		{signed, with(newer, 9), true, "[1 2] false"}, // has no nulls
	} {
		var a asked
		stats := chunkStats{}
		stats.MetaData.Statistics = c.s
		stats.mayContain(&a, 0, &c.l, 9, c.order)
		if got := a.bounds[0] + " " + a.nulls[0]; got != c.want {
			t.Errorf("case %d: %s, want %s", i, got, c.want)
		}
	}
}

// For some types, files order values as columns do.
func TestOrder(t *testing.T) {
	element := func(p format.Type, v format.LogicalTypeValue, width int32) *format.SchemaElement {
		e := &format.SchemaElement{}
		e.Type.Set(p)
		e.LogicalType.Value = v
		e.TypeLength.Set(width)
		return e
	}
	fixed := format.FixedLenByteArray
	interval := element(fixed, nil, 12)
	interval.ConvertedType.Set(21)
	uint32s, uint64of32 := element(format.Int32, nil, 0), element(format.Int32, nil, 0)
	uint32s.ConvertedType.Set(13)
	uint64of32.ConvertedType.Set(14)
	for i, c := range []struct {
		e    *format.SchemaElement
		want bool
	}{
		{element(format.Int32, nil, 0), true}, {element(format.Int96, nil, 0), false},
		{element(format.Double, nil, 0), true}, {element(format.ByteArray, nil, 0), true},
		{element(format.ByteArray, &format.GeometryType{}, 0), false},
		{element(format.ByteArray, &format.StringType{}, 0), true},
		{element(fixed, nil, 12), true}, {interval, false}, {element(fixed, &format.UUIDType{},
			16), true},
		{element(fixed, &format.Float16Type{}, 2), true}, {element(fixed, &format.Float16Type{},
			3), false},
		{element(format.Int32, &format.IntType{BitWidth: 32}, 0), true}, {uint32s, true},
		{element(format.Int64, &format.IntType{BitWidth: 32}, 0), false}, {uint64of32, false},
		{element(format.Int64, &format.TimestampType{}, 0), true},
	} {
		var l leaf
		if err := l.describe(c.e); err != nil || l.ordered != c.want {
			t.Errorf("case %d, %v: %v, %v", i, l.Type, l.ordered, err)
		}
	}
}

// Bounds without a stated order are unknown, and so are bounds of types that have no order.
func TestNoOrder(t *testing.T) {
	for _, c := range []struct {
		spoil   func(*Writer)
		ordered bool
		want    bool
	}{
		{nil, true, true}, {nil, false, false},
		{func(w *Writer) { w.meta.ColumnOrders = nil }, true, false},
		{func(w *Writer) { w.meta.ColumnOrders = w.meta.ColumnOrders[:1] }, true, false},
		{func(w *Writer) { w.meta.ColumnOrders[1].Value = nil }, true, false},
	} {
		f, _ := open(t, pagedFile(t, c.spoil), 1<<40)
		f.leaves[1].ordered = c.ordered
		if stats, got := f.chunkStats(1, &f.leaves[1]); stats == nil || got != c.want {
			t.Errorf("ordered %v: %v, %v", c.ordered, stats, got)
		}
	}
}
