package batch_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
)

// example is a batch of n operations with all columns, in host memory.
func example(n int) (*batch.Batch, batch.Widths) {
	keys, vals := make([]uint64, n), make([]uint32, n)
	kinds, out, ok, counts := make([]weft.OpKind, n), make([]uint32, n), make([]bool, n), make([]uint32, n)
	for i := range n {
		keys[i], vals[i], kinds[i], out[i], ok[i], counts[i] = uint64(i), uint32(10*i), weft.OpKind(i%4), uint32(100*i), i%2 == 1, uint32(1000*i)
	}
	return &batch.Batch{
		N: n, Kind: weft.OpPut, Flags: batch.Order, Load: .5,
		Keys: batch.Host(keys), Vals: batch.Host(vals), Kinds: batch.Host(kinds), Out: batch.Host(out), OK: batch.Host(ok), Counts: batch.Host(counts),
	}, batch.MapWidths[uint64, uint32]()
}

func TestWidths(t *testing.T) {
	for got, want := range map[batch.Widths]batch.Widths{
		batch.MapWidths[uint32, float32](): {Key: 4, Val: 4, Slot: 8},
		batch.MapWidths[int32, float64]():  {Key: 4, Val: 8, Slot: 16},
		batch.MapWidths[uint64, int32]():   {Key: 8, Val: 4, Slot: 16},
		batch.MapWidths[int64, uint64]():   {Key: 8, Val: 8, Slot: 16},
		batch.SetWidths[int32]():           {Key: 4, Slot: 4},
		batch.SetWidths[uint64]():          {Key: 8, Slot: 8},
	} {
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestSub(t *testing.T) {
	b, w := example(10)
	part := b.Sub(3, 7, w)
	if part.N != 4 || part.Kind != b.Kind || part.Flags != b.Flags || part.Load != b.Load {
		t.Errorf("%+v", part)
	}
	if keys := batch.View[uint64](part.Keys.Host); !slices.Equal(keys, []uint64{3, 4, 5, 6}) {
		t.Error(keys)
	}
	batch.View[uint32](part.Out.Host)[0] = 7 // shared
	if out := batch.View[uint32](b.Out.Host); out[3] != 7 {
		t.Error(out)
	}
	// What is not there stays so, and an address moves by the width.
	on := (&batch.Batch{N: 10, Keys: batch.Column{Ptr: 1000}}).Sub(3, 7, w)
	if on.Keys.Ptr != 1024 || on.Vals.There() || on.OK.There() {
		t.Errorf("%+v", on)
	}
}

func TestWhatABatchNeeds(t *testing.T) {
	kinds := batch.Host([]weft.OpKind{weft.OpGet})
	for _, c := range []struct {
		b                batch.Batch
		inserts, ordered bool
	}{
		{batch.Batch{Kind: weft.OpGet, Flags: batch.Order}, false, true},
		{batch.Batch{Kind: weft.OpPut}, true, false},
		{batch.Batch{Kind: weft.OpPutNew, Flags: batch.Order | batch.Reuse}, true, true},
		{batch.Batch{Kind: weft.OpDelete}, false, false},
		{batch.Batch{Kinds: kinds, Flags: batch.Order}, true, false},
	} {
		if c.b.Inserts() != c.inserts || c.b.Ordered() != c.ordered {
			t.Errorf("%+v: inserts %v, ordered %v", c.b, c.b.Inserts(), c.b.Ordered())
		}
	}
}

// What is gathered and scattered ends up where it was; the rest is untouched.
func TestGatherAndScatter(t *testing.T) {
	b, w := example(10)
	at := []uint32{1, 4, 9}
	g := b.Gather(at, w)
	if g.N != 3 || g.Kind != b.Kind || g.Flags != b.Flags ||
		!slices.Equal(batch.View[uint64](g.Keys.Host), []uint64{1, 4, 9}) ||
		!slices.Equal(batch.View[uint32](g.Vals.Host), []uint32{10, 40, 90}) ||
		!slices.Equal(batch.View[weft.OpKind](g.Kinds.Host), []weft.OpKind{1, 0, 1}) ||
		!slices.Equal(batch.View[uint32](g.Out.Host), []uint32{100, 400, 900}) ||
		!slices.Equal(batch.View[bool](g.OK.Host), []bool{true, false, true}) ||
		!slices.Equal(batch.View[uint32](g.Counts.Host), []uint32{1000, 4000, 9000}) {
		t.Errorf("%+v", g)
	}
	for i := range at {
		batch.View[uint32](g.Out.Host)[i]++
		batch.View[uint32](g.Counts.Host)[i]--
		batch.View[bool](g.OK.Host)[i] = i == 1
	}
	clear(g.Keys.Host) // no output
	want, _ := example(10)
	for i, to := range at {
		batch.View[uint32](want.Out.Host)[to]++
		batch.View[uint32](want.Counts.Host)[to]--
		batch.View[bool](want.OK.Host)[to] = i == 1
	}
	b.Scatter(g, at, w)
	if !reflect.DeepEqual(b, want) {
		t.Errorf("%+v, want %+v", b, want)
	}
	// Columns that are not there.
	bare := &batch.Batch{N: 10, Keys: b.Keys}
	if g := bare.Gather(at, w); g.OK.There() || g.Vals.There() {
		t.Errorf("%+v", g)
	}
	bare.Scatter(g, at, w)
}

// A batch on a device comes to the host whole, and its outputs go back.
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
		b := &batch.Batch{N: 3, Kind: weft.OpPut, Keys: batch.On(keys), OK: batch.On(ok)}
		host, err := b.Fetch(t.Context(), s, batch.MapWidths[uint64, uint32]())
		if err != nil || host.N != 3 || host.Kind != weft.OpPut || host.Vals.There() ||
			!slices.Equal(batch.View[uint64](host.Keys.Host), []uint64{1, 2, 3}) ||
			!slices.Equal(batch.View[bool](host.OK.Host), []bool{true, false, false}) {
			t.Fatalf("%s: %+v, %v", where, host, err)
		}
		batch.View[bool](host.OK.Host)[2] = true
		if err := b.Store(s, host); err != nil {
			t.Fatal(err)
		}
		got := make([]bool, 3)
		if err := ok.CopyTo(t.Context(), s, got); err != nil || !slices.Equal(got, []bool{true, false, true}) {
			t.Errorf("%s: %v, %v", where, got, err)
		}
	}
}

