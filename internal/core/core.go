// Package core implements the table that all structures share, whatever their layout. A table cuts
// batches into chunks, reserves capacity before each, and retries operations that overflow. It
// keeps the counters, hands out leases, reads pages, and saves, loads and checks. Its errors name
// the package and the method. A structure gives it a [Policy], which decides, and an [Engine],
// which does the work.
//
//	facade (weft.Map …) → Table → Policy, Engine → device
//
// Data flows that way and back; no layer calls a layer above it.
package core

import (
	"context"
	"log/slog"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Policy decides when a structure grows, which memory is reused, and when dead slots are removed.
// Each structure has one. Only the holder of the writer lock calls it. A policy has the concrete
// type of its engine, and calls it to carry out decisions.
type Policy interface {
	// Flags returns the flags of a batch of one kind. MixedFlags returns those of lookups and of
	// mixed batches.
	Flags(kind op.Kind) batch.Flags
	MixedFlags() batch.Flags
	// Prepare reserves capacity for operations of a batch and returns how many of them to run now.
	// The batch lies on the device if s is not nil. If the counters are bounds and do not prove
	// capacity for any operation, Prepare returns 0 and is called again with exact counters. With
	// report, the batch runs such that operations that still overflow are retried. Without report,
	// capacity is certain, or operations that overflow are dropped and Sync reports them.
	Prepare(ctx context.Context, now Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error)
	// Retry frees capacity for operations that overflowed, in host memory, and runs them again.
	// remaining lists those that overflowed again, ascending. retryable reports whether another
	// attempt may succeed; the attempts end eventually.
	Retry(ctx context.Context, now Counters, failed *batch.Batch) (remaining []uint32, retryable bool, err error)
	// Trim frees memory that a call no longer needs. delta is the change of the number of pairs.
	// The call has done its work, so an error is only logged.
	Trim(ctx context.Context, now Counters, delta int) error
	// Compact removes dead slots and memory beyond what the options require.
	Compact(ctx context.Context, now Counters) error
	// Describe returns the size of the structure for messages: "in 17 buckets".
	Describe() string
}

// Engine holds the inner loops and the memory that they run on. Each structure has one per kind of
// device. Lookup and Export may run concurrently with each other and, if Caps allows it, with
// everything else. Only one writer at a time calls the other methods.
type Engine interface {
	Caps() Caps
	// Current returns the generation in use. The caller holds the writer lock.
	Current() *Lease
	// ReadCounters waits for submitted changes and reads the counters.
	ReadCounters(ctx context.Context) (Counters, error)
	// Lookup runs a lookup in host memory, or submits it to a stream. With Counts, it writes the
	// number of pairs of each key, or of each range from Keys to Keys2; otherwise it finds the
	// first pair. For the lookups of an ordered map see [OrderedMap]. The number of keys found is
	// added to the device address count, unless that is 0. done is the length of the prefix that
	// was run. A lookup of the host sees all changes submitted to streams before.
	Lookup(ctx context.Context, s *device.Stream, l *Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error)
	// Change runs a batch that changes the structure, or submits it. failed lists the operations
	// that overflowed, as ascending indices. Their outputs keep their contents, which may be their
	// inputs as well. If the batch is ordered and the key of a failed operation is present
	// afterwards, that operation has been resolved as a duplicate. On a stream, operations that
	// overflow are counted unless the batch has the flag Report. done is the length of the prefix
	// that was run: less than b.N after an error, or in host memory if the engine limits the number
	// of operations per call.
	Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error)
	// AddPairs submits adding the number of pairs, negated or not, to a counter of the caller.
	// Other calls may add to the same counter concurrently.
	AddPairs(s *device.Stream, to device.Slice[uint64], negate bool) error
	// ReadDropped reads and resets the number of operations of submitted changes that overflowed.
	// These changes have been waited for.
	ReadDropped(ctx context.Context) (int, error)

	// Extent returns the number of units (lines or buckets) that Export covers, and the minimum
	// number of pairs that a unit has memory for.
	Extent(l *Lease) (units uint32, rows int)
	// Export copies the pairs of units [lo,hi) to the columns Keys and Vals in host memory and
	// returns their number. If the pairs exceed the rows of the columns, the content is undefined.
	// The numbers of the units of a hash structure are unrelated to their addresses (see
	// WeylOrder).
	Export(ctx context.Context, l *Lease, lo, hi uint32, out *batch.Batch) (int, error)

	// Clear removes all pairs. No reader is active.
	Clear(ctx context.Context) error
	// Close frees everything of the engine except its generations.
	Close() error
}

