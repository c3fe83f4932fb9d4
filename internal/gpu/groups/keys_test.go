package groups

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Keys of two and of three words get numbers, and equal keys get equal numbers, whether or not a
// batch fits. The first and the last value of each group come from its rows.
func TestSmokeNumbers(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	for _, keys := range []int{1, 40, 5000} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) { tryNumbers(t, dev, keys, 300, 1, 4000, 9000) })
	}
}

// longKey is a key of three columns; the last may be null.
type longKey struct {
	a    int64
	b    uint32
	c    int64
	null bool
}

func tryNumbers(t testing.TB, dev device.Device, keys int, batches ...int) {
	rng := rand.New(rand.NewPCG(3, 4))
	types := []Type{Int64, Uint32, Int64}
	numbers, err := NewNumbers(dev, types, Options{Round: 1024})
	must(t, err)
	defer numbers.Close()
	aggs := []Aggregate{{Func: CountRows}, {Func: FirstOf, Type: Int64}, {Func: LastOf, Type: Int64}, {Func: CountOf, Type: Int64}}
	table, err := New(dev, LayoutOf(Keys{}, aggs), small)
	must(t, err)
	defer table.Close()
	type group struct {
		rows, values int
		first, last  int64
	}
	want, before := map[longKey]group{}, 0
	streams := []*device.Stream{devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)}
	for i, n := range batches {
		a, b, c, values := make([]int64, n), make([]uint32, n), make([]int64, n), make([]int64, n)
		valid, present := make([]byte, n/8+1), make([]byte, n/8+1)
		for j := range n {
			k := longKey{a: int64(rng.IntN(keys)) - 1, b: uint32(rng.IntN(2)) - 1, c: 7, null: rng.IntN(4) == 0}
			a[j], b[j], c[j], values[j] = k.a, k.b, int64(rng.IntN(2))*7, int64(rng.Uint64())
			if k.c = c[j]; k.null {
				k.c = 0
			} else {
				valid[j/8] |= 1 << (j % 8)
			}
			g := want[k]
			if g.rows++; rng.IntN(3) > 0 {
				present[j/8] |= 1 << (j % 8)
				if g.values++; g.values == 1 {
					g.first = values[j]
				}
				g.last = values[j]
			}
			want[k] = g
		}
		s := streams[i%2]
		r := Rows{N: n, Before: before}
		for j, p := range []part{at(devicetest.Upload(t, s, a)), at(devicetest.Upload(t, s, b)), at(devicetest.Upload(t, s, c)), at(devicetest.Upload(t, s, values))} {
			if j < len(types) {
				r.Keys = append(r.Keys, p.Column)
			} else {
				r.Values = append(r.Values, p.Column)
			}
		}
		r.Keys[2].Valid, r.Values[0].Valid = devicetest.Upload(t, s, valid).Ptr(), devicetest.Upload(t, s, present).Ptr()
		must(t, numbers.Number(s, r, func(r Rows) error { return table.Add(s, r) }))
		before += n
	}
	n, err := table.Len(t.Context())
	must(t, err)
	s := streams[0]
	a, b, c := devicetest.Upload(t, s, make([]int64, n)), devicetest.Upload(t, s, make([]uint32, n)), devicetest.Upload(t, s, make([]int64, n))
	null := devicetest.Upload(t, s, make([]uint32, n/32+1))
	var outputs []Output
	var values []device.Slice[int64]
	for _, g := range aggs {
		v := devicetest.Upload(t, s, make([]int64, n))
		values, outputs = append(values, v), append(outputs, Output{Aggregate: g, Column: v.Ptr()})
	}
	none := devicetest.Upload(t, s, make([]uint32, n/32+1))
	outputs[1].Valid = none.Ptr()
	must(t, s.Sync(t.Context()), table.Result(t.Context(), n, Results{Keys: []KeyOutput{{Column: a.Ptr()}, {Column: b.Ptr()}, {Column: c.Ptr(), Valid: null.Ptr()}}, Outputs: outputs, Numbers: numbers}))
	ka, kb, kc, valid, some := devicetest.Download(t, s, a), devicetest.Download(t, s, b), devicetest.Download(t, s, c), devicetest.Download(t, s, null), devicetest.Download(t, s, none)
	rows, first, last, count := devicetest.Download(t, s, values[0]), devicetest.Download(t, s, values[1]), devicetest.Download(t, s, values[2]), devicetest.Download(t, s, values[3])
	if n != len(want) {
		t.Fatalf("%d groups, want %d", n, len(want))
	}
	for i := range n {
		k := longKey{ka[i], kb[i], kc[i], valid[i/32]>>(i%32)&1 == 0}
		got := group{int(rows[i]), int(count[i]), first[i], last[i]}
		if has := some[i/32]>>(i%32)&1 != 0; got != want[k] || has != (got.values > 0) {
			t.Fatalf("key %v has %v, want %v; a first value: %v", k, got, want[k], has)
		}
		delete(want, k)
	}
}
