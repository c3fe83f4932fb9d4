// Package weft is GPU data structures for Go: maps, ordered maps, sets and multimaps that
// take batches of keys and run on every core of a CPU or on a GPU. It holds the types
// that users work with; structures are made by packages such as linear, slab and sorted,
// on the devices of package device and device/auto.
//
// # Batches
//
// Operations take slices and work on all elements at once. Outputs are slices of
// the caller, as long as the inputs; a length mismatch panics. An output may be
// nil where its method says so. Bad data and exhausted resources are errors,
// never panics.
//
// Every method has two forms. One takes Go slices, and is done when it returns.
// The other, with On in its name, takes slices on the structure's device and a
// stream: it returns before the work is done and copies nothing, and the slices
// must stay until the stream has done it. Changes run in the order of the calls,
// whatever their streams; lookups on one stream see the changes submitted to it
// before. A change that may need more memory than there is, or may fill a structure of fixed size,
// waits for its result, and those of its operations that found no room run again once there is more.
// Sync returns those that find none in the end, in a [PartialError].
// The last argument of On methods, which may be left out, is where on the device
// the number that the other form returns is added.
//
// # Duplicates within a batch
//
//	Put        the last one wins; in a multimap, each adds a pair
//	PutNew     the first one is inserted, and reports so
//	GetOrPut   the first one is inserted, the others load its value
//	Assign     all have one id
//	Delete     the first one reports that the key was there; in a multimap, each
//	           removes a pair, as long as there are any
//	DeleteRange  a pair of several ranges counts for the first
//	DeleteAll  on a CPU the first one removes all pairs; on a GPU each removes some
//	Reduce     all are combined
//	Apply      concurrent: any order of the batch's operations explains it; on a
//	           CPU that of the batch, but for those that find no room at first
//
// The option Unordered drops the order of Put, PutNew, GetOrPut, Assign and Delete in
// maps and sets.
//
// # Concurrency
//
// All methods may be called from many goroutines, also from inside a loop over
// the same structure. Changes take turns in the order of the calls. Lookups run
// side by side and, on a GPU, beside changes; on a CPU they wait for the change that
// runs, but for those of packages sorted and lsm. Clear, the dropping of deleted pairs in place, and Assign where it
// inserts hold lookups back while they run. Whoever waits for a turn gives up
// when its context ends.
//
// # Cancelling
//
// A context is looked at every few tens of milliseconds. A call that did not do
// everything returns a [PartialError], which wraps the cause and says what is left to do:
// the operations that found no room, and those after the last that was tried.
package weft

import (
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Key are the types of keys. Every bit pattern is a legal key.
type Key interface {
	~uint32 | ~uint64 | ~int32 | ~int64 | ~int | ~uint
}

// Value are the types of values. Every bit pattern is a legal value.
type Value interface {
	~uint32 | ~uint64 | ~int32 | ~int64 | ~int | ~uint | ~float32 | ~float64
}

// Errors of structures; wrapped with what and where. Errors of devices
// (device.ErrMemory, device.ErrLost, …) pass through.
var (
	// ErrClosed: the structure, or the device or stream that it was to use, has
	// been closed. It is device.ErrClosed.
	ErrClosed = op.ErrClosed
	// ErrFull: a structure has no room for some keys of the batch: because its
	// size is fixed, or because they collide. The others were processed.
	ErrFull = op.ErrFull
	// ErrOptions: the options of a constructor contradict themselves or ask
	// for more than the structure can hold.
	ErrOptions = op.ErrOptions
	// ErrFormat: a stream to load was not written by Save, is damaged, or holds
	// pairs of other types.
	ErrFormat = op.ErrFormat
	// ErrCorrupt: Check found a structure that breaks its own rules, which is a
	// mistake in this module, or in what else writes its memory.
	ErrCorrupt = op.ErrCorrupt
)

// OpKind says what an [Op] does. Kernels and files have the numbers.
type OpKind uint8

// The operations of a mixed batch.
const (
	OpGet       OpKind = OpKind(op.Get)       // look the key up
	OpPut       OpKind = OpKind(op.Put)       // insert the pair or replace the value; in a multimap, add the pair
	OpPutNew    OpKind = OpKind(op.PutNew)    // insert the pair if the key is absent
	OpDelete    OpKind = OpKind(op.Delete)    // remove the key; in a multimap, its first pair
	OpDeleteAll OpKind = OpKind(op.DeleteAll) // remove all pairs of the key, one after another; multimaps only

	// Insert the pair or combine its value with the one that is there, as
	// [Map.Reduce] does; maps only.
	OpSum OpKind = OpKind(op.Sum)
	OpMin OpKind = OpKind(op.Min)
	OpMax OpKind = OpKind(op.Max)
	OpAnd OpKind = OpKind(op.And)
	OpOr  OpKind = OpKind(op.Or)

	// Replace the value of a key that is there, and report whether it is; ordered
	// maps and the indexes of package gphash only.
	OpUpdate OpKind = OpKind(op.Update)
)

// String returns the name of the operation.
func (k OpKind) String() string { return op.Kind(k).String() }

// MarshalText returns the name of the operation, or [ErrOptions] if there is no such operation.
func (k OpKind) MarshalText() ([]byte, error) { return op.Kind(k).MarshalText() }

// UnmarshalText reads a name, in upper or lower case, so flag.TextVar takes an OpKind.
func (k *OpKind) UnmarshalText(text []byte) error { return (*op.Kind)(k).UnmarshalText(text) }

// Reduces reports whether the operation combines values.
func (k OpKind) Reduces() bool { return op.Kind(k).Reduces() }

// Inserts reports whether the operation may need memory for a pair.
func (k OpKind) Inserts() bool { return op.Kind(k).Inserts() }

// Reduction is how [Map.Reduce] combines a value with the one that is there.
type Reduction uint8

// The reductions. Of integers the outcome is exact, and the same in any order of
// the pairs; sums of floats depend on it in their last digits.
const (
	Sum Reduction = Reduction(op.Sum) // integers wrap
	Min Reduction = Reduction(op.Min) // as Go's min: NaN, if one of them is; -0 is less than 0
	Max Reduction = Reduction(op.Max) // as Go's max
	And Reduction = Reduction(op.And) // bit by bit; integers only
	Or  Reduction = Reduction(op.Or)  // bit by bit; integers only
)

var reductions = enum.Names[Reduction]{Type: "weft.Reduction", Names: []string{Sum: "Sum", Min: "Min", Max: "Max", And: "And", Or: "Or"}, Err: op.ErrOptions}

// String is the name of the reduction.
func (r Reduction) String() string { return reductions.String(r) }

// MarshalText is String, or weft.ErrOptions where there is no such value.
func (r Reduction) MarshalText() ([]byte, error) { return reductions.Text(r) }

// UnmarshalText reads a name, in upper or lower case: so flag.TextVar takes it.
func (r *Reduction) UnmarshalText(text []byte) error { return reductions.Read(r, text) }

// Op is one operation of a mixed batch.
type Op[K Key, V Value] struct {
	Kind  OpKind
	Key   K
	Value V // OpPut, OpPutNew, OpUpdate and the reductions
}

// Result is what an [Op] came to.
type Result[V Value] struct {
	// Value is the value found by OpGet, or by an OpPutNew whose key was
	// there already; otherwise zero.
	Value V
	// OK reports: OpGet, the key was there; OpPut, OpPutNew and the reductions, the
	// pair is new; OpUpdate, OpDelete and OpDeleteAll, the key was there.
	OK bool
}
