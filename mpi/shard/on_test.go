package shard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/cuda"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/local"
)

// deviceOf returns a function that opens the device of a rank. It is one of the GPUs in turn, or a
// simulated GPU that all ranks share.
func deviceOf(t testing.TB) (of func(rank int) device.Device) {
	t.Helper()
	if os.Getenv(devicetest.Variable) != "cuda" {
		dev := devicetest.OpenGPU(t)
		return func(int) device.Device { return dev }
	}
	gpus, err := cuda.Devices()
	if err != nil {
		t.Fatal(err)
	}
	var devs []device.Device
	for i := range gpus {
		dev, _, err := auto.Open(fmt.Sprintf("cuda:%d", i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		devs = append(devs, dev)
	}
	return func(rank int) device.Device { return devs[rank%len(devs)] }
}

// rankOn is a rank with a stream of its device.
type rankOn struct {
	*Ranks
	dev device.Device
	s   *device.Stream
}

// onDevices runs a body on each of n local ranks.
func onDevices(
	t testing.TB,
	n int,
	of func(rank int) device.Device,
	body func(ctx context.Context, r *rankOn) error,
) {
	t.Helper()
	err := local.Run(t.Context(), n, func(ctx context.Context, c comm.Comm) (err error) {
		r := &rankOn{dev: of(c.Rank())}
		if r.Ranks, err = New(c, host); err != nil {
			return err
		}
		if r.s, err = r.dev.NewStream(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close(), r.s.Close()) }()
		return body(ctx, r)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sent copies a column to the device.
func sent[T device.Elem](r *rankOn, col []T) device.Slice[T] {
	d, err := device.Upload(r.s, col)
	if err != nil {
		panic(err)
	}
	return d
}

// read copies a column from the device and frees it there.
func read[T device.Elem](r *rankOn, d device.Slice[T]) []T {
	col := make([]T, d.Len())
	if err := d.CopyTo(context.Background(), r.s, col); err != nil {
		panic(err)
	}
	if err := d.Free(); err != nil {
		panic(err)
	}
	return col
}

// batchesOf returns the keys of each rank in each round. Some keys occur several times, within a
// rank and on several ranks. Some batches are empty.
func batchesOf(rng *rand.Rand, ranks, rounds, rows int) [][][]uint32 {
	all := make([][][]uint32, rounds)
	for i := range all {
		all[i] = make([][]uint32, ranks)
		for r := range all[i] {
			n := rng.IntN(rows)
			if rng.IntN(5) == 0 {
				n = 0
			}
			for range n {
				all[i][r] = append(all[i][r], rng.Uint32N(uint32(rows))*0x9e3779b1)
			}
		}
	}
	return all
}

// Batches on devices have the same results as batches on the host, with any number of ranks.
func TestOnDevices(t *testing.T) {
	of := deviceOf(t)
	for _, ranks := range []int{1, 2, 3, 5} {
		rng := rand.New(rand.NewPCG(uint64(ranks), 1))
		const rounds = 4
		puts, gets, deletes := batchesOf(
			rng,
			ranks,
			rounds,
			60,
		), batchesOf(
			rng,
			ranks,
			rounds,
			60,
		), batchesOf(
			rng,
			ranks,
			rounds,
			20,
		)
		onDevices(t, ranks, of, func(ctx context.Context, r *rankOn) error {
			shard, err := linear.New[uint32, uint64](r.dev, nil)
			if err != nil {
				return err
			}
			m := NewMap(r.Ranks, shard)
			defer m.Close()
			model := map[uint32]uint64{}
			for i := range rounds {
				if err := tryRound(ctx, r, m, model, puts[i], gets[i], deletes[i], uint64(i)<<32); err != nil {
					return fmt.Errorf("%d ranks, round %d, rank %d: %w", r.Size(), i, r.Rank(), err)
				}
			}
			return m.Sync(ctx)
		})
	}
}

// tryRound puts, reduces, looks up and deletes pairs, and compares the results with a model.
func tryRound(
	ctx context.Context,
	r *rankOn,
	m *Map[uint32, uint64],
	model map[uint32]uint64,
	puts, gets, deletes [][]uint32,
	base uint64,
) error {
	for rank, keys := range puts {
		for i, k := range keys {
			model[k] = base + uint64(rank)<<16 + uint64(i)
		}
	}
	own := puts[r.Rank()]
	vals := make([]uint64, len(own))
	for i := range vals {
		vals[i] = base + uint64(r.Rank())<<16 + uint64(i)
	}
	k, v := sent(r, own), sent(r, vals)
	if err := m.PutOn(ctx, r.s, k, v); err != nil {
		return err
	}
	if err := tryGet(ctx, r, m, model, gets[r.Rank()]); err != nil {
		return err
	}
	for rank, keys := range puts {
		for i, k := range keys {
			model[k] += base + uint64(rank)<<16 + uint64(i)
		}
	}
	if err := m.ReduceOn(ctx, r.s, k, v, weft.Sum); err != nil {
		return err
	}
	read(r, k)
	read(r, v)
	if err := tryGet(ctx, r, m, model, gets[r.Rank()]); err != nil {
		return err
	}
	gone := map[uint32]bool{}
	for rank, keys := range deletes {
		flags := device.Slice[bool]{}
		if rank == r.Rank() {
			k = sent(r, keys)
			if len(keys) > 0 {
				flags = sent(r, make([]bool, len(keys)))
			}
			if err := m.DeleteOn(ctx, r.s, k, flags); err != nil {
				return err
			}
			read(r, k)
			read(r, flags)
		}
		for _, key := range keys {
			gone[key] = true
		}
	}
	for key := range gone {
		delete(model, key)
	}
	if err := m.Sync(ctx); err != nil {
		return err
	}
	if n, err := m.Len(ctx); err != nil || n != len(model) {
		return fmt.Errorf("%d keys, want %d: %w", n, len(model), err)
	}
	return tryGet(ctx, r, m, model, gets[r.Rank()])
}

func tryGet(
	ctx context.Context,
	r *rankOn,
	m *Map[uint32, uint64],
	model map[uint32]uint64,
	keys []uint32,
) error {
	k, v := sent(r, keys), sent(r, make([]uint64, len(keys)))
	found, is := sent(r, make([]bool, len(keys))), sent(r, make([]bool, len(keys)))
	if err := m.GetOn(ctx, r.s, k, v, found); err != nil {
		return err
	}
	if err := m.ContainsOn(ctx, r.s, k, is); err != nil {
		return err
	}
	read(r, k)
	vals, got, there := read(r, v), read(r, found), read(r, is)
	for i, key := range keys {
		want, ok := model[key]
		if vals[i] != want || got[i] != ok || there[i] != ok {
			return fmt.Errorf(
				"row %d: key %d is %d, %v, %v; want %d, %v",
				i,
				key,
				vals[i],
				got[i],
				there[i],
				want,
				ok,
			)
		}
	}
	return nil
}

// If several rows have equal keys, a set reports the first of them. If ranks make different calls,
// all ranks return an error.
func TestSetOnDevices(t *testing.T) {
	of := deviceOf(t)
	onDevices(t, 3, of, func(ctx context.Context, r *rankOn) error {
		shard, err := linear.NewSet[uint64](r.dev, nil)
		if err != nil {
			return err
		}
		s := NewSet(r.Ranks, shard)
		defer s.Close()
		keys := []uint64{7, 8, uint64(r.Rank()), 7}
		k, added := sent(r, keys), sent(r, make([]bool, len(keys)))
		if err := s.AddOn(ctx, r.s, k, added); err != nil {
			return err
		}
		first := r.Rank() == 0
		for i, is := range read(r, added) {
			if want := i < 2 && first || i == 2; is != want {
				return fmt.Errorf("rank %d: row %d is new: %v", r.Rank(), i, is)
			}
		}
		var called error
		if r.Rank() == 1 {
			called = s.ContainsOn(ctx, r.s, k, device.Slice[bool]{})
		} else {
			called = s.DeleteOn(ctx, r.s, k, device.Slice[bool]{})
		}
		if !errors.Is(called, ErrMismatch) {
			return fmt.Errorf("ranks call different methods: %w", called)
		}
		ended, cancel := context.WithCancel(ctx)
		if r.Rank() == 2 {
			cancel()
		}
		defer cancel()
		if err := s.ContainsOn(ended, r.s, k, device.Slice[bool]{}); !errors.Is(
			err,
			context.Canceled,
		) {
			return fmt.Errorf("rank 2 has been cancelled: %w", err)
		}
		read(r, k)
		return nil
	})
}

// If a rank has no memory, all ranks return an error and can continue.
func TestNoMemoryOnDevice(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	onDevices(
		t,
		2,
		func(int) device.Device { return dev },
		func(ctx context.Context, r *rankOn) error {
			shard, err := linear.New[uint32, uint32](r.dev, nil)
			if err != nil {
				return err
			}
			m := NewMap(r.Ranks, shard)
			defer m.Close()
			k, v := sent(r, []uint32{1, 2, 3}), sent(r, []uint32{4, 5, 6})
			if err := r.comm.Barrier(ctx); err != nil {
				return err
			}
			if r.Rank() == 0 {
				devicetest.FailMemoryAfter(dev, 0)
			}
			if err := r.comm.Barrier(ctx); err != nil {
				return err
			}
			err = m.PutOn(ctx, r.s, k, v)
			if err := r.comm.Barrier(ctx); err != nil {
				return err
			}
			if r.Rank() == 0 {
				devicetest.ClearFailures(dev)
			}
			if err := r.comm.Barrier(ctx); err != nil {
				return err
			}
			if !errors.Is(err, device.ErrMemory) {
				return fmt.Errorf("no memory: %w", err)
			}
			if err := m.PutOn(ctx, r.s, k, v); err != nil {
				return err
			}
			read(r, k)
			read(r, v)
			if err := m.Sync(ctx); err != nil {
				return err
			}
			if n, err := m.Len(ctx); n != 3 || err != nil {
				return fmt.Errorf("%d keys: %w", n, err)
			}
			return nil
		},
	)
}

// On a CPU, batches in device memory are slices of Go.
func TestOnHost(t *testing.T) {
	onDevices(
		t,
		2,
		func(int) device.Device { return host },
		func(ctx context.Context, r *rankOn) error {
			shard, err := linear.New[uint32, uint64](host, nil)
			if err != nil {
				return err
			}
			m := NewMap(r.Ranks, shard)
			defer m.Close()
			keys := []uint32{1, 2, 3}
			k, v := sent(r, keys), sent(r, []uint64{4, 5, 6})
			if err := m.PutOn(ctx, r.s, k, v); err != nil {
				return err
			}
			read(r, k)
			read(r, v)
			return tryGet(ctx, r, m, map[uint32]uint64{1: 4, 2: 5, 3: 6}, []uint32{3, 9, 1})
		},
	)
}

// The groups of rows on the devices of all ranks are the groups of all rows, with any number of
// ranks.
func TestGroupOn(t *testing.T) {
	of := deviceOf(t)
	aggs := []group.Aggregate{{Func: group.Rows}, {Func: group.Sum}, {Func: group.Mean},
		{Func: group.Min}, {Func: group.Last, Column: 1}}
	for _, n := range []int{1, 3} {
		var all []Rows
		for rank := range n {
			rng := rand.New(rand.NewPCG(uint64(rank), 9))
			r := randomRows(rng, 500, 40)
			all = append(all, Rows{Keys: r.Keys[:1], Columns: r.Columns})
		}
		whole := concat(all)
		want, err := group.By(t.Context(), host, whole.Keys, whole.Columns, aggs,
			&group.Options{Sorted: true, WrapSums: true})
		if err != nil {
			t.Fatal(err)
		}
		onDevices(t, n, of, func(ctx context.Context, r *rankOn) error {
			on, err := group.NewOn(r.dev, aggs, nil)
			if err != nil {
				return err
			}
			defer on.Close()
			mine := all[r.Rank()]
			if err := on.Add(ctx, mine.Keys, mine.Columns); err != nil {
				return err
			}
			limited := &GroupOptions{Options: group.Options{Memory: group.MinMemory}}
			if _, err := GroupOn(ctx, r.Ranks, on, aggs, limited); !errors.Is(err,
				weft.ErrOptions) {
				return fmt.Errorf("Last with a limit of memory: %v", err)
			}
			got, err := GroupOn(ctx, r.Ranks, on, aggs, &GroupOptions{Gather: true,
				Options: group.Options{WrapSums: true}})
			if err != nil || r.Rank() > 0 {
				return err
			}
			a, b := lines(slices.Concat(got.Keys, got.Values)...),
				lines(slices.Concat(want.Keys, want.Values)...)
			if !slices.Equal(a, b) {
				return fmt.Errorf("%d ranks:\n%q, want\n%q", n, a, b)
			}
			return nil
		})
	}
}
