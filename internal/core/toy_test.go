package core_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// toy is a minimal structure: a list of pairs for each key, in Go memory. Tests can introduce
// faults into its engine.
type toy struct {
	kind    core.Kind
	widths  batch.Widths
	leases  *core.Leases
	room    int // number of pairs that fit; 0: any number
	hides   uint64
	doubles bool // iterations visit the first key twice
	counts  int  // amount by which the counters are too high
}

type pairs struct {
	order []uint64 // keys in order of insertion
	vals  map[uint64][]uint64
	n     int
}

func (p *pairs) Free() error { return nil }

func (e *toy) pairs(l *core.Lease) *pairs { return l.Parts.(*pairs) }

func number(b []byte, width, i int) uint64 {
	switch width {
	case 0:
		return 0
	case 4:
		return uint64(batch.View[uint32](b)[i])
	}
	return batch.View[uint64](b)[i]
}

func setNumber(b []byte, width, i int, v uint64) {
	switch {
	case b == nil:
	case width == 4:
		batch.View[uint32](b)[i] = uint32(v)
	case width == 8:
		batch.View[uint64](b)[i] = v
	}
}

func (e *toy) Caps() core.Caps { return core.Caps{} }

func (e *toy) Current() *core.Lease { return e.leases.Current() }

func (e *toy) ReadCounters(context.Context) (core.Counters, error) {
	n := uint64(e.pairs(e.leases.Current()).n + e.counts)
	return core.Counters{Live: n, Used: n}, nil
}

func (e *toy) Lookup(ctx context.Context, _ *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	p, c := e.pairs(l), b.Columns
	for i := range b.N {
		if err := ctx.Err(); err != nil {
			return i, hits, err
		}
		k := number(c[batch.Keys].Host, e.widths.Key, i)
		vals := p.vals[k]
		if k == e.hides && e.hides != 0 {
			vals = nil
		}
		if len(vals) > 0 {
			hits++
			setNumber(c[batch.Vals].Host, e.widths.Val, i, vals[0])
		}
		if ok := batch.View[bool](c[batch.OK].Host); ok != nil {
			ok[i] = len(vals) > 0
		}
		setNumber(c[batch.Counts].Host, 4, i, uint64(len(vals)))
	}
	return b.N, hits, nil
}

func (e *toy) Expand(_ context.Context, _ *device.Stream, l *core.Lease, b *batch.Batch) error {
	v := b.Columns[batch.Vals]
	for i := range b.N {
		for j, x := range e.pairs(l).vals[number(b.Columns[batch.Keys].Host, e.widths.Key, i)] {
			setNumber(v.Host, e.widths.Val, int(v.Offsets[i]-v.Offsets[0])+j, x)
		}
	}
	return nil
}

func (e *toy) Change(ctx context.Context, _ *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	p, c := e.pairs(e.leases.Current()), b.Columns
	for i := range b.N {
		if err := ctx.Err(); err != nil {
			return i, failed, err
		}
		k, v := number(c[batch.Keys].Host, e.widths.Key, i), number(c[batch.Vals].Host, e.widths.Val, i)
		old, ok := p.vals[k], false
		switch {
		case b.Kind.Inserts() && (len(old) == 0 || b.Kind == op.Put && e.kind == core.MultiMap):
			if e.room > 0 && p.n >= e.room {
				failed = append(failed, uint32(i))
				break
			}
			if len(old) == 0 {
				p.order = append(p.order, k)
			}
			p.vals[k], ok = append(old, v), true
			p.n++
		case b.Kind == op.Put:
			p.vals[k] = []uint64{v}
		case b.Kind == op.Delete && len(old) > 0:
			p.vals[k], ok = old[1:], true
			p.n--
		}
		if flags := batch.View[bool](c[batch.OK].Host); flags != nil {
			flags[i] = ok
		}
	}
	return b.N, failed, nil
}

func (e *toy) AddPairs(_ *device.Stream, to device.Slice[uint64], negate bool) error {
	n := uint64(e.pairs(e.leases.Current()).n)
	if negate {
		n = -n
	}
	to.Host()[0] += n
	return nil
}

func (e *toy) ReadDropped(context.Context) (int, error) { return 0, nil }
func (e *toy) Close() error                             { return nil }

func (e *toy) Extent(l *core.Lease) (uint32, int) {
	n := len(e.pairs(l).order)
	if e.doubles {
		n++
	}
	return uint32(n), 1
}

func (e *toy) Export(_ context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	p := e.pairs(l)
	for ; lo < hi; lo++ {
		k := p.order[int(lo)%len(p.order)]
		for _, v := range p.vals[k] {
			if n < out.N {
				setNumber(out.Columns[batch.Keys].Host, e.widths.Key, n, k)
				setNumber(out.Columns[batch.Vals].Host, e.widths.Val, n, v)
			}
			n++
		}
	}
	return n, nil
}

func (e *toy) Clear(context.Context) error {
	*e.pairs(e.leases.Current()) = pairs{vals: map[uint64][]uint64{}}
	return nil
}

// The policy of a toy never frees capacity.
func (e *toy) Flags(op.Kind) batch.Flags { return 0 }
func (e *toy) MixedFlags() batch.Flags   { return 0 }
func (e *toy) Prepare(_ context.Context, _ core.Counters, _ *device.Stream, b *batch.Batch) (int, bool, error) {
	return b.N, true, nil
}
func (e *toy) Retry(_ context.Context, _ core.Counters, b *batch.Batch) ([]uint32, bool, error) {
	return core.AllRows(b.N), false, nil
}
func (e *toy) Trim(context.Context, core.Counters, int) error { return nil }
func (e *toy) Compact(context.Context, core.Counters) error   { return nil }
func (e *toy) Describe() string                               { return "in a toy" }

func newToy(dev device.Device, kind core.Kind, w batch.Widths, types core.Types) (*core.Table, *toy) {
	e := &toy{kind: kind, widths: w, leases: core.NewLeases(&pairs{vals: map[uint64][]uint64{}})}
	return core.New(core.Config{
		Name: "toy", Kind: kind, Device: dev, Widths: w, Policy: e, Engine: e, Leases: e.leases,
		Logger: slog.New(slog.DiscardHandler), Types: types,
		NewLike: func(dev device.Device) (*core.Table, error) {
			t, _ := newToy(dev, kind, w, types)
			return t, nil
		},
	}), e
}

func toyMap[K weft.Key, V weft.Value](t testing.TB) (*weft.Map[K, V], *toy) {
	table, e := newToy(openCPU(t), core.Map, batch.MapWidths[K, V](), core.MapTypes[K, V]())
	return weft.NewMap[K, V](table), e
}

func toyMulti[K weft.Key, V weft.Value](t testing.TB) (*weft.MultiMap[K, V], *core.Table) {
	table, _ := newToy(openCPU(t), core.MultiMap, batch.MapWidths[K, V](), core.MapTypes[K, V]())
	return weft.NewMultiMap[K, V](table), table
}

func openCPU(t testing.TB) device.Device {
	dev, err := cpu.Open(&cpu.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}
