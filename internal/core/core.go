// Package core is the table once: what all structures do alike, whatever their
// layout. It cuts batches in chunks, makes room before each and runs operations
// again that found none, keeps count, hands out leases, reads pages, saves,
// loads and checks, and says in errors what happened where. A structure gives
// it a [Policy], which decides, and an [Engine], which works.
//
//	facade (weft.Map …) → Table → Policy, Engine → device
//
// Data flows that way and back; nothing below calls what is above it.
package core

import (
	"context"
	"log/slog"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Policy decides: when a structure grows, what may be used again, when dead
// slots go. There is one per structure; only the writer whose turn it is calls
// it. Decisions are carried out by calling the engine, which the policy knows by
// its own type.
type Policy interface {
	// Flags are those of a batch that is all of one kind, Mixed those of lookups
	// and of mixed batches.
	Flags(kind op.Kind) batch.Flags
	Mixed() batch.Flags
	// Before makes room for operations of a batch, which lies on the device if
	// there is a stream, and returns how many of them are to be run now. If the
	// counters are bounds and do not show that there is room for any, it
	// returns 0: it is called again with exact ones. With report, the batch is
	// run so that operations that find no room all the same are run again;
	// without, there is room for sure, or they are lost and Sync says so.
	Before(ctx context.Context, now Counters, s *device.Stream, b *batch.Batch) (n int, report bool, err error)
	// Retry makes room for operations that found none, in host memory, and runs
	// them again. still are those that found none again, ascending; more reports
	// whether to try with them once more, which comes to an end.
	Retry(ctx context.Context, now Counters, failed *batch.Batch) (still []uint32, more bool, err error)
	// After gives memory back that a call has set free. delta is the change of
	// the number of pairs. The call has done its work: an error is logged.
	After(ctx context.Context, now Counters, delta int) error
	// Compact drops dead slots and memory beyond what the options ask for.
	Compact(ctx context.Context, now Counters) error
	// Describe says how large the structure is, for messages: "in 17 buckets".
	Describe() string
}

// Engine works: the inner loops and the memory they run on. There is one per
// structure and kind of device. Look and Export may run side by side and, if
// the engine says so, beside everything else; the other methods are called by
// one writer at a time.
type Engine interface {
	Caps() Caps
	// Current is the generation in use, for the writer whose turn it is.
	Current() *Lease
	// Counters waits for submitted changes and reads the counters.
	Counters(ctx context.Context) (Counters, error)
	// Look runs a lookup: in host memory, or submitted to a stream. If there
	// are Counts it writes how many pairs each key has, or each range from Keys to
	// Keys2, otherwise it looks for the first. Of an ordered map see [OrderedMap]. count, unless 0, is where on the device the number of keys
	// found is added. done is the length of the prefix that was run. A lookup of
	// the host sees all changes submitted by streams before.
	Look(ctx context.Context, s *device.Stream, l *Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error)
	// Change runs a batch that changes the structure, or submits it. failed are
	// the operations that found no room, as ascending indices; what is in their
	// outputs stays, since it may be what they bring. If the batch is ordered,
	// and the key of one of them is there then, then it has been decided
	// as for duplicates. On a stream, operations without room are counted unless
	// the batch has the flag Report. done is the length of the prefix that was
	// run: less than b.N after an error, or in host memory if the engine takes
	// only so many at a time.
	Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error)
	// Add submits adding the number of pairs, negated or not, to a counter of the
	// caller's, which others may add to meanwhile.
	Add(s *device.Stream, to device.Slice[uint64], negate bool) error
	// Lost reads how many operations of submitted changes, which have been waited
	// for, found no room, and resets the count.
	Lost(ctx context.Context) (int, error)

	// Extent is the number of units, lines or buckets, that Export goes through,
	// and the number of pairs that each has at least memory for.
	Extent(l *Lease) (units uint32, rows int)
	// Export copies the pairs of units [lo,hi) to the columns Keys and Vals in
	// host memory and returns their number. If they are more than the columns
	// have rows, the content is undefined. The units of a hash structure are
	// numbered in an order that has nothing to do with where they lie (see
	// Spread).
	Export(ctx context.Context, l *Lease, lo, hi uint32, out *batch.Batch) (int, error)

	// Clear removes all pairs. No reader is at work.
	Clear(ctx context.Context) error
	// Close frees what the engine has beside its generations.
	Close() error
}

// Caps are what an engine can do.
type Caps struct {
	// Beside: lookups run beside changes.
	Beside bool
	// Streams: work submitted to streams may still be under way when the call
	// returns.
	Streams bool
	// DeletesTakeRoom: deletes may find no room, as inserts may, and Before is
	// called for them: for versions that snapshots read, or for a log.
	DeletesTakeRoom bool
	// Updates: mixed batches may have op.Update.
	Updates bool
}

