package group

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

type zzCtx struct {
	context.Context
	left int
}

func (c *zzCtx) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func zzCol(rng *rand.Rand, typ int, n, card, form int) column.Column {
	var c column.Column
	switch typ {
	case 0:
		v := make([]int64, n)
		for i := range v {
			v[i] = rng.Int64N(int64(card))
		}
		c = column.Of(v)
	case 1:
		v := make([]float64, n)
		for i := range v {
			switch k := rng.IntN(card); k {
			case 0:
				v[i] = math.Float64frombits(0x7ff8000000000000 | rng.Uint64N(100))
			case 1:
				v[i] = math.Copysign(0, float64(rng.IntN(2))-.5)
			default:
				v[i] = float64(k)
			}
		}
		c = column.Of(v)
	case 2:
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.IntN(card))
		}
		c = column.Of(v)
	case 3:
		v := make([]bool, n)
		for i := range v {
			v[i] = rng.IntN(2) > 0
		}
		c = column.Of(v)
	case 4:
		v := make([]string, n)
		for i := range v {
			v[i] = fmt.Sprint("k", rng.IntN(card))
			if form == 2 {
				v[i] = fmt.Sprintf("%08d", rng.IntN(card))
			}
			if form == 0 && rng.IntN(10) == 0 {
				v[i] += "a longer suffix that is beyond 16"
			}
		}
		c = column.OfStrings(v)
		if form == 1 { // dictionary
			codes := make([]uint32, n)
			for i := range codes {
				codes[i] = uint32(rng.IntN(max(n, 1)))
			}
			if n > 0 {
				d, err := column.OfCodes(codes, c)
				if err != nil {
					panic(err)
				}
				c = d
			}
		}
		if form == 2 && n > 0 {
			var b []byte
			for _, x := range v {
				b = append(b, x[:8]...)
			}
			var err error
			if c, err = column.OfWidth(8, b); err != nil {
				panic(err)
			}
		}
		if form == 3 {
			var err error
			if c, err = column.Concat(c, c.Slice(0, 0)); err != nil {
				panic(err)
			}
		}
	case 5:
		v := make([]uint8, n)
		for i := range v {
			v[i] = uint8(rng.IntN(200))
		}
		c = column.Of(v)
	}
	if rng.IntN(3) == 0 {
		valid := make([]bool, n)
		for i := range valid {
			valid[i] = rng.IntN(9) > 0
		}
		c = c.WithValid(column.OfBools(valid))
	}
	return c
}

