package group

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// For all types, nulls, batches, streams and options, groups on a device equal those on the host.
func TestOnLikeHost(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		cores := []device.Device{devicetest.OpenCPU(t, 1), devicetest.OpenCPU(t, 2)}
		rapid.Check(t, func(r *rapid.T) { compareToHost(t, r, dev, cores) })
	})
}

// FuzzGroupsOn runs TestOnLikeHost as a fuzz target, on the simulator.
func FuzzGroupsOn(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, input []byte) {
		dev := devicetest.OpenSim(t, nil)
		cores := []device.Device{devicetest.OpenCPU(t, 1), devicetest.OpenCPU(t, 2)}
		rapid.MakeFuzz(func(r *rapid.T) { compareToHost(t, r, dev, cores) })(t, input)
	})
}

// fixedTypes lists the types of columns on a device.
var fixedTypes = []column.Type{
	column.Int64, column.Int32, column.Int16, column.Int8, column.Uint64, column.Uint32, column.Uint16, column.Uint8, column.Float64,
	column.Float32, column.Bool,
}

// tablePair holds groups on a device, and the same groups on the host.
type tablePair struct {
	t            *testing.T
	r            *rapid.T
	dev          device.Device
	on           *GroupsOn
	host         *Groups
	keys, values []column.Type
	streams      [2]*device.Stream
}

func compareToHost(t *testing.T, r *rapid.T, dev device.Device, cores []device.Device) {
	x := &tablePair{t: t, r: r, dev: dev}
	few, many := rapid.SliceOfN(rapid.SampledFrom(fixedTypes), 0, 4), rapid.SliceOfN(rapid.SampledFrom(fixedTypes), 5, 20)
	x.keys, x.values = rapid.OneOf(few, few, many).Draw(r, "keys"), few.Draw(r, "values")
	aggs, o := drawnAggregates(r, x.values), Options{
		SkipNulls: rapid.Bool().Draw(r, "skip nulls"), WrapSums: rapid.Bool().Draw(r, "wrap sums"),
		Capacity: rapid.SampledFrom([]int{0, 0, 1, 100}).Draw(r, "capacity"),
	}
	before := devicetest.Live(dev)
	var err error
	x.on, o.Sorted = small(r, dev, aggs, &o), true
	x.host, err = New(rapid.SampledFrom(cores).Draw(r, "cores"), aggs, &o)
	must(r, err)
	defer x.host.Close()
	for i := range x.streams {
		x.streams[i], err = dev.NewStream()
		must(r, err)
	}
	for range rapid.IntRange(1, 8).Draw(r, "steps") {
		steps := []func(*rapid.T){x.add, x.add, x.add, x.compare, x.addBatches, x.ended}
		steps[rapid.IntRange(0, len(steps)-1).Draw(r, "step")](r)
	}
	x.compare(r)
	must(r, errors.Join(x.on.Close(), x.streams[0].Close(), x.streams[1].Close()))
	if after := devicetest.Live(dev); after != before {
		r.Fatalf("%+v is left of %+v", after, before)
	}
}

// drawnAggregates draws aggregates that the types of values allow.
func drawnAggregates(r *rapid.T, values []column.Type) (aggs []Aggregate) {
	all := []Aggregate{{Func: Rows}}
	for i, t := range values {
		for f := Count; f < Var; f++ { // those that GPUs have
			if allows(f, t) {
				all = append(all, Aggregate{Func: f, Column: i})
			}
		}
	}
	return rapid.SliceOfN(rapid.SampledFrom(all), 0, 6).Draw(r, "aggregates")
}

