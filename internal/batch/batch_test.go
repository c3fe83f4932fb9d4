package batch_test

import (
	"errors"
	"fmt"
	"github.com/weftgo/weft/internal/op"
	"reflect"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
)

// example returns a batch of n operations with all columns, in host memory.
func example(n int) *batch.Batch {
	keys, vals := make([]uint64, n), make([]uint32, n)
	kinds, out, ok, counts := make([]weft.OpKind, n), make([]uint32, n), make([]bool, n), make([]uint32, n)
	for i := range n {
		keys[i], vals[i], kinds[i], out[i], ok[i], counts[i] = uint64(i), uint32(10*i), weft.OpKind(i%4), uint32(100*i), i%2 == 1, uint32(1000*i)
	}
	return &batch.Batch{
		N: n, Kind: op.Put, Flags: batch.Order, Version: 3,
		Columns: batch.Columns{
			batch.Keys: batch.Input(keys), batch.Keys2: batch.Input(keys), batch.Vals: batch.Input(vals), batch.Kinds: batch.Input(kinds),
			batch.Out: batch.Output(out), batch.OK: batch.Optional(ok), batch.Counts: batch.Output(counts),
		},
	}
}

func rows[T any](b *batch.Batch, r batch.Role) []T { return batch.View[T](b.Columns[r].Host) }