func TestZZModel(t *testing.T) {
	dev := open(t, 2)
	direct, spilledN, merges, cancels := 0, 0, 0, 0
	start := time.Now()
	for seed := uint64(1000); time.Since(start) < 40*time.Second; seed++ {
		rng := rand.New(rand.NewPCG(seed, 77))
		keyT := [][]int{{0}, {1}, {2}, {4}, {0, 0}, {0, 4}, {5, 4}, {2, 5}, {1, 1}, {}, {4, 4}}[rng.IntN(11)]
		valT := []int{0, 1, 2, 3, 4, 4}
		var aggs []Aggregate
		for range 1+rng.IntN(6) {
			f, c := Func(rng.IntN(8)), rng.IntN(6)
			if (f == Sum || f == Mean) && c > 0 {
				c = 0
			}
			aggs = append(aggs, Aggregate{f, c})
		}
		o := Options{Sorted: true, SkipNulls: rng.IntN(2) == 0}
		ordered := rng.IntN(3) == 0
		x := &trial{opts: o, aggs: aggs}
		mem := []int64{200_000, 400_000, 1_500_000}[rng.IntN(3)]
		g := tight(t, dev, x, mem)
		m := create(t, dev, aggs, &o)
		ord := uint64(0)
		card := []int{50, 5000, 1 << 40}[rng.IntN(3)]
		batch := func(n int) (k, v []column.Column, ords []uint64) {
			c := card
			if rng.IntN(3) == 0 {
				c = 40
			}
			for _, typ := range keyT {
				k = append(k, zzCol(rng, typ, n, c, rng.IntN(4)))
			}
			for _, typ := range valT {
				v = append(v, zzCol(rng, typ, n, 1000, rng.IntN(4)))
			}
			ords = make([]uint64, n)
			for i := range ords {
				ords[i] = (ord * 0x9e3779b97f4a7c15)
				ord++
			}
			return
		}
		add := func(ctx context.Context, g *Groups, k, v []column.Column, o []uint64) error {
			if ordered {
				return g.AddAt(ctx, o, k, v)
			}
			return g.Add(ctx, k, v)
		}
		check := func(what string) {
			want, err := m.Result(t.Context())
			must(t, err)
			var got *Result
			if rng.IntN(2) == 0 {
				got, err = g.Result(t.Context())
				must(t, err)
			} else {
				var all []*Result
				for r, err := range g.Pages(t.Context()) {
					must(t, err)
					all = append(all, r)
				}
				if len(all) == 0 {
					if want.Len() > 0 {
						t.Fatal("no pages")
					}
					return
				}
				got, err = concat(all)
				must(t, err)
			}
			if d := differ(linesOf(got), linesOf(want)); d != "" {
				t.Fatalf("seed %d %s: keys %v aggs %v ordered %v skip %v mem %d: %s", seed, what, keyT, aggs, ordered, o.SkipNulls, mem, d)
			}
			if g.spilled.file == nil && g.Len() != got.Len() {
				t.Fatalf("Len %d of %d", g.Len(), got.Len())
			}
		}
		for range 2 + rng.IntN(8) {
			k, v, os := batch(rng.IntN(6) * rng.IntN(1200))
			n := v[0].Len()
			switch rng.IntN(7) {
			case 0: // merged from spilled others
				other := tight(t, dev, x, mem)
				if rng.IntN(3) == 0 && !ordered && len(keyT) > 0 {
					_ = other
				}
				must(t, add(t.Context(), other, k, v, os))
				must(t, add(t.Context(), m, k, v, os))
				k, v, os = batch(rng.IntN(4000))
				must(t, add(t.Context(), other, k, v, os))
				must(t, add(t.Context(), m, k, v, os))
				must(t, g.Merge(t.Context(), other))
				must(t, other.Close())
				merges++
			case 1: // context ends
				ctx := &zzCtx{t.Context(), rng.IntN(12)}
				err := add(ctx, g, k, v, os)
				var p *weft.PartialError
				done := n
				if err != nil {
					if !errors.As(err, &p) {
						t.Fatal(err)
					}
					done = p.Done
					cancels++
				}
				sl := func(c []column.Column) (s []column.Column) {
					for _, c := range c {
						s = append(s, c.Slice(done, n))
					}
					return
				}
				must(t, add(t.Context(), g, sl(k), sl(v), os[done:]))
				must(t, add(t.Context(), m, k, v, os))
			case 2: // reading is interrupted
				_, _ = g.Result(&zzCtx{t.Context(), rng.IntN(30)})
				for range g.Pages(t.Context()) {
					break
				}
				fallthrough
			default:
				must(t, add(t.Context(), g, k, v, os))
				must(t, add(t.Context(), m, k, v, os))
			}
			if g.spilled.direct > 0 {
				direct++
			}
			if rng.IntN(4) == 0 {
				check("between")
			}
		}
		check("end")
		if g.spilled.states > 0 {
			spilledN++
		}
		must(t, g.Close())
		must(t, m.Close())
	}
	t.Log("direct", direct, "spilled", spilledN, "merges", merges, "cancels", cancels)
}

