// Package baseline implements the persistent hash indexes that the GPHash paper compares with,
// following its descriptions. [CreateClevel] creates a Clevel hashing index, in which one thread
// runs each operation. [CreateSlab] creates a slab hash with an undo log. Both keep their data in
// the memory of a pool, and serve as peers in measurements only. Their pools cannot be opened
// again, although the tests recover the index from any state after a crash.
//
// Both accept the batches of package gphash and distribute the operations to all cores. Operations
// on the same key in a batch run in no particular order, as in the paper's ports. One batch runs at
// a time.
//
// # On a GPU
//
// If [Options].Device is a GPU, the indexes are the paper's Clevel-GPM and SlabHash-GPM: kernels
// work on the pool, which the GPU has mapped. They write the same words as the host, and the same
// code recovers them.
//
// The slab hash runs each operation in a warp. The warp reads a slab (128 bytes if keys have 8) at
// once, and all its lanes log, write and copy. As on the host, a change has four fences: after the
// log, after its validation, after the change, and after the invalidation of the log. Clevel
// hashing runs each operation in a thread, with two fences per change and no lock. Neither index
// sorts a batch or coordinates its operations. Batches may lie in the memory of the GPU (see
// [Index.PutOn]).
//
// The indexes have some advantages that the paper's ports may lack. Locks of buckets and lists of
// free records lie in device memory. In the slab hash, only chains of slabs grow. Clevel hashing
// has two levels with slots for at least 1.5 times the capacity, so no insertion waits for a level
// or moves a record. A batch uses only memory that was free before it began.
package baseline

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// Options configure an index.
type Options struct {
	KeySize, ValueSize int // in bytes
	// Capacity is the number of keys that fit without growing.
	Capacity int
	// Size is the size of the pool in bytes. The logs of a slab hash are added to it.
	Size int64
	Seed uint64
	// NoLog omits the log of a slab hash, to show its cost. The index then does not survive a
	// crash.
	NoLog bool
	// Device runs the batches if it is a GPU. Otherwise all cores of the host do.
	Device device.Device
}

// gpu returns the GPU that runs the batches, or nil.
func (o *Options) gpu() device.Device {
	if _, host := o.Device.(device.Host); host {
		return nil
	}
	return o.Device
}

// nThreads returns the number of host threads, or of GPU warps, that run at the same time.
func nThreads(o Options) int {
	if dev := o.gpu(); dev != nil {
		return nLogs(dev)
	}
	return runtime.GOMAXPROCS(0)
}

// table is one of the two indexes. Host threads call its methods concurrently.
type table interface {
	get(th *thread, it *item, value []byte) bool
	put(th *thread, it *item, value []byte) (inserted bool, err error)
	remove(th *thread, it *item) bool
	// slots returns the number of slots. It must not run concurrently with other calls.
	slots() uint64
	// recycle frees the units that a thread has retired. It runs between batches.
	recycle(th *thread)
}

// Index is a hash index in the memory of a pool.
type Index struct {
	table   table
	pool    *pool.Pool
	o       Options
	threads []*thread
	gpu     *gpuIndex // nil if host threads run the batches
	last    submission
	mu      sync.Mutex // held while a batch runs
	keys    int
}

// errNoSpace means that the pool has no space left.
var errNoSpace = fmt.Errorf("%w: the pool is used up", op.ErrFull)

// createPool creates a pool. The pool treats the data of the index as a single level.
func createPool(path string, o Options) (*pool.Pool, error) {
	size := o.Size / pool.Page * pool.Page
	s := &pool.Superblock{Tool: "baseline", Geometry: pool.Geometry{
		KeySize: uint32(o.KeySize), ValueSize: uint32(o.ValueSize), Slots: 8, Hashes: 2, Levels: 1, HashID: pool.FastHash, Unit: pool.Page / pm.Word,
	}}
	s.Levels[0] = pool.Level{Offset: pool.DataStart, Length: uint64(max(size-pool.DataStart, 0)), State: pool.Live}
	return pool.Create(path, s, size)
}

