// Package weft implements GPU data structures for Go: maps, ordered maps, sets and multimaps. They
// take batches of keys and run on every core of a CPU or on a GPU. Package weft holds the public
// types. Packages such as linear, slab and sorted make the structures, on the devices of packages
// device and device/auto.
//
// # Batches
//
// Operations take slices and work on all elements at once. Outputs are slices of the caller, as
// long as the inputs; a length mismatch panics. An output may be nil where its method says so. Bad
// data and exhausted resources are errors, never panics.
//
// Every method has two forms. One takes Go slices and is done when it returns. The other has On in
// its name and takes slices on the structure's device and a stream. It returns before the work is
// done and copies nothing; the slices must stay valid until the stream has finished. Changes run in
// the order of the calls, whatever their streams. Lookups on one stream see the changes submitted
// to it before. A change waits for its result if it may need more memory than is allocated, or may
// fill a structure of fixed size. Its operations that overflow run again once the structure has
// grown. Sync returns those that still overflow, in a [PartialError]. The last argument of an On
// method is optional. It is the place on the device to which the method adds the number that the
// other form returns.
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
//	           CPU that of the batch, except for those that overflow at first
//
// The option Unordered drops the order of Put, PutNew, GetOrPut, Assign and Delete in maps and
// sets.
//
// # Concurrency
//
// All methods may be called from many goroutines, also from inside a loop over the same structure.
// Changes run one after another, in the order of the calls. Lookups run concurrently with each
// other and, on a GPU, with changes. On a CPU they wait for the running change, except in packages
// sorted and lsm. Three operations block lookups while they run: Clear, the removal of deleted
// pairs in place, and Assign where it inserts. A call that waits for the writer lock gives up when
// its context ends.
//
// # Cancelling
//
// A call checks its context every few tens of milliseconds. A call that did not do everything
// returns a [PartialError], which wraps the cause and lists what is left to do: the operations that
// overflowed, and those after the last one tried.
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

// Errors of structures, wrapped with the structure and the method. Errors of devices
// (device.ErrMemory, device.ErrLost, …) pass through.
var (
	// ErrClosed: the structure, its device, or the stream of the call has been closed. It is
	// device.ErrClosed.
	ErrClosed = op.ErrClosed
	// ErrFull: some keys of the batch overflow the structure, because its size is fixed or because
	// they collide. The other keys were processed.
	ErrFull = op.ErrFull
	// ErrOptions: the options of a constructor contradict themselves or ask
	// for more than the structure can hold.
	ErrOptions = op.ErrOptions
	// ErrFormat: the stream passed to Load was not written by Save, is damaged, or holds pairs of
	// other types.
	ErrFormat = op.ErrFormat
	// ErrCorrupt: Check found a structure that breaks its own invariants. The cause is a fault in
	// this module, or in other code that writes the structure's memory.
	ErrCorrupt = op.ErrCorrupt
)

// OpKind is the kind of an [Op]. Kernels and files contain the numbers.
type OpKind uint8

// The operations of a mixed batch.
const (
	OpGet       OpKind = OpKind(op.Get)       // look the key up
	OpPut       OpKind = OpKind(op.Put)       // insert or replace; in a multimap, add the pair
	OpPutNew    OpKind = OpKind(op.PutNew)    // insert the pair if the key is absent
	OpDelete    OpKind = OpKind(op.Delete)    // remove the key; in a multimap, its first pair
	OpDeleteAll OpKind = OpKind(op.DeleteAll) // remove the key's pairs one by one; multimaps only

	// Insert the pair, or combine its value with the stored one as [Map.Reduce] does; maps only.
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

// UnmarshalText reads a name, in upper or lower case, so flag.TextVar takes an OpKind.
func (k *OpKind) UnmarshalText(text []byte) error { return (*op.Kind)(k).UnmarshalText(text) }

// Reduces reports whether the operation combines values.
func (k OpKind) Reduces() bool { return op.Kind(k).Reduces() }

// Inserts reports whether the operation may need memory for a pair.
func (k OpKind) Inserts() bool { return op.Kind(k).Inserts() }

// Reduction is the way [Map.Reduce] combines a value with the stored one.
type Reduction uint8

// The reductions. Results of integers are exact, and the same in any order of the pairs. Sums of
// floats depend on the order in their last digits.
const (
	Sum Reduction = Reduction(op.Sum) // integers wrap
	Min Reduction = Reduction(op.Min) // as Go's min: NaN, if one of them is; -0 is less than 0
	Max Reduction = Reduction(op.Max) // as Go's max
	And Reduction = Reduction(op.And) // bit by bit; integers only
	Or  Reduction = Reduction(op.Or)  // bit by bit; integers only
)

var reductions = enum.Names[Reduction]{Type: "weft.Reduction", Names: []string{Sum: "Sum", Min: "Min", Max: "Max", And: "And", Or: "Or"}, Err: op.ErrOptions}

// String returns the name of the reduction.
func (r Reduction) String() string { return reductions.String(r) }

// MarshalText returns the name of the reduction, or [ErrOptions] if r is not a known one.
func (r Reduction) MarshalText() ([]byte, error) { return reductions.Text(r) }

// UnmarshalText reads a name, in upper or lower case, so flag.TextVar takes a Reduction.
func (r *Reduction) UnmarshalText(text []byte) error { return reductions.Read(r, text) }

// Op is one operation of a mixed batch.
type Op[K Key, V Value] struct {
	Kind  OpKind
	Key   K
	Value V // OpPut, OpPutNew, OpUpdate and the reductions
}

// Result is the outcome of an [Op].
type Result[V Value] struct {
	// Value is the value found by OpGet, or by an OpPutNew with a key that was already present.
	// Otherwise it is zero.
	Value V
	// OK reports, for OpGet, OpUpdate, OpDelete and OpDeleteAll, that the key was present. For
	// OpPut, OpPutNew and the reductions it reports that the pair is new.
	OK bool
}