func TestLies(t *testing.T) {
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
		{"all here", streams[0], batch.Batch{N: 4, Keys: batch.On(keys[0])}, true},
		{"no columns", streams[0], batch.Batch{}, true},
		{"no stream", nil, batch.Batch{}, false},
		{"another stream", streams[1], batch.Batch{}, false},
		{"keys elsewhere", streams[0], batch.Batch{N: 4, Keys: batch.On(keys[1])}, false},
		{"an output elsewhere", streams[0], batch.Batch{N: 4, Keys: batch.On(keys[0]), Out: batch.On(keys[1])}, false},
	} {
		if err := c.b.Lies(here, c.s); c.ok != (err == nil) || !c.ok && !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestMustMatch(t *testing.T) {
	batch.MustMatch("room", "Put", "vals", 3, 3)
	batch.MustMatchOptional("room", "Get", "found", 3, []bool(nil))
	batch.MustMatchOptional("room", "Get", "found", 3, make([]bool, 3))
	batch.MustMatchSlice("room", "GetOn", "found", 3, device.Slice[bool]{})
	defer func() {
		if r := fmt.Sprint(recover()); r != "room: Get: 3 keys, but len(found) = 2" {
			t.Error(r)
		}
	}()
	batch.MustMatchOptional("room", "Get", "found", 3, make([]bool, 2))
}

func TestView(t *testing.T) {
	if v := batch.View[uint16]([]byte{1, 0, 2, 0}); !slices.Equal(v, []uint16{1, 2}) {
		t.Error(v)
	}
	if batch.View[uint16](nil) != nil || batch.View[struct{}]([]byte{1}) != nil {
		t.Error("something of nothing")
	}
}

func TestCheckKinds(t *testing.T) {
	ops := []weft.Op[uint32, uint32]{{Kind: weft.OpPut}, {Kind: weft.OpDelete}, {Kind: weft.OpDeleteAll}}
	if err := batch.CheckKinds(ops, weft.OpDeleteAll); err != nil {
		t.Error(err)
	}
	err := batch.CheckKinds(ops, weft.OpDelete)
	if !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "operation 2") || !strings.Contains(err.Error(), "DeleteAll") {
		t.Error(err)
	}
}

