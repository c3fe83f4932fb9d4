package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"go.etcd.io/bbolt"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/gphash"
)

// keySize is the size of keys in bytes, and valueSize the size of the values of gphash and its
// peers.
const (
	keySize   = 8
	valueSize = 128
)

// Store is a compared store. A batch is the concatenation of its keys, and of its values.
type Store interface {
	// Put inserts or updates records. When it returns, they are as durable as the store promises.
	Put(ctx context.Context, keys, values []byte) error
	// Get looks up records on all cores.
	Get(ctx context.Context, keys, values []byte, found []bool) error
	Close() error
}

// newStore opens a store in dir that expects records.
type newStore = func(dir string, records int) (Store, error)

// StoreKind is a kind of store.
type StoreKind struct {
	Name     string
	Survives string // event that a batch survives on a disk once Put has returned
	New      newStore
	// Reopens reports whether New opens the records that an earlier Store left in dir.
	Reopens bool
	// Target is the target for the rate of the first store over the rate of this store, or 0.
	Target float64
}

// Stores returns the compared stores. Speedups refer to the first.
func Stores() []StoreKind {
	return []StoreKind{
		{Name: "gphash", Survives: "process", New: newGPHash},
		{Name: "pebble, sync", Survives: "power failure", New: newPebble, Reopens: true},
		{Name: "bbolt", Survives: "power failure", New: newBolt(false), Reopens: true},
		{Name: "bbolt, no sync", Survives: "process", New: newBolt(true), Reopens: true},
	}
}

func key(keys []byte, i int) []byte { return keys[i*keySize : (i+1)*keySize] }

// value returns value i of n.
func value(values []byte, i, n int) []byte {
	size := len(values) / n
	return values[i*size : (i+1)*size]
}

// parallel calls body for equal parts of [0,n), each in a goroutine.
func parallel(parts, n int, body func(lo, hi int) error) error {
	parts = min(parts, n)
	errs := make([]error, parts)
	var wg sync.WaitGroup
	for p := range parts {
		wg.Go(func() { errs[p] = body(p*n/parts, (p+1)*n/parts) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

type gphashStore struct {
	dev *cpu.Device
	x   *gphash.Index
}

func newGPHash(dir string, records int) (Store, error) {
	dev, err := cpu.Open(nil)
	if err != nil {
		return nil, err
	}
	x, err := gphash.Create(filepath.Join(dir, "pool"), dev, gphash.Options{
		KeySize: keySize, ValueSize: valueSize, Capacity: records, Size: int64(400*records) + 40<<20,
	})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return gphashStore{dev, x}, nil
}

func (s gphashStore) Put(ctx context.Context, keys, values []byte) error {
	_, err := s.x.Put(ctx, keys, values)
	return err
}

func (s gphashStore) Get(ctx context.Context, keys, values []byte, found []bool) error {
	_, err := s.x.Get(ctx, keys, values, found)
	return err
}

func (s gphashStore) Close() error { return errors.Join(s.x.Close(), s.dev.Close()) }

type pebbleStore struct{ db *pebble.DB }

// noLogger disables the logging of pebble.
type noLogger struct{}

func (noLogger) Infof(string, ...any)              {}
func (noLogger) Errorf(string, ...any)             {}
func (noLogger) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// newPebble opens pebble with a cache for all records, because the other stores keep them in
// memory. It sets the filters that pebble's manual recommends.
func newPebble(dir string, records int) (Store, error) {
	cache := pebble.NewCache(int64(400*records) + 64<<20)
	defer cache.Unref()
	o := &pebble.Options{Logger: noLogger{}, Cache: cache}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(filepath.Join(dir, "pebble"), o)
	return pebbleStore{db}, err
}

func (s pebbleStore) Put(_ context.Context, keys, values []byte) error {
	b, n := s.db.NewBatch(), len(keys)/keySize
	for i := range n {
		if err := b.Set(key(keys, i), value(values, i, n), nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(b.Commit(pebble.Sync), b.Close())
}

func (s pebbleStore) set(_ context.Context, key, value []byte) error {
	return s.db.Set(key, value, pebble.Sync)
}

func (s pebbleStore) Get(_ context.Context, keys, values []byte, found []bool) error {
	return parallel(runtime.GOMAXPROCS(0), len(found), func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			v, closer, err := s.db.Get(key(keys, i))
			found[i] = err == nil
			if err == nil {
				copy(value(values, i, len(found)), v)
				err = closer.Close()
			}
			if err != nil && !errors.Is(err, pebble.ErrNotFound) {
				return err
			}
		}
		return nil
	})
}

func (s pebbleStore) Close() error { return s.db.Close() }

type boltStore struct{ db *bbolt.DB }

var bucket = []byte("records")

func newBolt(noSync bool) newStore {
	return func(dir string, _ int) (Store, error) {
		db, err := bbolt.Open(filepath.Join(dir, "bolt"), 0o600, &bbolt.Options{NoSync: noSync})
		if err != nil {
			return nil, err
		}
		return boltStore{db}, db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists(bucket)
			return err
		})
	}
}

func (s boltStore) Put(_ context.Context, keys, values []byte) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		b, n := tx.Bucket(bucket), len(keys)/keySize
		for i := range n {
			if err := b.Put(key(keys, i), value(values, i, n)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s boltStore) Get(_ context.Context, keys, values []byte, found []bool) error {
	return parallel(runtime.GOMAXPROCS(0), len(found), func(lo, hi int) error {
		return s.db.View(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucket)
			for i := lo; i < hi; i++ {
				v := b.Get(key(keys, i))
				found[i] = v != nil
				copy(value(values, i, len(found)), v)
			}
			return nil
		})
	})
}

func (s boltStore) Close() error { return s.db.Close() }
