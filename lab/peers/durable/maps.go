package main

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/linear"
)

// Jobs on durable maps. Half of the keys of GetOrPut are new.
var (
	jobPut    = job{Mix: workload.Mix{Name: "Put new", InsertEvery: 1}}
	jobUpdate = job{Mix: workload.Mix{Name: "Put", Update: 1}}
	jobSingle = job{Mix: workload.Mix{Name: "Put, 64 goroutines", InsertEvery: 1}}
	mapJobs   = []job{
		jobPut,
		jobUpdate,
		{Mix: workload.Mix{Name: "Get", Read: 1}, target: .98},
		{Mix: workload.Mix{Name: "Reduce", Update: 1}, method: reduce},
		{Mix: workload.Mix{Name: "GetOrPut", Read: 1, InsertEvery: 2}, method: getOrPut},
	}
)

// Comparisons returns the comparisons of durable maps of 64-bit keys and values. All stores of a
// comparison make the same promise. In the last one, a map without a log shows what the log costs.
func Comparisons() []comparison {
	const power, process = "power failure", "process"
	system := StoreKind{Name: "durable, OS", Survives: process, New: newDurable(durable.OS), Reopens: true}
	return []comparison{
		{[]StoreKind{
			{Name: "durable, EveryBatch", Survives: power, New: newDurable(durable.EveryBatch), Reopens: true},
			{Name: "map and file, fdatasync", Survives: power, New: newPlain, Target: .7},
			{Name: "pebble, sync", Survives: power, New: newPebble, Reopens: true, Target: 3},
			{Name: "bbolt", Survives: power, New: newBolt(false), Reopens: true, Target: 5},
		}, []job{jobPut, jobUpdate}, 8},
		{[]StoreKind{
			{Name: "durable, Batcher", Survives: power, New: newSingles(newBatcher), Reopens: true},
			{Name: "pebble, sync", Survives: power, New: newSingles(newPebble), Reopens: true, Target: 2},
		}, []job{jobSingle}, 8},
		{[]StoreKind{system, {Name: "bbolt, no sync", Survives: process, New: newBolt(true), Reopens: true}}, []job{jobPut, jobUpdate}, 8},
		{[]StoreKind{system, {Name: "map without a log", Survives: "nothing", New: newMap, Target: .6}}, mapJobs, 8},
	}
}

// mapStore is a map with or without a log.
type mapStore struct {
	dev *cpu.Device
	m   *linear.Map[uint64, uint64]
}

// openMap opens a durable map in a folder, or without options a map without a log.
func openMap(dir string, opts *durable.Options) (s mapStore, err error) {
	if s.dev, err = cpu.Open(nil); err != nil {
		return s, err
	}
	empty := func() (*linear.Map[uint64, uint64], error) {
		return linear.New[uint64, uint64](s.dev, nil)
	}
	if opts == nil {
		s.m, err = empty()
	} else {
		s.m, err = durable.Open(context.Background(), filepath.Join(dir, "store"), empty, *opts)
	}
	if err != nil {
		err = errors.Join(err, s.dev.Close())
	}
	return s, err
}

func newMap(dir string, _ int) (Store, error) { return openMap(dir, nil) }

func newDurable(policy durable.Sync) newStore {
	return func(dir string, _ int) (Store, error) {
		return openMap(dir, &durable.Options{Sync: policy})
	}
}

func (s mapStore) Put(ctx context.Context, keys, values []byte) error {
	_, err := s.m.Put(ctx, batch.View[uint64](keys), batch.View[uint64](values))
	return err
}

// change changes the records of a call by a method other than Put.
func (s mapStore) change(ctx context.Context, m method, c *column) (err error) {
	keys, vals := batch.View[uint64](c.keys), batch.View[uint64](c.vals)
	if m == reduce {
		_, err = s.m.Reduce(ctx, keys, vals, weft.Sum)
	} else {
		_, err = s.m.GetOrPut(ctx, keys, vals, c.found)
	}
	return err
}

func (s mapStore) Get(ctx context.Context, keys, values []byte, found []bool) error {
	_, err := s.m.Get(ctx, batch.View[uint64](keys), batch.View[uint64](values), found)
	return err
}

func (s mapStore) Close() error { return errors.Join(s.m.Close(), s.dev.Close()) }

// plainStore is what a program without package durable can do: it appends the bytes of each batch
// to a file and syncs the file.
type plainStore struct {
	mapStore
	file *os.File
	buf  []byte
}

// frameHeader is the number of bytes that package durable adds to a batch.
const frameHeader = 40

func newPlain(dir string, _ int) (Store, error) {
	f, err := os.Create(filepath.Join(dir, "plain"))
	if err != nil {
		return nil, err
	}
	s, err := openMap(dir, nil)
	return &plainStore{s, f, make([]byte, frameHeader)}, err
}

func (s *plainStore) Put(ctx context.Context, keys, values []byte) error {
	if err := s.mapStore.Put(ctx, keys, values); err != nil {
		return err
	}
	s.buf = append(append(s.buf[:frameHeader], keys...), values...)
	_, err := s.file.Write(s.buf)
	return errors.Join(err, syncData(s.file))
}

func (s *plainStore) Close() error { return errors.Join(s.file.Close(), s.mapStore.Close()) }

// singleStore puts each record by a call of its own, from 64 goroutines.
type singleStore struct{ setter }

type setter interface {
	Store
	set(ctx context.Context, key, value []byte) error
}

func newSingles(of newStore) newStore {
	return func(dir string, records int) (Store, error) {
		s, err := of(dir, records)
		if err != nil {
			return nil, err
		}
		return singleStore{s.(setter)}, nil
	}
}

func (s singleStore) Put(ctx context.Context, keys, values []byte) error {
	n := len(keys) / keySize
	return parallel(64, n, func(lo, hi int) (err error) {
		for i := lo; i < hi && err == nil; i++ {
			err = s.set(ctx, key(keys, i), value(values, i, n))
		}
		return err
	})
}

// batcherStore changes a durable map through a Batcher.
type batcherStore struct {
	mapStore
	batcher *weft.Batcher[uint64, uint64]
}

func newBatcher(dir string, _ int) (Store, error) {
	m, err := openMap(dir, &durable.Options{})
	if err != nil {
		return nil, err
	}
	b, err := weft.NewBatcher(m.m, nil)
	return batcherStore{m, b}, err
}

func (s batcherStore) set(ctx context.Context, key, value []byte) error {
	_, err := s.batcher.Put(ctx, binary.NativeEndian.Uint64(key), binary.NativeEndian.Uint64(value))
	return err
}

func (s batcherStore) Close() error { return errors.Join(s.batcher.Close(), s.mapStore.Close()) }
