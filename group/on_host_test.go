package group

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// pinned returns copies of columns in page-locked memory, with bitmaps at any offset.
func pinned(t *testing.T, dev device.Device, columns []column.Column) (all []column.Column) {
	t.Helper()
	locked := func(b []byte) []byte {
		memory, err := dev.AllocHost(max(1, len(b)))
		must(t, err)
		t.Cleanup(func() { must(t, dev.FreeHost(memory)) })
		return memory[:copy(memory, b)]
	}
	for i, c := range columns {
		p, err := column.OfRaw(c.Type(), locked(c.Raw()))
		must(t, err)
		if c.HasNulls() {
			p = p.WithValid(shifted(c, 5+9*i, locked))
		}
		all = append(all, p)
	}
	return all
}

// shifted copies the bitmap of a column to memory that keep returns, from bit number offset on.
func shifted(c column.Column, offset int, keep func([]byte) []byte) column.Bitmap {
	bits := make([]byte, (c.Len()+offset)/8+1)
	for i := range c.Len() {
		if at := offset + i; !c.Null(i) {
			bits[at/8] |= 1 << (at % 8)
		}
	}
	return column.OfBits(keep(bits), offset, c.Len())
}

// hostRows returns host columns of n rows. One of nulls values is null, or none if nulls is 0.
func hostRows(rng *rand.Rand, n, nulls, limit int, types []column.Type) (columns []column.Column) {
	for i, typ := range types {
		c := drawn(rng, typ, n, limit, nulls)
		if nulls > 0 {
			c = c.WithValid(shifted(c, 3*i+1, func(b []byte) []byte { return b }))
		}
		columns = append(columns, c)
	}
	return columns
}

// hostCases lists types of keys and values that need different tables on a GPU.
var hostCases = []struct {
	keys, values []column.Type
	aggs         []Aggregate
}{
	{of(column.Int64), of(column.Int64, column.Int64), onDevice},
	{
		of(column.Float64), of(column.Int32, column.Bool),
		[]Aggregate{{Func: Sum}, {Func: Min, Column: 1}},
	},
	{of(column.Uint8, column.Float32), of(column.Int16, column.Uint8), onDevice},
	{of(column.Int64, column.Int8), of(column.Int64, column.Float32), onDevice},
	{
		of(column.Int32), of(column.Bool, column.Uint64, column.Int8),
		[]Aggregate{{Func: Mean, Column: 1}},
	},
	{of(column.Int16), nil, nil},
	{nil, of(column.Int64, column.Int8), onDevice},
}

// Host columns, page-locked or not, in pieces of all sizes, have the same aggregates as in Groups.
func TestOnAdd(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		for _, c := range hostCases {
			for _, nulls := range []int{0, 3} {
				for _, skip := range []bool{false, nulls > 0} {
					name := fmt.Sprintf("%v by %v, %d nulls, skipped %v", c.values, c.keys,
						nulls, skip)
					t.Run(name, func(t *testing.T) {
						tryAdd(t, dev, c.keys, c.values, c.aggs, nulls, skip)
					})
				}
			}
		}
	})
}

func tryAdd(
	t *testing.T, dev device.Device, keys, values []column.Type, aggs []Aggregate, nulls int, skip bool,
) {
	o := Options{WrapSums: true, SkipNulls: skip}
	g := small(t, dev, aggs, &o)
	defer g.Close()
	o.Sorted = true
	host, err := New(devicetest.OpenCPU(t, 1), aggs, &o)
	must(t, err)
	defer host.Close()
	rng := rand.New(rand.NewPCG(8, 9))
	s := devicetest.NewStream(t, dev)
	for i, n := range []int{0, 1, 700, 64, 333} {
		if on, ok := g.impl.(*gpuGroups); ok && i == 0 {
			on.piece = 700 // some 64 rows
		}
		k, v := hostRows(rng, n, nulls, 60, keys), hostRows(rng, n, nulls, 1000, values)
		must(t, host.Add(t.Context(), k, v))
		switch i % 3 {
		case 0:
			must(t, g.AddOn(s, upload(t, s, k), upload(t, s, v)))
		case 1:
			must(t, g.Add(t.Context(), pinned(t, dev, k), pinned(t, dev, v)))
		default:
			must(t, g.Add(t.Context(), k, v))
			for _, c := range append(k, v...) {
				clear(c.Raw()) // Add no longer needs it
			}
		}
	}
	got, err := g.Result(t.Context())
	must(t, err)
	want, err := host.Result(t.Context())
	must(t, err)
	if d := differ(linesOf(got), linesOf(want)); d != "" {
		t.Fatal(d)
	}
}

