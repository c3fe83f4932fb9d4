package shard

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/local"
)

// host is the device of all tests.
var host = func() *cpu.Device {
	dev, err := cpu.Open(nil)
	if err != nil {
		panic(err)
	}
	return dev
}()

// onRanks runs a body on each of n local ranks.
func onRanks(t testing.TB, n int, body func(ctx context.Context, r *Ranks) error) {
	t.Helper()
	err := local.Run(t.Context(), n, func(ctx context.Context, c comm.Comm) error {
		r, err := New(c, host)
		if err != nil {
			return err
		}
		return body(ctx, r)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mapOf makes a sharded map over a linear.Map.
func mapOf(r *Ranks, opts *linear.Options) *Map[uint64, uint64] {
	m, err := linear.New[uint64, uint64](host, opts)
	if err != nil {
		panic(err)
	}
	return NewMap(r, m)
}

// step is a call on all ranks, with its expected results.
type step struct {
	method method
	by     weft.Reduction
	flags  bool
	keys   [][]uint64 // keys of each rank
	vals   [][]uint64
	want   [][]uint64
	wantIs [][]bool
	count  int
}

// model is a Go map that is the expected content. It applies calls row by row, in the order of
// ranks.
type model struct {
	pairs map[uint64]uint64
	next  uint64 // next id
}

func (m *model) apply(s *step) {
	s.count = 0
	if s.method == methodAssign {
		for _, v := range m.pairs {
			m.next = max(m.next, v+1)
		}
	}
	for r := range s.keys {
		s.want = append(s.want, make([]uint64, len(s.keys[r])))
		s.wantIs = append(s.wantIs, make([]bool, len(s.keys[r])))
		for i, k := range s.keys[r] {
			old, there := m.pairs[k]
			var is, counted bool
			switch s.method {
			case methodGet, methodContains:
				s.want[r][i], is, counted = old, there, there
			case methodPut:
				m.pairs[k], counted = s.vals[r][i], !there
			case methodPutNew:
				is, counted = !there, !there
				if !there {
					m.pairs[k] = s.vals[r][i]
				}
			case methodGetOrPut:
				is, counted = there, !there
				if !there {
					m.pairs[k] = s.vals[r][i]
				}
				s.want[r][i] = m.pairs[k]
			case methodAssign:
				counted = !there
				if !there {
					m.pairs[k] = m.next
					m.next++
				}
				s.want[r][i] = m.pairs[k]
			case methodReduce:
				m.pairs[k], counted = s.vals[r][i], !there
				if there {
					m.pairs[k] = combine(s.by, old, s.vals[r][i])
				}
			case methodDelete:
				is, counted = there, there
				delete(m.pairs, k)
			}
			s.wantIs[r][i] = is
			if counted {
				s.count++
			}
		}
	}
}

// anyMap is the common interface of Map and OrderedMap.
type anyMap interface {
	Get(ctx context.Context, keys, vals []uint64, found []bool) (int, error)
	Contains(ctx context.Context, keys []uint64, found []bool) (int, error)
	Put(ctx context.Context, keys, vals []uint64) (int, error)
	PutNew(ctx context.Context, keys, vals []uint64, ok []bool) (int, error)
	GetOrPut(ctx context.Context, keys, vals []uint64, loaded []bool) (int, error)
	Assign(ctx context.Context, keys, ids []uint64) (int, error)
	Reduce(ctx context.Context, keys, vals []uint64, by weft.Reduction) (int, error)
	Delete(ctx context.Context, keys []uint64, deleted []bool) (int, error)
	All() iter.Seq2[uint64, uint64]
	Check(ctx context.Context) error
	Len(ctx context.Context) (int, error)
}

// run makes the call on a rank and compares the results.
func (s *step) run(ctx context.Context, r int, m anyMap) error {
	keys, vals := s.keys[r], slices.Clone(s.vals[r])
	out, is := make([]uint64, len(keys)), make([]bool, len(keys))
	for i := range out {
		out[i], is[i] = 99, true
	}
	if !s.flags {
		is = nil
	}
	var n int
	var err error
	switch s.method {
	case methodGet:
		n, err = m.Get(ctx, keys, out, is)
	case methodContains:
		n, err = m.Contains(ctx, keys, is)
	case methodPut:
		n, err = m.Put(ctx, keys, vals)
	case methodPutNew:
		n, err = m.PutNew(ctx, keys, vals, is)
	case methodGetOrPut:
		copy(out, vals)
		n, err = m.GetOrPut(ctx, keys, out, is)
	case methodAssign:
		n, err = m.Assign(ctx, keys, out)
	case methodReduce:
		n, err = m.Reduce(ctx, keys, vals, s.by)
	case methodDelete:
		n, err = m.Delete(ctx, keys, is)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", s.method, err)
	}
	outputs := s.method == methodGet || s.method == methodGetOrPut || s.method == methodAssign
	flagged := s.method != methodPut && s.method != methodReduce && s.method != methodAssign
	switch {
	case n != s.count:
		return fmt.Errorf("%v: rank %d counts %d, want %d", s.method, r, n, s.count)
	case outputs && !slices.Equal(out, s.want[r]):
		return fmt.Errorf("%v: rank %d has other values than the model, first in row %d", s.method,
			r, differ(out, s.want[r]))
	case flagged && is != nil && !slices.Equal(is, s.wantIs[r]):
		return fmt.Errorf("%v: rank %d has other flags than the model, first in row %d", s.method,
			r, differ(is, s.wantIs[r]))
	}
	return nil
}

func differ[T comparable](a, b []T) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// randomSteps returns calls of random methods with rows on random ranks. Many rows have the same
// key as another row.
func randomSteps(rng *rand.Rand, m *model, ranks, steps, rows int, key func() uint64) []*step {
	all := []method{methodGet, methodContains, methodPut, methodPutNew, methodGetOrPut,
		methodAssign,
		methodReduce, methodDelete}
	var made []*step
	for i := range steps {
		s := &step{method: all[(i+rng.IntN(2))%len(all)],
			by: weft.Sum + weft.Reduction(rng.IntN(5)), flags: rng.IntN(2) == 0}
		for range ranks {
			n := 0
			if rng.IntN(4) > 0 {
				n = rng.IntN(rows)
			}
			keys, vals := make([]uint64, n), make([]uint64, n)
			for i := range keys {
				keys[i], vals[i] = key(), rng.Uint64N(1000)
			}
			s.keys, s.vals = append(s.keys, keys), append(s.vals, vals)
		}
		m.apply(s)
		made = append(made, s)
	}
	return made
}

// mustHold checks a sharded map and compares it with the model.
func (m *model) mustHold(ctx context.Context, r *Ranks, got anyMap) error {
	for k, v := range got.All() {
		if want, ok := m.pairs[k]; !ok || want != v {
			return fmt.Errorf("rank %d has the pair %d, %d; the model has %d, %v", r.rank, k, v,
				want, ok)
		}
	}
	if err := got.Check(ctx); err != nil {
		return err
	}
	n, err := got.Len(ctx)
	return cmp.Or(err, sameInt("Len", n, len(m.pairs)))
}

func sameInt(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("%s is %d, want %d", what, got, want)
	}
	return nil
}

func TestMapIsModel(t *testing.T) {
	for _, c := range []struct{ ranks, programs, steps, rows int }{
		{1, 3, 40, 200}, {2, 20, 40, 200}, {7, 20, 40, 100}, {64, 2, 24, 20},
	} {
		t.Run(fmt.Sprint(c.ranks), func(t *testing.T) {
			for p := range c.programs {
				rng := rand.New(rand.NewPCG(uint64(c.ranks), uint64(p)))
				m := &model{pairs: map[uint64]uint64{}}
				steps := randomSteps(rng, m, c.ranks, c.steps, c.rows,
					func() uint64 { return rng.Uint64N(500) })
				onRanks(t, c.ranks, func(ctx context.Context, r *Ranks) error {
					got := mapOf(r, nil)
					defer got.Close()
					for _, s := range steps {
						if err := s.run(ctx, r.rank, got); err != nil {
							return err
						}
					}
					return m.mustHold(ctx, r, got)
				})
			}
		})
	}
}

// In batches with hot keys, rows are combined before the exchange.
func TestHotKeys(t *testing.T) {
	const rows = 3 * 2 * minShare * sampleOne / 8
	for _, ranks := range []int{2, 7} {
		rng := rand.New(rand.NewPCG(9, uint64(ranks)))
		zipf := rand.NewZipf(rng, 1.2, 1, 1<<20)
		m := &model{pairs: map[uint64]uint64{}}
		steps := randomSteps(rng, m, ranks, 32, rows, zipf.Uint64)
		onRanks(t, ranks, func(ctx context.Context, r *Ranks) error {
			got := mapOf(r, nil)
			defer got.Close()
			for _, s := range steps {
				if err := s.run(ctx, r.rank, got); err != nil {
					return err
				}
			}
			if s := r.Stats(); s.Combined < s.Rows/4 {
				return fmt.Errorf("of %d rows %d were combined", s.Rows, s.Combined)
			}
			return m.mustHold(ctx, r, got)
		})
	}
}