// MergeOn (host device) of every aggregate, and with NaN, bool, float32, null keys.
func TestZZMergeOnHost(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var aggs []Aggregate
		for c := range 4 {
			for f := range Func(8) {
				if (f == Sum || f == Mean) && c == 3 {
					continue
				}
				aggs = append(aggs, Aggregate{f, c})
			}
		}
		on, err := NewOn(dev, aggs, nil)
		must(t, err)
		g, m := create(t, dev, aggs, &Options{Sorted: true}), create(t, dev, aggs, &Options{Sorted: true})
		must(t, g.MergeOn(t.Context(), on))
		for range 3 {
			n := rng.IntN(3000)
			k := []column.Column{zzCol(rng, int(seed%3), n, 40, 0)}
			v := []column.Column{zzCol(rng, 0, n, 9, 0), zzCol(rng, 1, n, 9, 0), zzCol(rng, 2, n, 9, 0), zzCol(rng, 3, n, 9, 0)}
			must(t, on.Add(t.Context(), k, v))
			must(t, m.Add(t.Context(), k, v))
		}
		must(t, g.MergeOn(t.Context(), on))
		a, err := g.Result(t.Context())
		must(t, err)
		b, err := m.Result(t.Context())
		must(t, err)
		if d := differ(linesOf(a), linesOf(b)); d != "" {
			t.Fatal(seed, d)
		}
		must(t, on.Close())
	}
}

// A context that ends between the pages of MergeOn of a GPU.
func TestZZGPUMergeStops(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		aggs := []Aggregate{{Func: Rows}}
		on, err := NewOn(dev, aggs, nil)
		must(t, err)
		defer on.Close()
		const n = 3 << 20
		k := make([]int64, n)
		for i := range k {
			k[i] = int64(i)
		}
		must(t, on.Add(t.Context(), []column.Column{column.Of(k)}, nil))
		g := create(t, devicetest.OpenCPU(t, 2), aggs, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for g.n.Load() == 0 {
				time.Sleep(time.Microsecond)
			}
			cancel()
		}()
		err = g.MergeOn(ctx, on)
		t.Logf("%T: MergeOn: %v", dev, err)
		r, err := g.Result(t.Context())
		if r != nil {
			t.Logf("Result after it: %d groups", r.Len())
		}
		t.Log(err)
		err = g.MergeOn(t.Context(), on)
		t.Log("again:", err)
		if err == nil {
			r, err := g.Result(t.Context())
			must(t, err)
			rows := int64(0)
			for _, x := range column.Values[int64](r.Values[0]) {
				rows += x
			}
			t.Errorf("%d groups, %d rows, want %d", r.Len(), rows, n)
		}
	})
}

// MergeOn of a GPU, all aggregates and types against all rows on the host.
func TestZZGPUMerge(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		for seed := range uint64(60) {
			rng := rand.New(rand.NewPCG(seed, 5))
			keyT := [][]int{{0}, {1}, {2}, {3}, {0, 0}, {5, 2}, {1, 1}, {}}[rng.IntN(8)]
			valT := []int{0, 1, 2, 3, 5}
			var aggs []Aggregate
			for c := range valT {
				for f := range Func(8) {
					if (f == Sum || f == Mean) && c > 0 && c < 4 || rng.IntN(3) == 0 {
						continue
					}
					aggs = append(aggs, Aggregate{f, c})
				}
			}
			o := &Options{Sorted: true, SkipNulls: rng.IntN(2) == 0}
			on, err := NewOn(dev, aggs, o)
			must(t, err)
			host := devicetest.OpenCPU(t, 2)
			g, m := create(t, host, aggs, o), create(t, host, aggs, o)
			must(t, g.MergeOn(t.Context(), on))
			for range 3 {
				n := rng.IntN(2) * rng.IntN(3000)
				var k, v []column.Column
				for _, typ := range keyT {
					k = append(k, zzCol(rng, typ, n, 40, 0))
				}
				for _, typ := range valT {
					v = append(v, zzCol(rng, typ, n, 9, 0))
				}
				must(t, on.Add(t.Context(), k, v))
				must(t, m.Add(t.Context(), k, v))
			}
			must(t, g.MergeOn(t.Context(), on))
			a, err := g.Result(t.Context())
			must(t, err)
			b, err := m.Result(t.Context())
			must(t, err)
			if d := differ(linesOf(a), linesOf(b)); d != "" {
				t.Errorf("seed %d keys %v aggs %v skip %v: %s", seed, keyT, aggs, o.SkipNulls, d)
			}
			must(t, on.Close())
		}
	})
}
