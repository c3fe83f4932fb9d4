// Package weft is the shared vocabulary of GPU data structures for Go: the
// types that keys and values may have, the shape of a batch, the interfaces
// that structures of one kind have in common, and the errors they return.
// It holds no structure itself; see the packages linear and slab and, for
// devices, device and device/auto.
//
// # Batches
//
// Operations take slices and work on all elements at once, on every core of
// the CPU or on a GPU. Outputs are slices of the caller, as long as the
// inputs; a length mismatch panics. An output may be nil where its method
// says so. Bad data and exhausted resources are errors, never panics.
//
// # Concurrency
//
// All methods may be called from many goroutines. Lookups run side by side;
// batches that change a structure run one after another, each on the whole
// device.
//
// # Cancelling
//
// A batch is cut into pieces, and a context is looked at between pieces. A
// cancelled call returns the context's error and the count of what it did
// before; which operations that covers is the prefix of the batch, up to a
// piece.
package weft

import (
	"context"
	"iter"

	"github.com/weftgo/weft/internal/op"
)

// Key are the types of keys. Every bit pattern is a legal key.
type Key interface {
	~uint32 | ~uint64 | ~int32 | ~int64
}

// Value are the types of values. Every bit pattern is a legal value.
type Value interface {
	~uint32 | ~uint64 | ~int32 | ~int64 | ~float32 | ~float64
}

// Errors of structures; wrapped with what and where. Errors of devices
// (device.ErrMemory, device.ErrLost, …) pass through.
var (
	// ErrClosed: the structure has been closed.
	ErrClosed = op.ErrClosed
	// ErrFull: a structure of fixed size has no room for some keys of the
	// batch. The others were processed.
	ErrFull = op.ErrFull
	// ErrOptions: the options of a constructor contradict themselves or ask
	// for more than the structure can hold.
	ErrOptions = op.ErrOptions
)

// OpKind says what an [Op] does.
type OpKind uint8

// The operations of a mixed batch.
const (
	OpGet    OpKind = iota // look the key up
	OpPut                  // insert the pair or replace the value; in a multimap, add the pair
	OpPutNew               // insert the pair if the key is absent
	OpDelete               // remove the key; in a multimap, its first pair

	// OpDeleteAll removes all pairs of the key, one after another: concurrent
	// operations may see it with some of them gone. Multimaps only.
	OpDeleteAll
)

// String is the name of the operation.
func (k OpKind) String() string {
	switch k {
	case OpGet:
		return "Get"
	case OpPut:
		return "Put"
	case OpPutNew:
		return "PutNew"
	case OpDelete:
		return "Delete"
	case OpDeleteAll:
		return "DeleteAll"
	}
	return "invalid operation"
}

// Op is one operation of a mixed batch.
type Op[K Key, V Value] struct {
	Kind  OpKind
	Key   K
	Value V // OpPut and OpPutNew
}

// Result is what an [Op] came to.
type Result[V Value] struct {
	// Value is the value found by OpGet, or by an OpPutNew whose key was
	// there already; otherwise zero.
	Value V
	// OK reports: OpGet, the key was there; OpPut and OpPutNew, the pair is
	// new; OpDelete and OpDeleteAll, the key was there.
	OK bool
}

// Map is what all maps of weft can do. Methods take batches; see the package
// documentation.
type Map[K Key, V Value] interface {
	// Put inserts pairs or replaces values and counts the keys that were new.
	Put(ctx context.Context, keys []K, vals []V) (inserted int, err error)
	// PutNew inserts the pairs whose keys are absent. ok, if not nil, reports
	// which.
	PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (inserted int, err error)
	// Get looks keys up; vals[i] is zero where found[i] is false. found may
	// be nil.
	Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error)
	// Contains is Get without the values. found may be nil.
	Contains(ctx context.Context, keys []K, found []bool) (hits int, err error)
	// Delete removes keys; deleted, if not nil, reports which were there.
	Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error)
	// Apply runs a mixed batch. res may be nil.
	Apply(ctx context.Context, ops []Op[K, V], res []Result[V]) error
	// Len is the number of pairs.
	Len() int
	// All iterates over the pairs, in no order. Changes made meanwhile may or
	// may not be seen; a pair never changed is seen exactly once.
	All() iter.Seq2[K, V]
	// Err is the error that ended the last iteration of All early, or nil.
	Err() error
	// Clear removes everything and keeps the memory.
	Clear(ctx context.Context) error
	// Close frees the structure. Idempotent; later calls return ErrClosed.
	Close() error
}

// MultiMap is what all multimaps of weft can do: maps in which a key may have
// several pairs. The first pair of a key is the one that was added first; of
// pairs added by one batch, a GPU decides which.
type MultiMap[K Key, V Value] interface {
	// Put adds pairs and counts them.
	Put(ctx context.Context, keys []K, vals []V) (inserted int, err error)
	// PutNew adds the pairs whose keys are absent. ok, if not nil, reports
	// which.
	PutNew(ctx context.Context, keys []K, vals []V, ok []bool) (inserted int, err error)
	// Get looks up the first value of each key; vals[i] is zero where
	// found[i] is false. found may be nil.
	Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error)
	// GetAll looks up all values of each key: those of keys[i] are
	// vals[offsets[i]:offsets[i+1]], the first one first.
	GetAll(ctx context.Context, keys []K) (offsets []int, vals []V, err error)
	// Count counts the pairs of each key, and altogether. counts may be nil.
	Count(ctx context.Context, keys []K, counts []int) (total int, err error)
	// Contains is Get without the values. found may be nil.
	Contains(ctx context.Context, keys []K, found []bool) (hits int, err error)
	// Delete removes the first pair of each key, once for each time that the
	// key is in the batch; deleted, if not nil, reports which were there.
	Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error)
	// DeleteAll removes all pairs of the keys. removed, if not nil, tells of
	// how many each key was relieved.
	DeleteAll(ctx context.Context, keys []K, removed []int) (n int, err error)
	// Apply runs a mixed batch. res may be nil.
	Apply(ctx context.Context, ops []Op[K, V], res []Result[V]) error
	// Len is the number of pairs.
	Len() int
	// All iterates over the pairs, those of a key in their order, as Map.All
	// does.
	All() iter.Seq2[K, V]
	// Err is the error that ended the last iteration of All early, or nil.
	Err() error
	// Clear removes everything and keeps the memory.
	Clear(ctx context.Context) error
	// Close frees the structure. Idempotent; later calls return ErrClosed.
	Close() error
}

// Set is what all sets of weft can do.
type Set[K Key] interface {
	// Add inserts the keys that are absent. added, if not nil, reports which.
	Add(ctx context.Context, keys []K, added []bool) (n int, err error)
	// Contains looks keys up. found may be nil.
	Contains(ctx context.Context, keys []K, found []bool) (hits int, err error)
	// Delete removes keys; deleted, if not nil, reports which were there.
	Delete(ctx context.Context, keys []K, deleted []bool) (n int, err error)
	// Len is the number of keys.
	Len() int
	// All iterates over the keys, in no order, as Map.All does.
	All() iter.Seq[K]
	// Err is the error that ended the last iteration of All early, or nil.
	Err() error
	// Clear removes everything and keeps the memory.
	Clear(ctx context.Context) error
	// Close frees the structure. Idempotent; later calls return ErrClosed.
	Close() error
}