// Columns that a device does not take are errors. So are calls on closed groups.
func TestOnAddRefuses(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		g, err := NewOn(dev, []Aggregate{{Func: Sum}}, nil)
		must(t, err)
		one := []column.Column{column.Of([]int64{1})}
		text := column.OfStrings([]string{""})
		for _, c := range []struct {
			keys, values []column.Column
			err          error
			want         string
		}{
			{[]column.Column{text}, one, device.ErrUnsupported, "key column 0 has byte strings"},
			{one, []column.Column{one[0], text}, device.ErrUnsupported,
				"value column 1 has byte strings"},
			{one, nil, weft.ErrOptions, "the sum of value column 0, but there are 0"},
			{[]column.Column{{}}, nil, weft.ErrOptions, "no type"},
		} {
			err := g.Add(t.Context(), c.keys, c.values)
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		}
		must(t, g.Add(t.Context(), one, one))
		ended, end := context.WithCancel(t.Context())
		end()
		if err := g.Add(ended, one, one); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		if r, err := g.Result(t.Context()); err != nil || r.Len() != 1 ||
			r.Values[0].Any(0) != int64(1) {
			t.Errorf("after a batch that was not begun: %v, %v", r, err)
		}
		must(t, g.Close())
		if err := g.Add(t.Context(), one, one); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("Add after Close: %v", err)
		}
	})
}

// openByOn returns a call of ByOn with little memory and small pieces.
func openByOn(
	keys, values []column.Column, aggs []Aggregate, o Options, memory int64, piece int,
) *byOnCall {
	return &byOnCall{
		keys: keys, values: values, aggs: aggs, opts: o, memory: memory, piece: piece,
		sizes: smallSizes, base: 1 << 15,
	}
}

// All partitions together have the same groups as one table, under any bound of memory.
func TestByOn(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	rng := rand.New(rand.NewPCG(3, 4))
	for i, c := range hostCases {
		for _, nulls := range []int{0, 5}[:1+(i+1)%2] {
			k, v := hostRows(rng, 600, nulls, 128, c.keys), hostRows(rng, 600, nulls, 1000,
				c.values)
			if i%2 == 0 {
				k, v = pinned(t, dev, k), pinned(t, dev, v)
			}
			o := Options{WrapSums: true, SkipNulls: i%3 == 2}
			all := o
			all.Sorted = true
			want, err := By(t.Context(), devicetest.OpenCPU(t, 1), k, v, c.aggs, &all)
			must(t, err)
			tryByOn(t, dev, k, v, c.aggs, o, want)
		}
	}
}

// tryByOn raises the memory from too little to enough for one pass.
func tryByOn(
	t *testing.T, dev device.Device, k, v []column.Column, aggs []Aggregate, o Options, want *Result,
) {
	t.Helper()
	before, limit, memory := devicetest.Live(dev), 0, int64(1<<15)
	for ; ; memory += memory * int64(1+len(k)) / 4 {
		j := openByOn(k, v, aggs, o, memory, 6000)
		r, err := j.run(t.Context(), dev)
		if after := devicetest.Live(dev); after != before {
			t.Fatalf("%d bytes: %+v are left of %+v", memory, after, before)
		}
		if err != nil {
			if !errors.Is(err, device.ErrMemory) || memory > 1<<22 {
				t.Fatalf("%d bytes: %v", memory, err)
			}
			continue
		}
		if d := differ(linesOf(r), linesOf(want)); d != "" {
			t.Fatalf("%d bytes, %d passes: %s", memory, j.passes, d)
		}
		if limit = max(limit, j.passes); j.passes == 1 {
			break
		}
	}
	t.Logf("%d groups by %d keys: %d passes at most, %d bytes for one", want.Len(), len(k), limit,
		memory)
}

// If Options.Capacity shows that groups exceed memory, no pass is wasted. Otherwise only one is.
func TestByOnCapacity(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	keys := make([]int64, 1200)
	for i := range keys {
		keys[i] = int64(i)
	}
	k := []column.Column{column.Of(keys)}
	for capacity, copied := range map[int]int{0: 3 * len(keys), len(keys): 2 * len(keys)} {
		j := openByOn(k, k, []Aggregate{{Func: Sum}}, Options{Capacity: capacity}, 130_000, 3000)
		r, err := j.run(t.Context(), dev)
		must(t, err)
		if r.Len() != len(keys) || r.Keys[0].Any(77) != int64(77) ||
			r.Values[0].Any(77) != int64(77) {
			t.Errorf("%d groups", r.Len())
		}
		if j.copied > copied || j.passes < 2 {
			t.Errorf("capacity %d: %d rows in %d passes", capacity, j.copied, j.passes)
		}
		t.Logf("capacity %d: %d rows in %d passes", capacity, j.copied, j.passes)
	}
}

// If groups exceed device memory, the error names the largest user of the memory.
func TestOnAddFull(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, &sim.Options{Memory: 1 << 18})
	g := small(t, dev, []Aggregate{{Func: Sum}}, nil)
	defer g.Close()
	g.impl.(*gpuGroups).piece = 1 << 12
	keys := make([]int64, 5000)
	for i := range keys {
		keys[i] = int64(i)
	}
	k := []column.Column{column.Of(keys)}
	err := g.Add(t.Context(), k, k)
	if !errors.Is(err, device.ErrMemory) ||
		!strings.Contains(err.Error(), "which ByOn takes in partitions") {
		t.Errorf("5000 groups: %v", err)
	}
	if _, again := g.Result(t.Context()); !errors.Is(again, device.ErrMemory) {
		t.Errorf("a result after that: %v", again)
	}
}