// Caps are the capabilities of an engine.
type Caps struct {
	// ConcurrentReads: lookups run concurrently with changes.
	ConcurrentReads bool
	// Streams: work submitted to streams may still be running when the call returns.
	Streams bool
	// DeletesMayOverflow: deletes may overflow, as inserts may, so Prepare is called for them.
	// Versions that snapshots read, or a log, take the memory.
	DeletesMayOverflow bool
	// Updates: mixed batches may contain op.Update. Engines that resolve the operations on a key
	// before they touch its slot get it for free. In the kernels of hash tables it would be one
	// more branch of each thread. On the host it would take a lookup and two batches, for which the
	// host lacks the kinds of a batch on the device.
	Updates bool
}

// Presenter is an engine with Caps.Streams: the host cannot look up the keys of a batch on the
// device directly.
type Presenter interface {
	// CountPresent counts the keys of a batch on the device that are present, for a policy. All
	// changes have been waited for.
	CountPresent(ctx context.Context, s *device.Stream, b *batch.Batch) (int, error)
}

// Awaiter is an engine that may not be ready yet for batches on the device.
type Awaiter interface {
	// Await waits until the engine is ready, or returns the error that prevents it. Call it without
	// the writer lock, unless the engine is ready.
	Await(ctx context.Context) error
}

// Combiner is an engine that combines the rows of a reduction with each other before it touches the
// table.
type Combiner interface {
	// Combine returns fewer rows with the same effect as those of a batch in host memory, or nil if
	// combining does not pay. The rows are valid until the next call.
	Combine(b *batch.Batch) *batch.Batch
}

// Persister is an engine with memory that outlives the process.
type Persister interface {
	// Commit makes everything done so far durable. It runs before a call that has changed the
	// structure returns, also with an error; for batches on streams it runs in Sync and Close. The
	// engine defines what a crash leaves of a call that has not returned. It orders its own writes.
	// It commits by itself what must not wait, such as other memory before that memory replaces a
	// generation. Policy.Trim runs after Commit and must make its own work durable. After an error
	// the engine rejects changes, since the content of the medium is unknown.
	Commit(ctx context.Context) error
}

// Expander is an engine that finds several rows for a key.
type Expander interface {
	// Expand writes the rows of each key, or of each range from Keys to Keys2. The rows of key i go
	// to rows Offsets[i] to Offsets[i+1] of the columns Vals and, if given, OutKeys, in order, and
	// never beyond. In host memory, both columns have their Offsets from an earlier count. If
	// lookups run concurrently with changes, keys may have fewer rows by now, and Counts receives
	// the number. On a stream, Expand counts first, and writes Counts and Offsets too.
	Expand(ctx context.Context, s *device.Stream, l *Lease, b *batch.Batch) error
}

// Measurer is an engine of byte strings.
type Measurer interface {
	// PairBytes returns the approximate mean number of bytes of a key and its value.
	PairBytes(l *Lease) int
}

// Counters are the counts that a structure keeps of its slots.
type Counters struct {
	Live  uint64 // pairs
	Used  uint64 // slots that are not empty: of pairs, or of deleted pairs
	Dead  uint64 // slots of deleted pairs
	Exact bool   // false: upper bounds, whatever the submitted operations do
}

// Kind is the kind of a table, as its user sees it.
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
	//	Get          with Keys2: up to Limit pairs of each range, with Limit
	//	             keys and values in each row of OutKeys and Vals (the rest
	//	             is undefined), and Counts. Or Counts alone
	//	Rank         Ranks receives the number of keys smaller than each of Keys
	//	Select       the pairs with Ranks smaller keys, in OutKeys, Vals, OK
	//	Successor    the first pairs after Keys, in OutKeys, Vals, OK
	//	Predecessor  the last pairs before Keys, in OutKeys, Vals, OK
	//
	// Any of OutKeys, Vals and OK may be absent; they are zero where no such pair exists. The
	// number of keys found is that of pairs; for ranges, that of nonempty ranges. A change of kind
	// DeleteRange removes the pairs of ranges from Keys to Keys2. Counts, if given, receives the
	// number per range; a pair counts for the first of its ranges.
	OrderedMap
)

// String returns the kind's name for messages.
func (k Kind) String() string { return [...]string{"map", "set", "multimap", "ordered map"}[k] }

// withArticle returns the kind's name with its article.
func (k Kind) withArticle() string {
	if k == OrderedMap {
		return "an " + k.String()
	}
	return "a " + k.String()
}

// unique reports whether a key has one value.
func (k Kind) unique() bool { return k == Map || k == OrderedMap }

// fileKind returns the kind that files record. Files hold the pairs of a map in any order.
func (k Kind) fileKind() Kind {
	if k == OrderedMap {
		return Map
	}
	return k
}

// Config holds the parts of a table.
type Config struct {
	Name    string // of the package, for messages
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
	// ValidateLengths validates the lengths of a key and a value, where types are [Bytes].
	ValidateLengths func(key, val int) error
	// maximum bytes of results of variable size; 0: half of the host's free memory
	ResultLimit int
}