// double answers every operation with twice its value, and OK for odd keys.
func double(b *batch.Batch) {
	keys, vals := batch.View[uint64](b.Keys.Host), batch.View[uint32](b.Vals.Host)
	out, ok := batch.View[uint32](b.Out.Host), batch.View[bool](b.OK.Host)
	for i := range out {
		out[i], ok[i] = 2*vals[i], keys[i]%2 == 1
	}
}

// A batch of several pieces, each of which finds no room for something, is run
// to its end; another error ends it, and what was not run has zeros.
func TestApply(t *testing.T) {
	ops := make([]weft.Op[uint64, uint32], batch.Piece+10)
	for i := range ops {
		ops[i] = weft.Op[uint64, uint32]{Kind: weft.OpPut, Key: uint64(i), Value: uint32(i)}
	}
	res := make([]weft.Result[uint32], len(ops))
	pieces := 0
	err := batch.Apply(ops, res, func(b *batch.Batch) error {
		pieces++
		double(b)
		return fmt.Errorf("piece %d: %w", pieces, weft.ErrFull)
	})
	if pieces != 2 || !errors.Is(err, weft.ErrFull) {
		t.Fatalf("%d pieces, %v", pieces, err)
	}
	for i, r := range res {
		if want := (weft.Result[uint32]{Value: uint32(2 * i), OK: i%2 == 1}); r != want {
			t.Fatalf("operation %d: %v, want %v", i, r, want)
		}
	}

	other := errors.New("other")
	pieces = 0
	clear(res)
	err = batch.Apply(ops, res, func(b *batch.Batch) error {
		pieces++
		return other
	})
	if pieces != 1 || !errors.Is(err, other) || res[1] != (weft.Result[uint32]{}) {
		t.Errorf("%d pieces, %v, %v", pieces, err, res[1])
	}
}

// Without results there are no output columns; an empty batch is run too, so
// that a closed structure says so.
func TestApplyWithoutResults(t *testing.T) {
	for _, n := range []int{0, 3} {
		runs := 0
		err := batch.Apply(make([]weft.Op[uint64, uint32], n), nil, func(b *batch.Batch) error {
			if runs++; b.N != n || b.Out.There() || b.OK.There() {
				t.Errorf("%+v", b)
			}
			return nil
		})
		if err != nil || runs != 1 {
			t.Errorf("%d operations: %d runs, %v", n, runs, err)
		}
	}
}

func TestInsertions(t *testing.T) {
	kinds := []weft.OpKind{weft.OpGet, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpDeleteAll, weft.OpPut}
	for _, test := range []struct {
		b    batch.Batch
		want int
	}{
		{batch.Batch{N: 5, Kind: weft.OpPut}, 5},
		{batch.Batch{N: 5, Kind: weft.OpDelete}, 0},
		{batch.Batch{N: len(kinds), Kinds: batch.Host(kinds)}, 3},
	} {
		if n, err := test.b.Insertions(t.Context(), nil); n != test.want || err != nil {
			t.Errorf("%+v: %d, %v", test.b, n, err)
		}
	}
}