// create creates a pool and an index in it. build makes the table in words [first,end) of the pool.
func create(path string, o Options, build func(mem *pm.Memory, first, end uint64, threads int) (gpuTable, error)) (*Index, error) {
	p, err := createPool(path, o)
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	x := &Index{pool: p, o: o}
	if err := x.open(build); err != nil {
		return nil, fmt.Errorf("baseline: %w", errors.Join(err, p.Close()))
	}
	return x, nil
}

// open makes the table, and the threads or the GPU index that run batches.
func (x *Index) open(build func(mem *pm.Memory, first, end uint64, threads int) (gpuTable, error)) error {
	threads, mem, dev := nThreads(x.o), x.pool.Memory(), x.o.gpu()
	t, err := build(mem, pool.DataStart/pm.Word, mem.Words(), threads)
	if err != nil {
		return err
	}
	x.table = t
	if dev != nil {
		x.gpu, err = newGPUIndex(context.Background(), dev, t, mem, x.o)
		return err
	}
	x.threads = make([]*thread, threads)
	for i := range x.threads {
		x.threads[i] = &thread{number: i}
	}
	return nil
}

// Close closes the index and its pool.
func (x *Index) Close() (err error) {
	if x.gpu != nil {
		err = errors.Join(x.sync(), x.gpu.close())
	}
	return errors.Join(err, x.pool.Close())
}

// Len returns the number of keys.
func (x *Index) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.keys
}

// Slots returns the current number of slots. The index must run on the host.
func (x *Index) Slots() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return int(x.table.slots())
}

// grain is the number of operations that a thread takes at a time.
const grain = 64

// forEach distributes n operations to the threads and adds up their deltas. It ends early when the
// context ends or an operation fails.
func (x *Index) forEach(ctx context.Context, n int, body func(th *thread, i int) (delta int, err error)) (delta int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var next, sum atomic.Int64
	errs := make([]error, len(x.threads))
	var wg sync.WaitGroup
	for t, th := range x.threads {
		x.table.recycle(th)
		wg.Go(func() {
			for errs[t] == nil {
				lo := int(next.Add(grain)) - grain
				if lo >= n {
					return
				}
				errs[t] = ctx.Err()
				for i := lo; i < min(lo+grain, n) && errs[t] == nil; i++ {
					var d int
					d, errs[t] = body(th, i)
					sum.Add(int64(d))
				}
			}
		})
	}
	wg.Wait()
	return int(sum.Load()), errors.Join(errs...)
}

func (x *Index) onGPU(ctx context.Context, kind op.Kind, n int, c batch.Columns) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.sync(); err != nil {
		return 0, err
	}
	c[batch.Keys] = c[batch.Keys].WithWidth(x.o.KeySize)
	for _, r := range []batch.Role{batch.Vals, batch.Out} {
		if c[r].Given() {
			c[r] = c[r].WithWidth(x.o.ValueSize)
		}
	}
	n, err := x.gpu.run(ctx, &batch.Batch{N: n, Kind: kind, Columns: c})
	if kind != op.Get || c[batch.Kinds].Given() {
		x.keys += n
	}
	return n, err
}

func (x *Index) row(of []byte, i, size int) []byte { return of[i*size : (i+1)*size] }

func (x *Index) item(keys []byte, i int) item { return newItem(x.row(keys, i, x.o.KeySize), x.o.Seed) }

// Put inserts pairs or replaces values, and returns the number of new keys.
func (x *Index) Put(ctx context.Context, keys, values []byte) (inserted int, err error) {
	if x.gpu != nil {
		return x.onGPU(ctx, op.Put, len(keys)/x.o.KeySize, batch.Columns{batch.Keys: batch.Input(keys), batch.Vals: batch.Input(values)})
	}
	inserted, err = x.forEach(ctx, len(keys)/x.o.KeySize, func(th *thread, i int) (int, error) {
		it := x.item(keys, i)
		return x.put(th, &it, x.row(values, i, x.o.ValueSize))
	})
	x.keys += inserted
	return inserted, err
}

