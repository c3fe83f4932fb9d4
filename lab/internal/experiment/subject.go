package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

// subject is a table under test. Its operations take columns on the device. A set ignores values.
type subject[K weft.Key, V weft.Value] interface {
	put(s *device.Stream, keys device.Slice[K], vals device.Slice[V]) error
	get(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool]) error
	remove(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool]) error
	Clear(ctx context.Context) error
	Len() int
	Sync(ctx context.Context) error // reports keys that did not fit
	// describe adds the structure's statistics to a row.
	describe(ctx context.Context, row *Row) error
	Close() error
}

// mixer is a subject that also accepts mixed batches.
type mixer[K weft.Key, V weft.Value] interface {
	ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error
}

// mapSubject is a map of any structure.
type mapSubject[K weft.Key, V weft.Value] struct {
	*weft.Map[K, V]
	stats func(ctx context.Context, row *Row) error // adds statistics to a row
}

func (m mapSubject[K, V]) put(s *device.Stream, keys device.Slice[K], vals device.Slice[V]) error {
	return m.PutOn(s, keys, vals)
}

func (m mapSubject[K, V]) get(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool]) error {
	return m.GetOn(s, keys, vals, found)
}

func (m mapSubject[K, V]) remove(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool]) error {
	return m.DeleteOn(s, keys, deleted)
}

func (m mapSubject[K, V]) describe(ctx context.Context, row *Row) error { return m.stats(ctx, row) }

func openLinear[K weft.Key, V weft.Value](dev device.Device, o *linear.Options) (subject[K, V], error) {
	m, err := linear.New[K, V](dev, o)
	if err != nil {
		return nil, err
	}
	return mapSubject[K, V]{m.Map, func(ctx context.Context, row *Row) error {
		stats, err := m.Stats(ctx)
		describeLinear(stats, row)
		return err
	}}, nil
}

// openSlab opens a map of package slab. The load in its rows is the utilization reached.
func openSlab[K weft.Key, V weft.Value](dev device.Device, o *slab.Options) (subject[K, V], error) {
	m, err := slab.New[K, V](dev, o)
	if err != nil {
		return nil, err
	}
	return mapSubject[K, V]{m.Map, func(ctx context.Context, row *Row) error {
		stats, err := m.Stats(ctx)
		row.Load = stats.Utilization
		row.BytesPerEntry = figure(float64(stats.Bytes) / float64(stats.Len))
		return err
	}}, nil
}

func openCuckoo[K weft.Key, V weft.Value](dev device.Device, o *cuckoo.Options) (subject[K, V], error) {
	m, err := cuckoo.New[K, V](dev, o)
	if err != nil {
		return nil, err
	}
	return mapSubject[K, V]{m.Map, func(ctx context.Context, row *Row) error {
		stats, err := m.Stats(ctx)
		row.BytesPerEntry = figure(float64(stats.Bytes) / float64(stats.Len))
		row.Measured = &Reads{PerHit: stats.PerHit, PerMiss: stats.PerMiss, PerInsert: stats.PerInsert}
		if stats.Model.PerHit > 0 { // unless buckets have a single slot
			row.Model = &Reads{PerHit: stats.Model.PerHit, PerMiss: stats.Model.PerMiss, PerInsert: stats.Model.PerInsert}
		}
		return err
	}}, nil
}

type setSubject[K weft.Key] struct{ *linear.Set[K] }

func (m setSubject[K]) put(s *device.Stream, keys device.Slice[K], _ device.Slice[uint32]) error {
	return m.AddOn(s, keys, device.Slice[bool]{})
}

func (m setSubject[K]) get(s *device.Stream, keys device.Slice[K], _ device.Slice[uint32], found device.Slice[bool]) error {
	return m.ContainsOn(s, keys, found)
}

func (m setSubject[K]) remove(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool]) error {
	return m.DeleteOn(s, keys, deleted)
}

func (m setSubject[K]) describe(ctx context.Context, row *Row) error {
	stats, err := m.Stats(ctx)
	describeLinear(stats, row)
	return err
}

