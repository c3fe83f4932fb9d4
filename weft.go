// Package weft implements GPU data structures for Go: maps, ordered maps, sets and multimaps. Each
// method takes a batch of keys and runs on all cores of a CPU or on a GPU. Package weft holds the
// public types. Packages such as linear, slab and sorted make the structures. Packages device and
// device/auto provide the devices.
//
// # Batches
//
// A method takes slices and processes all their elements in one call. Outputs are slices that the
// caller passes, as long as the inputs; a length mismatch panics. An output may be nil if the
// method's comment says so. Bad data and exhausted resources are errors, never panics.
//
// Every method has two forms. One takes Go slices and has done its work when it returns. The other
// has On in its name and takes a stream and slices in the memory of the structure's device. It
// copies nothing and returns before the work is done. The slices must stay valid until the stream
// has finished. Changes run in the order of the calls, even if their streams differ. A lookup sees
// all changes that were submitted to its stream earlier. An On method that changes a structure
// waits only if the batch may exceed the allocated memory, or may fill a structure of fixed size.
// An operation overflows if the structure has no space for its key. It runs again once the
// structure has grown. Sync returns the operations that still overflow, in a [PartialError]. The
// optional last argument of an On method is a counter in device memory. The method adds to it the
// count that the other form returns.
//
// # Duplicates within a batch
//
//	Put        the last one wins; in a multimap, each adds a pair
//	PutNew     the first one is inserted, and its flag is set
//	GetOrPut   the first one is inserted, the others load its value
//	Assign     all get the same id
//	Delete     the first one sets its flag if the key was present; in a multimap,
//	           each removes one pair until none is left
//	DeleteRange  a pair inside several ranges counts for the first of them
//	DeleteAll  on a CPU the first one removes all pairs; on a GPU each removes some
//	Reduce     all are combined
//	Apply      concurrent: the results match some order of the operations; on a
//	           CPU the batch order, except for operations that overflow at first
//
// With the option Unordered, the order of duplicates is undefined for Put, PutNew, GetOrPut, Assign
// and Delete in maps and sets.
//
// # Concurrency
//
// Many goroutines may call all methods, also from inside a loop over the same structure. Changes
// run one after another, in the order of the calls. Lookups run concurrently with each other. On a
// GPU they also run concurrently with changes. On a CPU they wait for the running change, except in
// packages sorted and lsm. Three operations always block lookups: Clear, the removal of deleted
// pairs in place, and Assign while it inserts keys. A call that waits for the writer lock returns
// an error when its context ends.
//
// # Cancelling
//
// A call checks its context every few tens of milliseconds. A call that did not do everything
// returns a [PartialError], which wraps the cause. The error lists the operations that overflowed
// and the operations that were not tried.
package weft