func (x *Index) put(th *thread, it *item, value []byte) (int, error) {
	inserted, err := x.table.put(th, it, value)
	return one(inserted), err
}

// Get looks up keys and returns the number of keys found. Values of absent keys are undefined.
func (x *Index) Get(ctx context.Context, keys, values []byte, found []bool) (hits int, err error) {
	if x.gpu != nil {
		return x.onGPU(ctx, op.Get, len(keys)/x.o.KeySize, batch.Columns{
			batch.Keys: batch.Input(keys), batch.Vals: batch.Output(values), batch.OK: batch.Optional(found),
		})
	}
	return x.forEach(ctx, len(keys)/x.o.KeySize, func(th *thread, i int) (int, error) {
		it := x.item(keys, i)
		th.alone = true // only reads run concurrently
		ok := x.table.get(th, &it, x.row(values, i, x.o.ValueSize))
		th.alone = false
		if found != nil {
			found[i] = ok
		}
		return one(ok), nil
	})
}

// Delete removes keys and returns the number of keys that were present.
func (x *Index) Delete(ctx context.Context, keys []byte, deleted []bool) (n int, err error) {
	if x.gpu != nil {
		n, err = x.onGPU(ctx, op.Delete, len(keys)/x.o.KeySize, batch.Columns{batch.Keys: batch.Input(keys), batch.OK: batch.Optional(deleted)})
		return -n, err
	}
	n, err = x.forEach(ctx, len(keys)/x.o.KeySize, func(th *thread, i int) (int, error) {
		it := x.item(keys, i)
		ok := x.table.remove(th, &it)
		if deleted != nil {
			deleted[i] = ok
		}
		return one(ok), nil
	})
	x.keys -= n
	return n, err
}

// Apply runs a mixed batch of OpGet, OpPut and OpDelete. In values, rows of Puts are inputs, rows
// of Gets receive the values found, and other rows are undefined. ok receives whether each key was
// found, inserted or deleted.
func (x *Index) Apply(ctx context.Context, kinds []weft.OpKind, keys, values []byte, ok []bool) error {
	if x.gpu != nil {
		_, err := x.onGPU(ctx, op.Get, len(kinds), batch.Columns{
			batch.Kinds: batch.Input(kinds), batch.Keys: batch.Input(keys), batch.Vals: batch.Input(bytes.Clone(values)),
			batch.Out: batch.Output(values), batch.OK: batch.Optional(ok),
		})
		return err
	}
	delta, err := x.forEach(ctx, len(kinds), func(th *thread, i int) (delta int, err error) {
		it, value := x.item(keys, i), x.row(values, i, x.o.ValueSize)
		switch kinds[i] {
		case weft.OpGet:
			ok[i] = x.table.get(th, &it, value)
		case weft.OpPut:
			delta, err = x.put(th, &it, value)
			ok[i] = delta > 0
		case weft.OpDelete:
			ok[i] = x.table.remove(th, &it)
			delta = -one(ok[i])
		default:
			err = fmt.Errorf("baseline: %w: kind %v, at %d", op.ErrOptions, kinds[i], i)
		}
		return delta, err
	})
	x.keys += delta
	return err
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// item is a key and its hash.
type item struct {
	key  []byte
	hash uint64
}

func newItem(key []byte, seed uint64) item {
	h, rest := seed^uint64(len(key)), key
	for ; len(rest) >= pm.Word; rest = rest[pm.Word:] {
		h = hash.Uint64(h^binary.LittleEndian.Uint64(rest), seed)
	}
	for i, b := range rest {
		h ^= uint64(b) << (8 * i)
	}
	if len(rest) > 0 {
		h = hash.Uint64(h, seed)
	}
	return item{key, h}
}

func (it *item) secondHash() uint64 { return hash.Uint64(it.hash, 0x9e3779b97f4a7c15) }