func describeLinear(s linear.Stats, row *Row) {
	row.BytesPerEntry = figure(float64(s.Bytes) / float64(s.Len))
	row.MeanProbe = figure(s.MeanProbe)
	row.MaxProbe = figure(float64(s.MaxProbe))
}

// columns holds batches on the device: pairs to insert, and lookups with a known number of hits.
type columns[K weft.Key, V weft.Value] struct {
	n                      int
	keys, hits, miss, half device.Slice[K]
	vals, out              device.Slice[V]
	flags                  device.Slice[bool]
	r                      *runner
}

// bitsOf returns the width of a key or value in bits.
func bitsOf[T weft.Key | weft.Value]() int {
	var x T
	return 8 * int(unsafe.Sizeof(x))
}

// slotBytes returns the size of a slot that holds a key and a value. 12 bytes take 16.
func slotBytes[K weft.Key, V weft.Value]() int {
	var k K
	var v V
	return 1 << bits.Len(uint(unsafe.Sizeof(k)+unsafe.Sizeof(v)-1))
}

func columnBytes[K weft.Key, V weft.Value]() int {
	var k K
	var v V
	return 4*int(unsafe.Sizeof(k)) + 2*int(unsafe.Sizeof(v)) + 1
}

func newColumns[K weft.Key, V weft.Value](r *runner, n int) (c *columns[K, V], err error) {
	c = &columns[K, V]{n: n, r: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.free())
		}
	}()
	host := make([]K, n)
	vals := make([]V, n)
	workload.Unique(host, r.Seed, 0)
	workload.Values(vals, host)
	if c.keys, err = device.Upload(r.stream, host); err != nil {
		return c, err
	}
	if c.vals, err = device.Upload(r.stream, vals); err != nil {
		return c, err
	}
	for _, q := range []struct {
		column *device.Slice[K]
		share  float64
	}{{&c.hits, 1}, {&c.miss, 0}, {&c.half, .5}} {
		workload.Lookups(host, r.Seed, uint64(n), q.share, r.Seed+1)
		if *q.column, err = device.Upload(r.stream, host); err != nil {
			return c, err
		}
	}
	if c.out, err = device.Make[V](r.Device, n); err != nil {
		return c, err
	}
	c.flags, err = device.Make[bool](r.Device, n)
	return c, err
}

func (c *columns[K, V]) free() error {
	return c.r.free(&c.keys, &c.hits, &c.miss, &c.half, &c.vals, &c.out, &c.flags)
}

// errWrong reports a wrong result of a structure. Such a result is a defect.
var errWrong = errors.New("wrong answer")

// checkFlags verifies that the number of set flags is want.
func checkFlags(ctx context.Context, r *runner, flags device.Slice[bool], what string, want int) error {
	host := make([]bool, flags.Len())
	if err := flags.CopyTo(ctx, r.stream, host); err != nil {
		return err
	}
	got := 0
	for _, f := range host {
		if f {
			got++
		}
	}
	if got != want {
		return fmt.Errorf("%w: %s succeeded for %d of %d keys, want %d", errWrong, what, got, len(host), want)
	}
	return nil
}

// checkValues verifies that the first and the last lookups have returned the values of their keys.
func checkValues[K weft.Key, V weft.Value](ctx context.Context, r *runner, keys device.Slice[K], vals device.Slice[V]) error {
	const sample = 1 << 12
	n := keys.Len()
	for _, lo := range []int{0, max(n-sample, 0)} {
		hi := min(lo+sample, n)
		k, v := make([]K, hi-lo), make([]V, hi-lo)
		if err := keys.Sub(lo, hi).CopyTo(ctx, r.stream, k); err != nil {
			return err
		}
		if err := vals.Sub(lo, hi).CopyTo(ctx, r.stream, v); err != nil {
			return err
		}
		for i := range k {
			if want := workload.Value[K, V](k[i]); v[i] != want {
				return fmt.Errorf("%w: key %v has value %v, want %v", errWrong, k[i], v[i], want)
			}
		}
	}
	return nil
}