// add adds a batch on one of the streams, with columns and bitmaps at random offsets.
func (x *tablePair) add(r *rapid.T) {
	n := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 40), rapid.IntRange(0, 1500)).Draw(r, "rows")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
	domain := rapid.SampledFrom([]int{1, 2, 5, 30, 1000}).Draw(r, "domain")
	s := x.streams[rapid.IntRange(0, 1).Draw(r, "stream")]
	var made []column.On
	columns := func(types []column.Type) (there []column.On, here []column.Column) {
		for _, t := range types {
			lo := rapid.IntRange(0, 9).Draw(r, "first")
			c := drawn(rng, t, lo+n, domain, rapid.SampledFrom([]int{0, 0, 1, 2, 20}).Draw(r, "nulls"))
			if domain > 2 && rng.IntN(4) == 0 {
				insertEdgeFloats(rng, c)
			}
			on, err := column.Upload(s, c)
			must(r, err)
			made = append(made, on)
			there, here = append(there, on.Slice(lo, lo+n)), append(here, c.Slice(lo, lo+n))
		}
		return there, here
	}
	keys, k := columns(x.keys)
	values, v := columns(x.values)
	must(r, x.host.Add(context.Background(), k, v))
	must(r, x.on.AddOn(s, keys, values))
	if rapid.Bool().Draw(r, "and another") && n > 0 { // again, on another stream
		must(r, s.Sync(context.Background()))
		must(r, x.on.AddOn(x.streams[0], keys, values))
		must(r, x.host.Add(context.Background(), k, v))
		s = x.streams[0]
	}
	must(r, s.Sync(context.Background()))
	for _, c := range made {
		must(r, c.Free())
	}
}

// insertEdgeFloats puts the largest and the smallest values into a column.
func insertEdgeFloats(rng *rand.Rand, c column.Column) {
	raw, size := c.Raw(), c.Type().Size()
	if c.Type() == column.Bool || c.Type().Float() {
		return // sums of these values depend on the order
	}
	for i := range c.Len() {
		word := [...]uint64{math.MaxInt64, 1 << 63, math.MaxUint64, 0}[rng.IntN(4)]
		if rng.IntN(3) == 0 {
			for j := range size {
				raw[i*size+j] = byte(word >> (8 * (j + 8 - size)))
			}
		}
	}
}

// addBatches tries to add a batch with one key column too many.
func (x *tablePair) addBatches(r *rapid.T) {
	if x.on.l == nil {
		return
	}
	more := make([]column.On, len(x.keys)+1)
	if err := x.on.AddOn(x.streams[0], more, make([]column.On, len(x.values))); !errors.Is(err, weft.ErrOptions) {
		r.Fatalf("a column too many: %v", err)
	}
}

// ended requests a result with a context that has ended.
func (x *tablePair) ended(r *rapid.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := x.on.Result(ctx)
	_, errOn := x.on.ResultOn(ctx)
	if x.on.l != nil && x.host.Len() > 0 && (!errors.Is(err, context.Canceled) || !errors.Is(errOn, context.Canceled)) {
		r.Fatalf("a context that has ended: %v, %v", err, errOn)
	}
}

func (x *tablePair) compare(r *rapid.T) {
	got, err := x.on.Result(context.Background())
	want, wantErr := x.host.Result(context.Background())
	on, onErr := x.on.ResultOn(context.Background())
	if wantErr != nil {
		if !errors.Is(err, ErrOverflow) || !errors.Is(onErr, ErrOverflow) || !errors.Is(wantErr, ErrOverflow) {
			r.Fatalf("%v on the device, %v there, %v on the host", err, onErr, wantErr)
		}
		return
	}
	must(r, errors.Join(err, onErr))
	s := x.streams[0]
	there := &Result{Keys: download(x.t, s, on.Keys), Values: download(x.t, s, on.Values)}
	must(r, on.Free())
	if d := differ(linesOf(got), linesOf(want)); d != "" {
		r.Fatal(d)
	}
	if d := differ(sortedLines(there), sortedLines(want)); d != "" {
		r.Fatalf("on the device: %s", d)
	}
	for i, c := range got.Values {
		if c.Type() != want.Values[i].Type() {
			r.Fatalf("aggregate %d is %v, want %v", i, c.Type(), want.Values[i].Type())
		}
	}
}