func TestWidths(t *testing.T) {
	for got, want := range map[batch.Widths]batch.Widths{
		batch.MapWidths[uint32, float32](): {Key: 4, Val: 4, Slot: 8},
		batch.MapWidths[int32, float64]():  {Key: 4, Val: 8, Slot: 16},
		batch.MapWidths[uint64, int32]():   {Key: 8, Val: 4, Slot: 16},
		batch.MapWidths[int64, uint64]():   {Key: 8, Val: 8, Slot: 16},
		batch.SetWidths[int32]():           {Key: 4, Slot: 4},
		batch.SetWidths[uint64]():          {Key: 8, Slot: 8},
		batch.MapWidths[int, uint]():       {Key: 8, Val: 8, Slot: 16},
		batch.SetWidths[uint]():            {Key: 8, Slot: 8},
	} {
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestChunk(t *testing.T) {
	b := example(10)
	part := b.Chunk(3, 7)
	if part.N != 4 || part.Kind != b.Kind || part.Flags != b.Flags || part.Version != b.Version || part.Columns[batch.Keys].Rows() != 4 {
		t.Errorf("%+v", part)
	}
	for _, r := range []batch.Role{batch.Keys, batch.Keys2} {
		if keys := rows[uint64](part, r); !slices.Equal(keys, []uint64{3, 4, 5, 6}) {
			t.Error(r, keys)
		}
	}
	rows[uint32](part, batch.Out)[0] = 7 // the memory is shared
	if out := rows[uint32](b, batch.Out); out[3] != 7 {
		t.Error(out)
	}
	// Absent columns must stay absent, and an address must move by lo rows.
	on := (&batch.Batch{N: 10, Columns: batch.Columns{batch.Keys: {Ptr: 1000, Width: 8}}}).Chunk(3, 7)
	if on.Columns[batch.Keys].Ptr != 1024 || on.Columns[batch.Vals].Given() || on.Columns[batch.OK].Given() {
		t.Errorf("%+v", on)
	}
}

// A chunk of a column with rows of variable size must hold exactly the rows of the chunk.
func TestChunkOfVariableRows(t *testing.T) {
	vals := []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8}
	c := batch.Output(vals)
	c.Offsets = []uint64{100, 102, 102, 105, 109} // the rows before these take 100 elements
	b := &batch.Batch{N: 4, Columns: batch.Columns{batch.Vals: c}}
	for _, want := range []struct {
		lo, hi int
		vals   []uint32
	}{{0, 4, vals}, {1, 2, nil}, {0, 1, vals[:2]}, {2, 4, vals[2:]}, {3, 4, vals[5:]}, {4, 4, nil}} {
		part := b.Chunk(want.lo, want.hi)
		if got := rows[uint32](part, batch.Vals); !slices.Equal(got, want.vals) {
			t.Errorf("rows [%d,%d) are %v, want %v", want.lo, want.hi, got, want.vals)
		}
		if size := b.Columns[batch.Vals].Bytes(want.lo, want.hi); size != 4*len(want.vals) {
			t.Errorf("rows [%d,%d) take %d bytes", want.lo, want.hi, size)
		}
		// A chunk of a chunk.
		if want.lo == 2 && !slices.Equal(rows[uint32](part.Chunk(1, 2), batch.Vals), vals[5:]) {
			t.Error("a chunk of a chunk has other rows")
		}
	}
	// ClearFrom must not change such a column, because its rows belong to the caller.
	b.ClearFrom(0)
	if vals[8] != 8 {
		t.Error(vals)
	}
}

// A chunk of a column of offsets must have one more row than the chunk has operations.
func TestChunkOfOffsets(t *testing.T) {
	dev, _, err := auto.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	on, err := device.Make[uint64](dev, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer on.Free()
	b := &batch.Batch{N: 4, Columns: batch.Columns{batch.Offsets: batch.OffsetsOn(on)}}
	part := b.Chunk(1, 3)
	c := part.Columns[batch.Offsets]
	if len(rows[uint64](part, batch.Offsets)) != 3 || c.Ptr != on.Ptr()+8 || c.Rows() != 3 || c.Bytes(0, part.N) != 24 {
		t.Errorf("%+v", c)
	}
	part.MustMatch("package", "Chunk")
}

// ClearFrom must zero the outputs of operations that did not run, and nothing else.
func TestClearFrom(t *testing.T) {
	for _, lo := range []int{0, 3, 10, 12} {
		b, want := example(10), example(10)
		b.ClearFrom(lo)
		for _, c := range want.Columns {
			if c.IsOutput() {
				clear(c.Host[min(lo*c.Width, len(c.Host)):])
			}
		}
		if !reflect.DeepEqual(b, want) {
			t.Errorf("from %d: %+v, want %+v", lo, b, want)
		}
	}
}

func TestDirections(t *testing.T) {
	for name, c := range map[string]struct {
		column batch.Column
		in, is bool
	}{
		"In":       {batch.Input([]uint32{1}), true, false},
		"Output":   {batch.Output([]uint32{1}), false, true},
		"Optional": {batch.Optional([]bool(nil)), false, true},
		"none":     {batch.Column{}, false, false},
	} {
		if c.column.IsInput() != c.in || c.column.IsOutput() != c.is {
			t.Errorf("%s: input %v, output %v", name, c.column.IsInput(), c.column.IsOutput())
		}
	}
	moved := batch.Input([]uint32{1, 2}).WithPtr(64)
	if moved.Host != nil || moved.Ptr != 64 || moved.Width != 4 || !moved.IsInput() {
		t.Errorf("%+v", moved)
	}
	if c := batch.Input(make([]byte, 24)).WithWidth(8); c.Width != 8 || c.Rows() != 3 {
		t.Errorf("%+v", c)
	}
}

func TestWhatABatchNeeds(t *testing.T) {
	kinds := batch.Columns{batch.Kinds: batch.Input([]weft.OpKind{weft.OpGet})}
	for _, c := range []struct {
		b                batch.Batch
		inserts, ordered bool
	}{
		{batch.Batch{Kind: op.Get, Flags: batch.Order}, false, true},
		{batch.Batch{Kind: op.Put}, true, false},
		{batch.Batch{Kind: op.PutNew, Flags: batch.Order | batch.Reuse}, true, true},
		{batch.Batch{Kind: op.Delete}, false, false},
		{batch.Batch{Columns: kinds, Flags: batch.Order}, true, false},
	} {
		if c.b.Inserts() != c.inserts || c.b.Ordered() != c.ordered {
			t.Errorf("%+v: inserts %v, ordered %v", c.b, c.b.Inserts(), c.b.Ordered())
		}
	}
}

// Gathered and scattered rows must return to their original rows; all others must stay unchanged.
func TestGatherAndScatter(t *testing.T) {
	b := example(10)
	at := []uint32{1, 4, 9}
	g := b.Gather(at)
	if g.N != 3 || g.Kind != b.Kind || g.Flags != b.Flags || g.Version != b.Version ||
		!slices.Equal(rows[uint64](g, batch.Keys), []uint64{1, 4, 9}) ||
		!slices.Equal(rows[uint64](g, batch.Keys2), []uint64{1, 4, 9}) ||
		!slices.Equal(rows[uint32](g, batch.Vals), []uint32{10, 40, 90}) ||
		!slices.Equal(rows[weft.OpKind](g, batch.Kinds), []weft.OpKind{1, 0, 1}) ||
		!slices.Equal(rows[uint32](g, batch.Out), []uint32{100, 400, 900}) ||
		!slices.Equal(rows[bool](g, batch.OK), []bool{true, false, true}) ||
		!slices.Equal(rows[uint32](g, batch.Counts), []uint32{1000, 4000, 9000}) {
		t.Errorf("%+v", g)
	}
	for i := range at {
		rows[uint32](g, batch.Out)[i]++
		rows[uint32](g, batch.Counts)[i]--
		rows[bool](g, batch.OK)[i] = i == 1
	}
	clear(g.Columns[batch.Keys].Host) // not an output
	want := example(10)
	for i, to := range at {
		rows[uint32](want, batch.Out)[to]++
		rows[uint32](want, batch.Counts)[to]--
		rows[bool](want, batch.OK)[to] = i == 1
	}
	b.Scatter(g, at)
	if !reflect.DeepEqual(b, want) {
		t.Errorf("%+v, want %+v", b, want)
	}
	// Absent columns.
	bare := &batch.Batch{N: 10, Columns: batch.Columns{batch.Keys: b.Columns[batch.Keys]}}
	if g := bare.Gather(at); g.Columns[batch.OK].Given() || g.Columns[batch.Vals].Given() {
		t.Errorf("%+v", g)
	}
	bare.Scatter(g, at)
}

func TestFetchAndStore(t *testing.T) {
	for _, where := range []string{"cpu", "sim"} {
		dev, _, err := auto.Open(where)
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		s, err := dev.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		keys, err := device.Upload(s, []uint64{1, 2, 3})
		if err != nil {
			t.Fatal(err)
		}
		defer keys.Free()
		ok, err := device.Upload(s, []bool{true, false, false})
		if err != nil {
			t.Fatal(err)
		}
		defer ok.Free()
		b := &batch.Batch{N: 3, Kind: op.Put, Columns: batch.Columns{batch.Keys: batch.InputOn(keys), batch.OK: batch.OutputOn(ok)}}
		host, err := b.Fetch(t.Context(), s)
		if err != nil || host.N != 3 || host.Kind != op.Put || host.Columns[batch.Vals].Given() ||
			!slices.Equal(rows[uint64](host, batch.Keys), []uint64{1, 2, 3}) ||
			!slices.Equal(rows[bool](host, batch.OK), []bool{true, false, false}) {
			t.Fatalf("%s: %+v, %v", where, host, err)
		}
		rows[bool](host, batch.OK)[2] = true
		if err := b.Store(s, host); err != nil {
			t.Fatal(err)
		}
		got := make([]bool, 3)
		if err := ok.CopyTo(t.Context(), s, got); err != nil || !slices.Equal(got, []bool{true, false, true}) {
			t.Errorf("%s: %v, %v", where, got, err)
		}
	}
}

func TestCheckPlace(t *testing.T) {
	here, there := devicetest.Open(t), devicetest.Open(t)
	var streams [2]*device.Stream
	var keys [2]device.Slice[uint32]
	for i, dev := range []device.Device{here, there} {
		var err error
		if streams[i], err = dev.NewStream(); err != nil {
			t.Fatal(err)
		}
		defer streams[i].Close()
		if keys[i], err = device.Make[uint32](dev, 4); err != nil {
			t.Fatal(err)
		}
		defer keys[i].Free()
	}
	for _, c := range []struct {
		name string
		s    *device.Stream
		b    batch.Batch
		ok   bool
	}{
		{"all here", streams[0], batch.Batch{N: 4, Columns: batch.Columns{batch.Keys: batch.InputOn(keys[0])}}, true},
		{"no columns", streams[0], batch.Batch{}, true},
		{"no stream", nil, batch.Batch{}, false},
		{"another stream", streams[1], batch.Batch{}, false},
		{"keys elsewhere", streams[0], batch.Batch{N: 4, Columns: batch.Columns{batch.Keys: batch.InputOn(keys[1])}}, false},
		{"an output elsewhere", streams[0], batch.Batch{N: 4, Columns: batch.Columns{batch.Keys: batch.InputOn(keys[0]), batch.Out: batch.OutputOn(keys[1])}}, false},
	} {
		if err := c.b.CheckDevice(here, c.s); c.ok != (err == nil) || !c.ok && !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestMustMatch(t *testing.T) {
	dev, _, err := auto.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	three, err := device.Make[uint64](dev, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer three.Free()
	keys := batch.Input(make([]uint32, 3))
	for _, c := range []struct {
		columns batch.Columns
		panics  string
	}{
		{batch.Columns{batch.Keys: keys}, ""},
		{batch.Columns{batch.Keys: keys, batch.OK: batch.Optional([]bool(nil))}, ""},
		{batch.Columns{batch.Keys: keys, batch.OK: batch.Optional(make([]bool, 3))}, ""},
		{batch.Columns{batch.Keys: keys, batch.OK: batch.OptionalOn(device.Slice[bool]{})}, ""},
		{batch.Columns{batch.Keys: keys, batch.Vals: batch.RowsOn(three.Sub(0, 2))}, ""},
		{batch.Columns{batch.Keys: keys, batch.OK: batch.Optional(make([]bool, 2))}, "3 keys, but 2 flags"},
		{batch.Columns{batch.Keys: keys, batch.OK: batch.Optional([]bool{})}, "3 keys, but 0 flags"},
		{batch.Columns{batch.Keys: keys, batch.Vals: batch.Output([]uint32(nil))}, "3 keys, but 0 values"},
		{batch.Columns{batch.Keys: keys, batch.Vals: batch.Input(make([]uint32, 4))}, "3 keys, but 4 values"},
		{batch.Columns{batch.Keys: keys, batch.Counts: batch.OutputOn(device.Slice[uint32]{})}, "3 keys, but 0 counts"},
		{batch.Columns{batch.Keys: keys, batch.Offsets: batch.OffsetsOn(three)}, "3 keys, but 3 offsets"},
	} {
		func() {
			defer func() {
				got := ""
				if r := recover(); r != nil {
					got = fmt.Sprint(r)
				}
				if want := c.panics; want == "" && got != "" || want != "" && got != "package: Get: "+want {
					t.Errorf("%q, want %q", got, want)
				}
			}()
			(&batch.Batch{N: 3, Columns: c.columns}).MustMatch("package", "Get")
		}()
	}
}

func TestView(t *testing.T) {
	if v := batch.View[uint16]([]byte{1, 0, 2, 0}); !slices.Equal(v, []uint16{1, 2}) {
		t.Error(v)
	}
	if batch.View[uint16](nil) != nil || batch.View[struct{}]([]byte{1}) != nil {
		t.Error("something of nothing")
	}
}

func TestInsertions(t *testing.T) {
	kinds := []weft.OpKind{weft.OpGet, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpDeleteAll, weft.OpPut}
	for _, test := range []struct {
		b    batch.Batch
		want int
	}{
		{batch.Batch{N: 5, Kind: op.Put}, 5},
		{batch.Batch{N: 5, Kind: op.Delete}, 0},
		{batch.Batch{N: len(kinds), Columns: batch.Columns{batch.Kinds: batch.Input(kinds)}}, 3},
	} {
		if n, err := test.b.CountInserts(t.Context(), nil); n != test.want || err != nil {
			t.Errorf("%+v: %d, %v", test.b, n, err)
		}
	}
}

// Chunks and gathered batches must keep the byte strings of their rows.
func TestStrings(t *testing.T) {
	text := []byte("onetwothree")
	spans := []batch.Span{batch.SpanOf(0, 3), batch.SpanOf(3, 3), batch.SpanOf(6, 5), 0}
	b := &batch.Batch{N: 4, Columns: batch.Columns{batch.Keys: batch.Strings(text, spans)}}
	b.MustMatch("package", "Get")
	row := func(b *batch.Batch, i int) string { return string(b.Columns[batch.Keys].Row(i)) }
	part, gathered := b.Chunk(1, 4), b.Gather([]uint32{2, 0})
	if row(b, 3) != "" || row(part, 0) != "two" || row(part, 1) != "three" || row(gathered, 0) != "three" || row(gathered, 1) != "one" {
		t.Errorf("%q, %q, %q, %q, %q", row(b, 3), row(part, 0), row(part, 1), row(gathered, 0), row(gathered, 1))
	}
	var data []byte
	out := batch.StringsTo(&data, make([]batch.Span, 3))
	copy(out.Extend(2, 4), "last")
	copy(out.Extend(0, 5), "first")
	if string(out.Row(0)) != "first" || len(out.Row(1)) != 0 || string(out.Row(2)) != "last" || string(data) != "lastfirst" {
		t.Errorf("%q, %q, %q of %q", out.Row(0), out.Row(1), out.Row(2), data)
	}
	if s := batch.SpanOf(3, 3).Shift(100); s != batch.SpanOf(103, 3) {
		t.Errorf("%#x", s)
	}
	if in := out.AsInput(); !in.IsInput() || in.IsOutput() || string(in.Row(2)) != "last" {
		t.Errorf("%+v", in)
	}
	if c := batch.Input([]byte("abcdef")).WithWidth(2); string(c.Row(1)) != "cd" {
		t.Errorf("%q", c.Row(1))
	}
}
