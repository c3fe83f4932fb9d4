// Package core implements the table on which all structures are built, independent of their layout.
// A table cuts batches into chunks, reserves capacity before each chunk, and retries operations
// that overflow. It keeps the counters, hands out leases, reads pages, and saves, loads and checks.
// Its errors name the package and the method. A structure supplies a [Policy], which makes the
// decisions, and an [Engine], which does the work.
//
//	facade (weft.Map …) → Table → Policy, Engine → device
//
// Calls and data go from left to right; only results return. No layer calls a layer to its left.
package core

import (
	"context"
	"log/slog"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Policy decides when a structure grows, which memory it reuses, and when it removes dead slots.
// Each structure has its own policy. Only the holder of the writer lock calls the methods. A policy
// holds its engine as a concrete type and calls it to carry out decisions.
type Policy interface {
	// Flags returns the flags for batches with operations of one kind. MixedFlags returns the flags
	// for lookups and for mixed batches.
	Flags(kind op.Kind) batch.Flags
	MixedFlags() batch.Flags
	// Prepare reserves capacity for operations of b and returns how many of them to run next. b
	// lies in device memory if s is not nil. If the counters in now are bounds that prove capacity
	// for no operation, it returns 0. The table then calls it again with exact counters. If report
	// is true, the batch must return the operations that overflow, so that they are retried.
	// Otherwise, capacity is certain, or operations that overflow are dropped and Sync reports
	// them.
	Prepare(ctx context.Context, now Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error)
	// Retry frees capacity for operations that overflowed, given in host memory, and runs them
	// again. remaining lists the operations that overflowed again, ascending. retryable reports
	// whether another attempt may succeed; it becomes false after finitely many attempts.
	Retry(ctx context.Context, now Counters, failed *batch.Batch) (remaining []uint32, retryable bool, err error)
	// Trim frees memory that the structure no longer needs after a call. delta is the change in the
	// number of pairs. Since the call has succeeded, an error is only logged.
	Trim(ctx context.Context, now Counters, delta int) error
	// Compact removes dead slots and frees memory that the options do not require.
	Compact(ctx context.Context, now Counters) error
	// Describe returns the size of the structure for messages, such as "in 17 buckets".
	Describe() string
}

// Engine holds the inner loops of a structure and the memory that they read and write. Each
// structure has one engine per kind of device. Lookup and Export may run concurrently with each
// other. If Caps permits, they also run concurrently with all other methods. Only one writer at a
// time calls the other methods.
type Engine interface {
	Caps() Caps
	// Current returns a lease on the generation in use. The caller holds the writer lock.
	Current() *Lease
	// ReadCounters waits for submitted changes and then reads the counters.
	ReadCounters(ctx context.Context) (Counters, error)
	// Lookup runs a lookup in host memory, or submits it to a stream. With the column Counts, it
	// writes the number of pairs of each key, or inside each range from Keys to Keys2. Otherwise it
	// finds the first pair of each key. [OrderedMap] describes the lookups of ordered maps. The
	// number of keys found is added to the counter at device address count, if count is not 0. done
	// is the length of the prefix that was run. A lookup in host memory sees all changes submitted
	// to streams before it.
	Lookup(ctx context.Context, s *device.Stream, l *Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error)
	// Change runs a batch that changes the structure, or submits it to a stream. failed lists the
	// operations that overflowed, as ascending indices. Their outputs keep their contents, because
	// a column may be both input and output. If the batch is ordered and the key of a failed
	// operation is present afterward, the operation was a duplicate and has been resolved. On a
	// stream, operations that overflow are only counted, unless the batch has the flag Report. done
	// is the length of the prefix that was run. It is less than b.N after an error, or in host
	// memory if the engine limits the operations per call.
	Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error)
	// AddPairs submits work that adds the number of pairs to a counter of the caller, or subtracts
	// it if negate is set. Other calls may add to the same counter concurrently.
	AddPairs(s *device.Stream, to device.Slice[uint64], negate bool) error
	// ReadDropped returns and resets the number of operations that overflowed in submitted changes.
	// The caller has waited for all these changes.
	ReadDropped(ctx context.Context) (int, error)

	// Extent returns the number of units (lines or buckets) that Export covers. rows is the number
	// of pairs for which every unit has memory; some units may have memory for more.
	Extent(l *Lease) (units uint32, rows int)
	// Export copies the pairs of units [lo,hi) to the columns Keys and Vals in host memory and
	// returns their number. If the columns have fewer rows than that, their content is undefined.
	// In a hash structure, consecutive units are not adjacent in memory (see WeylOrder).
	Export(ctx context.Context, l *Lease, lo, hi uint32, out *batch.Batch) (int, error)

	// Clear removes all pairs. No reader is active during the call.
	Clear(ctx context.Context) error
	// Close frees all memory of the engine except its generations.
	Close() error
}

// Caps are the properties of an engine on which the table depends.
type Caps struct {
	// ConcurrentReads means that lookups run concurrently with changes.
	ConcurrentReads bool
	// Streams means that work submitted to a stream may still be running when the call returns.
	Streams bool
	// DeletesMayOverflow means that deletes may overflow like inserts, so Prepare is called for
	// them. A delete takes memory if snapshots read older versions, or if the engine keeps a log.
	DeletesMayOverflow bool
	// Updates means that mixed batches may contain op.Update. The support costs nothing in engines
	// that resolve all operations on a key before they touch its slot. In the kernels of hash
	// tables it would cost each thread one more branch. Without kernel support it would take a
	// lookup and two batches, and the host cannot read the kinds of a batch in device memory.
	Updates bool
}