import (
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Key is the constraint of key types. Every bit pattern is a legal key.
type Key interface {
	~uint32 | ~uint64 | ~int32 | ~int64 | ~int | ~uint
}

// Value is the constraint of value types. Every bit pattern is a legal value.
type Value interface {
	~uint32 | ~uint64 | ~int32 | ~int64 | ~int | ~uint | ~float32 | ~float64
}

// The errors of structures. Methods wrap them with the names of the structure and the method.
// Errors of devices, such as device.ErrMemory and device.ErrLost, are returned wrapped as well.
var (
	// ErrClosed reports that the structure, its device, or the stream of the call has been closed.
	// It equals device.ErrClosed.
	ErrClosed = op.ErrClosed
	// ErrFull reports that some operations of the batch overflow, because the structure has a fixed
	// size or because their keys collide. All other operations that were tried have been done.
	ErrFull = op.ErrFull
	// ErrOptions reports that the options of a constructor contradict each other or ask for more
	// than the structure can hold.
	ErrOptions = op.ErrOptions
	// ErrFormat reports that the data passed to Load was not written by Save, is damaged, or holds
	// keys or values of other types.
	ErrFormat = op.ErrFormat
	// ErrCorrupt reports that Check found a structure that breaks its own invariants. The cause is
	// a fault in this module, or in other code that writes the structure's memory.
	ErrCorrupt = op.ErrCorrupt
)

// OpKind is the kind of an [Op]. Kernels and files contain its numeric values, which must therefore
// not change.
type OpKind uint8

// The operations of a mixed batch.
const (
	OpGet       OpKind = OpKind(op.Get)       // look the key up
	OpPut       OpKind = OpKind(op.Put)       // insert or replace; in a multimap, add the pair
	OpPutNew    OpKind = OpKind(op.PutNew)    // insert the pair if the key is absent
	OpDelete    OpKind = OpKind(op.Delete)    // remove the key; in a multimap, its first pair
	OpDeleteAll OpKind = OpKind(op.DeleteAll) // remove the key's pairs one by one; multimaps only

	// Insert the pair, or combine its value with the stored value as [Map.Reduce] does; maps only.
	OpSum OpKind = OpKind(op.Sum)
	OpMin OpKind = OpKind(op.Min)
	OpMax OpKind = OpKind(op.Max)
	OpAnd OpKind = OpKind(op.And)
	OpOr  OpKind = OpKind(op.Or)

	// Replace the value of a present key, and report whether the key is present; ordered maps and
	// the indexes of package gphash only.
	OpUpdate OpKind = OpKind(op.Update)
)

// String returns the name of the operation.
func (k OpKind) String() string { return op.Kind(k).String() }

// MarshalText returns the name of the operation, or [ErrOptions] if k is not a known kind.
func (k OpKind) MarshalText() ([]byte, error) { return op.Kind(k).MarshalText() }

// UnmarshalText sets k to the kind with the given name, in upper or lower case. So flag.TextVar
// accepts an OpKind.
func (k *OpKind) UnmarshalText(text []byte) error { return (*op.Kind)(k).UnmarshalText(text) }

// Reduces reports whether the operation combines its value with the stored value.
func (k OpKind) Reduces() bool { return op.Kind(k).Reduces() }

// Inserts reports whether the operation may insert a pair, which may need memory.
func (k OpKind) Inserts() bool { return op.Kind(k).Inserts() }

// Reduction is the function by which [Map.Reduce] combines a value with the stored value.
type Reduction uint8

// The reductions. Results for integers are exact and independent of the order of the pairs. The
// last digits of float sums depend on the order.
const (
	Sum Reduction = Reduction(op.Sum) // integers wrap around
	// like Go's min: NaN if either value is NaN; -0 is less than 0
	Min Reduction = Reduction(op.Min)
	Max Reduction = Reduction(op.Max) // like Go's max
	And Reduction = Reduction(op.And) // bit by bit; integers only
	Or  Reduction = Reduction(op.Or)  // bit by bit; integers only
)

var reductions = enum.Names[Reduction]{Type: "weft.Reduction", Names: []string{Sum: "Sum", Min: "Min", Max: "Max", And: "And", Or: "Or"}, Err: op.ErrOptions}

// String returns the name of the reduction.
func (r Reduction) String() string { return reductions.String(r) }

// MarshalText returns the name of the reduction, or [ErrOptions] if r is not a known one.
func (r Reduction) MarshalText() ([]byte, error) { return reductions.Text(r) }

// UnmarshalText sets r to the reduction with the given name, in upper or lower case. So
// flag.TextVar accepts a Reduction.
func (r *Reduction) UnmarshalText(text []byte) error { return reductions.Read(r, text) }

// Op is one operation of a mixed batch.
type Op[K Key, V Value] struct {
	Kind  OpKind
	Key   K
	Value V // used by OpPut, OpPutNew, OpUpdate and the reductions
}

// Result is the outcome of an [Op].
type Result[V Value] struct {
	// Value is the value that OpGet found, or that OpPutNew found for a key already present.
	// Otherwise it is zero.
	Value V
	// OK means, for OpGet, OpUpdate, OpDelete and OpDeleteAll, that the key was present. For OpPut,
	// OpPutNew and the reductions it means that the pair is new.
	OK bool
}
