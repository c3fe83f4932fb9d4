package ordered_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/ordered"
)

func ctx() context.Context { return context.Background() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// model is what a map should hold.
type model map[int64]uint32

// run runs a mixed batch as a map of Go does, one operation after the other.
func (m model) run(ops []weft.Op[int64, uint32]) (res []weft.Result[uint32]) {
	for _, o := range ops {
		v, there := m[o.Key]
		var r weft.Result[uint32]
		switch o.Kind {
		case weft.OpGet:
			r = weft.Result[uint32]{OK: there, Value: v}
		case weft.OpPut:
			r.OK = !there
			m[o.Key] = o.Value
		case weft.OpPutNew:
			if r.OK = !there; there {
				r.Value = v
			} else {
				m[o.Key] = o.Value
			}
		case weft.OpDelete:
			r.OK = there
			delete(m, o.Key)
		case weft.OpSum:
			r.OK = !there
			m[o.Key] = v + o.Value
		case weft.OpUpdate:
			if r.OK = there; there {
				m[o.Key] = o.Value
			}
		}
		res = append(res, r)
	}
	return res
}

// deleteRange removes the pairs of a range.
func (m model) deleteRange(lo, hi int64) (n uint32) {
	for k := range m {
		if lo <= k && k <= hi {
			delete(m, k)
			n++
		}
	}
	return n
}

// between are the keys of a range, in order.
func (m model) between(lo, hi int64) (keys []int64) {
	for k := range m {
		if lo <= k && k <= hi {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// is checks the pairs of an iteration in order.
func (m model) is(t *testing.T, where string, all func(func(int64, uint32) bool)) {
	t.Helper()
	var keys []int64
	for k, v := range all {
		if keys = append(keys, k); v != m[k] {
			t.Fatalf("%s: key %d has %d, want %d", where, k, v, m[k])
		}
	}
	if want := slices.Sorted(maps.Keys(m)); !slices.Equal(keys, want) {
		t.Fatalf("%s: %d keys, want %d", where, len(keys), len(want))
	}
}

// keysOf makes up keys: anywhere, crowded, behind all, or few.
func keysOf(rng *rand.Rand, round int) func() int64 {
	next := rng.Int64N(1 << 20)
	return [...]func() int64{
		func() int64 { return int64(rng.Uint64()) },
		func() int64 { return rng.Int64N(3000) - 1500 },
		func() int64 { next++; return next },
		func() int64 { return rng.Int64N(5) * 1000 },
	}[round%4]
}

var kinds = []weft.OpKind{weft.OpGet, weft.OpPut, weft.OpPut, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpDelete, weft.OpSum, weft.OpUpdate}

// histories have batches of all kinds against a model: what operations return, ranges, and
// what snapshots see that are held meanwhile.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(4) {
		history(t, rand.New(rand.NewPCG(seed, 1)), 40, 1+int(seed)*400)
	}
	defer ordered.Tiny(300, 4, 16)()
	for seed := range uint64(8) {
		history(t, rand.New(rand.NewPCG(seed, 2)), 40, 1+int(seed)*200)
	}
}

type held struct {
	*weft.Snapshot[int64, uint32]
	model
}

func history(t *testing.T, rng *rand.Rand, rounds, most int) {
	dev := devicetest.Open(t)
	m, err := ordered.New[int64, uint32](dev, &ordered.Options{Fill: []float64{0, .65, 1}[rng.IntN(3)]})
	must(t, err)
	want := model{}
	var snapshots []held
	for round := range rounds {
		key := keysOf(rng, rng.IntN(4))
		if n := 1 + rng.IntN(most); round%8 == 7 {
			deleteRanges(t, m, want, rng, key, 1+rng.IntN(4))
		} else {
			apply(t, m, want, rng, key, n)
		}
		must(t, m.Check(ctx()))
		if m.Len() != len(want) {
			t.Fatalf("round %d: %d pairs, want %d", round, m.Len(), len(want))
		}
		switch rng.IntN(5) {
		case 0:
			s, err := m.Snapshot(ctx())
			must(t, err)
			snapshots = append(snapshots, held{s, maps.Clone(want)})
		case 1:
			if len(snapshots) > 0 {
				i := rng.IntN(len(snapshots))
				snapshots[i].is(t, "a snapshot", snapshots[i].All())
				must(t, snapshots[i].Close())
				snapshots = slices.Delete(snapshots, i, i+1)
			}
		case 2:
			must(t, m.Compact(ctx()))
		}
		want.is(t, "the map", m.All())
		seek(t, m, want, key)
	}
	for _, s := range snapshots {
		s.is(t, "a snapshot", s.All())
		must(t, s.Close())
	}
	must(t, m.Check(ctx()))
	if s, err := m.Stats(ctx()); err != nil || s.Kept != 0 || s.Snapshots != 0 {
		t.Errorf("behind all snapshots: %v, %v", s, err)
	}
	must(t, m.Close())
}

func apply(t *testing.T, m *ordered.Map[int64, uint32], want model, rng *rand.Rand, key func() int64, n int) {
	ops := make([]weft.Op[int64, uint32], n)
	one := rng.IntN(3) // all of one kind, deletes, or mixed
	for i := range ops {
		ops[i] = weft.Op[int64, uint32]{Kind: kinds[rng.IntN(len(kinds))], Key: key(), Value: rng.Uint32()}
		if one < 2 {
			ops[i].Kind = []weft.OpKind{weft.OpPut, weft.OpDelete}[one]
		}
	}
	got := make([]weft.Result[uint32], n)
	must(t, m.Apply(ctx(), ops, got))
	if res := want.run(ops); !slices.Equal(got, res) {
		t.Fatalf("%d operations return\n%v\nwant\n%v", n, got, res)
	}
}

func deleteRanges(t *testing.T, m *ordered.Map[int64, uint32], want model, rng *rand.Rand, key func() int64, n int) {
	lo, hi, got, removed := make([]int64, n), make([]int64, n), make([]uint32, n), make([]uint32, n)
	for i := range lo {
		lo[i], hi[i] = key(), key()
		removed[i] = want.deleteRange(lo[i], hi[i])
	}
	if _, err := m.DeleteRange(ctx(), lo, hi, got); err != nil || !slices.Equal(got, removed) {
		t.Fatalf("DeleteRange removes %v, want %v: %v", got, removed, err)
	}
}

// seek asks for the neighbors and ranges of some keys.
func seek(t *testing.T, m *ordered.Map[int64, uint32], want model, key func() int64) {
	all := slices.Sorted(maps.Keys(want))
	var rows weft.PairRows[int64, uint32]
	for range 3 {
		k, hi := []int64{key()}, []int64{key()}
		at, _ := slices.BinarySearch(all, k[0])
		rank, next := make([]uint64, 1), make([]int64, 1)
		must(t, m.Rank(ctx(), k, rank))
		if rank[0] != uint64(at) {
			t.Fatalf("key %d has rank %d, want %d", k[0], rank[0], at)
		}
		hits, err := m.Select(ctx(), rank, next, nil, nil)
		if err != nil || hits == 1 != (at < len(all)) || hits == 1 && next[0] != all[at] {
			t.Fatalf("Select(%d) finds %d of %d: %v", at, next[0], hits, err)
		}
		hits, err = m.Predecessor(ctx(), k, next, nil, nil)
		if err != nil || hits == 1 != (at > 0) || hits == 1 && next[0] != all[at-1] {
			t.Fatalf("before %d comes %d: %v", k[0], next[0], err)
		}
		rows.Reset()
		must(t, m.Range(ctx(), k, hi, 0, &rows))
		if keys, _ := rows.Row(0); !slices.Equal(keys, want.between(k[0], hi[0])) {
			t.Fatalf("from %d to %d there are %v, want %v", k[0], hi[0], keys, want.between(k[0], hi[0]))
		}
	}
}

// A change that finds no memory does what it can and says how much; the map stays sound,
// and a snapshot what it was.
func TestWithoutMemory(t *testing.T) {
	dev := devicetest.Open(t)
	m, err := ordered.New[int64, uint32](dev, nil)
	must(t, err)
	defer m.Close()
	want := model{}
	keys, vals := make([]int64, 2000), make([]uint32, 2000)
	for i := range keys {
		keys[i], vals[i] = int64(i), uint32(i)
		want[keys[i]] = vals[i]
	}
	_, err = m.Put(ctx(), keys, vals)
	must(t, err)
	s, err := m.Snapshot(ctx())
	must(t, err)
	devicetest.FailNext(dev, devicetest.OpAlloc)
	n, err := m.Delete(ctx(), keys, nil)
	var partial *weft.PartialError
	if !errors.Is(err, device.ErrMemory) || !errors.As(err, &partial) || n != partial.Done {
		t.Fatalf("Delete without memory: %d, %v", n, err)
	}
	devicetest.Heal(dev)
	must(t, m.Check(ctx()))
	want.is(t, "the snapshot", s.All())
	for k := range int64(n) {
		delete(want, k)
	}
	want.is(t, "the map", m.All())
	must(t, s.Close())
}