// Presenter is an engine with Caps.Streams that counts present keys for the host. The host itself
// cannot look up the keys of a batch in device memory.
type Presenter interface {
	// CountPresent counts the keys of a device batch that are present. Policies call it after all
	// changes have been waited for.
	CountPresent(ctx context.Context, s *device.Stream, b *batch.Batch) (int, error)
}

// Awaiter is an engine that may not yet be ready to run batches in device memory.
type Awaiter interface {
	// Await waits until the engine is ready, or returns the error that prevents it. Unless the
	// engine is ready, the caller must not hold the writer lock.
	Await(ctx context.Context) error
}

// Combiner is an engine that combines rows of a reduction that have equal keys before it accesses
// the table.
type Combiner interface {
	// Combine returns a batch with fewer rows and the same effect as b, or nil if combining does
	// not pay. b lies in host memory. The returned rows are valid until the next call.
	Combine(b *batch.Batch) *batch.Batch
}

// Persister is an engine with memory that outlives the process.
type Persister interface {
	// Commit makes all earlier changes durable. It runs before a call that has changed the
	// structure returns, also if the call failed. For batches on streams it runs in Sync and Close.
	// The engine defines what remains of an unfinished call after a crash, and orders its own
	// writes. It commits on its own if a write must not wait, such as new memory before that memory
	// replaces a generation. Policy.Trim runs after Commit and must make its own work durable.
	// After an error the engine rejects changes, since the content of the medium is unknown.
	Commit(ctx context.Context) error
}

// Expander is an engine that can find several rows per key.
type Expander interface {
	// Expand writes the rows of each key, or the pairs inside each range from Keys to Keys2. The
	// rows of key i go to rows Offsets[i] to Offsets[i+1] of Vals and, if given, OutKeys, in order
	// and never beyond. In host memory, both columns have Offsets that an earlier count filled. If
	// lookups run concurrently with changes, a key may have fewer rows by then, and Counts receives
	// the number. On a stream, Expand also counts first and writes Counts and Offsets.
	Expand(ctx context.Context, s *device.Stream, l *Lease, b *batch.Batch) error
}

// Measurer is an engine that stores byte strings.
type Measurer interface {
	// PairBytes returns the approximate mean size in bytes of a key plus its value.
	PairBytes(l *Lease) int
}

// Counters counts the slots of a structure.
type Counters struct {
	Live uint64 // pairs
	Used uint64 // slots that are not empty: Live plus Dead
	Dead uint64 // slots of deleted pairs
	// if false, the counts are upper bounds for every possible outcome of the submitted operations
	Exact bool
}

// Kind is the kind of structure that a table implements.
type Kind uint8

// The kinds of tables.
const (
	Map Kind = iota
	Set
	MultiMap
	// OrderedMap is a map with keys in the order of their type (see [Type.Order]), also in the
	// units of Export. Its engine is an [Expander] and a [Versioner], and has more lookups than
	// Get:
	//
	//	Get          with Keys2: up to Limit pairs inside each range, with Limit
	//	             keys and values in each row of OutKeys and Vals (the rest
	//	             is undefined), and Counts. Or Counts alone
	//	Rank         Ranks receives the number of keys smaller than each of Keys
	//	Select       the pairs with Ranks smaller keys, in OutKeys, Vals, OK
	//	Successor    the first pairs after Keys, in OutKeys, Vals, OK
	//	Predecessor  the last pairs before Keys, in OutKeys, Vals, OK
	//
	// Any of OutKeys, Vals and OK may be absent; they are zero where no such pair exists. The
	// number of keys found counts pairs, or nonempty ranges for a Get of ranges. A change of kind
	// DeleteRange removes the pairs inside the ranges from Keys to Keys2. Counts, if given,
	// receives the number per range; a pair inside several ranges counts for the first of them.
	OrderedMap
)

// String returns the kind's name for messages.
func (k Kind) String() string { return [...]string{"map", "set", "multimap", "ordered map"}[k] }

func (k Kind) withArticle() string {
	if k == OrderedMap {
		return "an " + k.String()
	}
	return "a " + k.String()
}

func (k Kind) unique() bool { return k == Map || k == OrderedMap }

// fileKind returns the kind that files record. An ordered map is recorded as a map, because files
// hold pairs in any order.
func (k Kind) fileKind() Kind {
	if k == OrderedMap {
		return Map
	}
	return k
}

// Config holds the parts and the options of a table.
type Config struct {
	Name    string // package name, for messages
	Kind    Kind
	Device  device.Device
	Widths  batch.Widths
	Policy  Policy
	Engine  Engine
	Leases  *Leases
	Logger  *slog.Logger
	Types   Types
	NewLike func(device.Device) (*Table, error) // makes an empty table with the same options

	Fixed   bool // the capacity is fixed
	Strings bool // keys and values are byte strings, in columns that have Data
	// ValidateLengths validates the lengths of a key and a value if their types are [Bytes].
	ValidateLengths func(key, val int) error
	// maximum bytes of results with variable size; 0: half of the host's free memory
	ResultLimit int
}