// If any operation fails, Add stops, and all later calls return its error.
func TestOnAddFails(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	rng := rand.New(rand.NewPCG(5, 4))
	k, v := hostRows(rng, 300, 4, 128, of(column.Int64)), hostRows(rng, 300, 4, 99,
		of(column.Int32))
	locked := pinned(t, dev, k)
	devicetest.FailEach(t, dev, "Add", func() (err error) {
		g, err := NewOn(dev, []Aggregate{{Func: Sum}, {Func: Last}}, nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, g.Close()) }()
		on := g.impl.(*gpuGroups)
		on.sizes, on.piece = smallSizes, 2000
		if err := g.Add(t.Context(), locked, v); err != nil {
			if _, again := g.Result(t.Context()); again != nil &&
				!errors.Is(again, device.ErrMemory) {
				t.Errorf("a result after a batch that failed: %v", again)
			}
			return err
		}
		return nil
	})
}

// If any operation fails, ByOn stops, unless it can do without that allocation.
func TestByOnFails(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	rng := rand.New(rand.NewPCG(5, 4))
	k, v := hostRows(rng, 400, 0, 128, of(column.Int64)), hostRows(rng, 400, 4, 99,
		of(column.Int32))
	aggs := []Aggregate{{Func: Sum}, {Func: Last}}
	want, err := By(t.Context(), devicetest.OpenCPU(t, 1), k, v, aggs, &Options{Sorted: true})
	must(t, err)
	k = pinned(t, dev, k)
	before := devicetest.Live(dev)
	for n := 0; ; n += 1 + n/30 { // test more of the first operations, which occur in all passes
		fired := devicetest.FailAfter(dev, n)
		j := openByOn(k, v, aggs, Options{Capacity: 100}, 80_000, 3000)
		r, err := j.run(t.Context(), dev)
		devicetest.ClearFailures(dev)
		if live := devicetest.Live(dev); live != before {
			t.Fatalf("operation %d failed: %+v are left of %+v", n, live, before)
		}
		switch {
		case err != nil && (!fired() || !errors.Is(err, device.ErrMemory)):
			t.Fatalf("operation %d failed: %v", n, err)
		case err == nil:
			if d := differ(linesOf(r), linesOf(want)); d != "" {
				t.Fatalf("operation %d failed: %s", n, d)
			}
		}
		if !fired() {
			if j.passes < 2 || n < 200 {
				t.Errorf("%d operations, %d passes", n, j.passes)
			}
			break
		}
	}
}

// If the context ends at any point, ByOn stops and leaves no memory in use.
func TestByOnEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	rng := rand.New(rand.NewPCG(5, 4))
	k, v := hostRows(rng, 400, 0, 128, of(column.Int64)), hostRows(rng, 400, 4, 99,
		of(column.Int32))
	k = pinned(t, dev, k)
	before := devicetest.Live(dev)
	for looks := 0; ; looks += 1 + looks/4 {
		j := openByOn(k, v, []Aggregate{{Func: Sum}}, Options{}, 80_000, 3000)
		_, err := j.run(&cancelAfter{t.Context(), looks}, dev)
		if live := devicetest.Live(dev); live != before {
			t.Fatalf("a context that ends after %d looks: %+v are left of %+v", looks, live, before)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("a context that ends after %d looks: %v", looks, err)
		}
	}
}

// Invalid options are errors, and so are columns that a device does not take.
func TestByOnRefuses(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		one := []column.Column{column.Of([]int64{1})}
		for _, c := range []struct {
			keys []column.Column
			aggs []Aggregate
			o    Options
			want string
		}{
			{one, nil, Options{Memory: 1}, "Options.Memory is 1"},
			{one, []Aggregate{{Func: 99}}, Options{}, "aggregate 0"},
			{one, []Aggregate{{Func: Sum}}, Options{}, "value column 0, but there are 0"},
			{[]column.Column{{}}, nil, Options{}, "key column 0 has no type"},
		} {
			_, err := ByOn(t.Context(), dev, c.keys, nil, c.aggs, &c.o)
			if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		}
		for _, o := range []*Options{nil, {Memory: MinMemoryOn}} {
			r, err := ByOn(t.Context(), dev, one, one, []Aggregate{{Func: Sum}}, o)
			if err != nil || r.Len() != 1 || r.Values[0].Any(0) != int64(1) {
				t.Errorf("one row: %v, %v", r, err)
			}
		}
	})
}

func TestEstimate(t *testing.T) {
	for _, c := range []struct {
		used, rows, n int
		inProportion  bool
		want          float64
	}{
		{632121, 1000000, 10000000, false, 999954},
		{100, 100, 1000, false, 1000},
		{100, 1000, 100000, false, 100},
		{100, 1000, 100000, true, 10000},
	} {
		if got := estimate(c.used, c.rows, c.n,
			c.inProportion); math.Abs(got-c.want) > .001*c.want {
			t.Errorf("%+v: %f", c, got)
		}
	}
}