// Presenter is an engine with Caps.Streams: the keys of a batch on the device may
// not be there yet when the host looks.
type Presenter interface {
	// Present counts the keys of a batch on the device that are there, for a
	// policy: all changes have been waited for.
	Present(ctx context.Context, s *device.Stream, b *batch.Batch) (int, error)
}

// Awaiter is an engine that may not be ready yet for batches on the device.
type Awaiter interface {
	// Await waits until it is, in no writer's turn unless it is, or returns why it will
	// never be.
	Await(ctx context.Context) error
}

// Combiner is an engine that has rows which are to be combined combined with each
// other first.
type Combiner interface {
	// Combine returns fewer rows that do the same as those of a batch in host
	// memory; nil, if it does not pay. They are good until the next call.
	Combine(b *batch.Batch) *batch.Batch
}

// Persister is an engine whose memory outlives the process.
type Persister interface {
	// Commit makes everything done so far durable. It comes before a call that
	// has changed the structure returns, also by an error; for batches on streams
	// in Sync and Close. What a crash leaves of a call that has not returned is
	// the engine's promise: it orders its own writes, and commits by itself what
	// must not wait, such as other memory before it replaces a generation with it.
	// Policy.After comes behind Commit and must be durable by itself. After an
	// error the engine refuses changes, since nobody knows what the medium holds.
	Commit(ctx context.Context) error
}

// Expander is an engine that finds several rows for a key.
type Expander interface {
	// Expand writes the rows of each key, or of each range from Keys to Keys2, those of key i to rows Offsets[i] to
	// Offsets[i+1] of the columns Vals and, if there is one, OutKeys, in order,
	// and never beyond. In host memory, both have their Offsets from a count
	// before; where lookups run beside changes, keys may have fewer rows by now,
	// and Counts receives how many. On a stream, it counts first, and writes
	// Counts and Offsets too.
	Expand(ctx context.Context, s *device.Stream, l *Lease, b *batch.Batch) error
}

// Measurer is an engine of byte strings.
type Measurer interface {
	// PairBytes is about how many bytes a key and its value have on average.
	PairBytes(l *Lease) int
}

// Counters are what a structure knows of itself.
type Counters struct {
	Live  uint64 // pairs
	Used  uint64 // slots that are not empty: of pairs, or of deleted ones
	Dead  uint64 // slots of deleted ones
	Exact bool   // false: at most so many, whatever submitted operations do
}

// Kind is what a table is to its user.
type Kind uint8

// The kinds of tables.
const (
	Map Kind = iota
	Set
	MultiMap
	// OrderedMap is a map whose keys come in the order of their type (see [Type.Order]),
	// also in units of Export. Its engine is an [Expander] and a [Versioner], and has more
	// lookups than Get:
	//
	//	Get          with Keys2: as many pairs of each range as Limit, with Limit
	//	             keys and values in each row of OutKeys and Vals, of which
	//	             nobody reads the rest; and Counts. Or Counts alone
	//	Rank         Ranks receive how many keys are smaller than Keys
	//	Select       the pairs that so many as Ranks come before, in OutKeys, Vals, OK
	//	Successor    the first pairs behind Keys, in OutKeys, Vals, OK
	//	Predecessor  the last pairs before Keys, in OutKeys, Vals, OK
	//
	// Any of OutKeys, Vals and OK may be absent, and are zero where there is no such pair.
	// The number of keys found is that of pairs; of ranges, of those that have any. A change
	// of kind DeleteRange removes the pairs of ranges from Keys to Keys2; Counts, if there
	// are any, receive how many; a pair counts for the first of its ranges.
	OrderedMap
)

// String is the kind's name in messages.
func (k Kind) String() string { return [...]string{"map", "set", "multimap", "ordered map"}[k] }

// one is the kind's name with its article.
func (k Kind) one() string {
	if k == OrderedMap {
		return "an " + k.String()
	}
	return "a " + k.String()
}

// unique reports whether a key has one value.
func (k Kind) unique() bool { return k == Map || k == OrderedMap }

// saved is the kind that files know: they hold the pairs of a map in any order.
func (k Kind) saved() Kind {
	if k == OrderedMap {
		return Map
	}
	return k
}

// Config is what a structure makes a table of.
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
	Another func(device.Device) (*Table, error) // an empty table of the same options

	Fixed   bool // it has room for so many keys and no more
	Strings bool // keys and values are byte strings, in columns that have Data
	// Fits says what is wrong with the lengths of a key and a value, where types are [Bytes].
	Fits        func(key, val int) error
	ResultLimit int // bytes that results of variable size may take; 0: half of the host's free memory
}
