package gphash

import (
	"errors"
	"log/slog"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// Options are the options of a new pool. The layout of the pool, such as KeySize and Slots, cannot
// be changed later.
type Options struct {
	// KeySize and ValueSize are the lengths of all keys and values in bytes: 1 to 128 for keys, 1
	// to 65,536 for values. Maps set them to the sizes of their types. For [Strings] at least one
	// of them is 0, which allows any length: 1 to 4,096 for keys, 0 to 65,536 for values.
	KeySize, ValueSize int
	// Capacity is the number of keys that fit without a resize. The default is 1,000.
	Capacity int
	// Size is the size of the pool in bytes, allocated in full on creation. The pool holds the
	// levels, two more levels during growth, and the values. The default size fits four times
	// Capacity, with 64 bytes for each variable length.
	Size int64
	// Slots is the number of slots per bucket, Hashes the number of hash locations per key, and
	// Levels the number of levels (section 3.1). The defaults are 8, 2 and 2. The product is the
	// number of candidate slots per key: 8 to 32, which a warp reads at once. At least one of
	// Hashes and Levels must be 2 or more.
	Slots, Hashes, Levels int
	// Hash is the hash function for keys. The default is SipHash. With [Fast], an attacker can
	// choose keys with equal first hash bits, and a GPU compares each of these with all others of a
	// batch.
	Hash HashID
	// Seed is the seed of the hash function. If Seed is zero, Create chooses a random seed.
	Seed [2]uint64
	// Durability is the minimum durability that the caller requires. Create returns [ErrNotDurable]
	// if the pool's memory does not provide it.
	Durability Durability
	// AssertPMem lists the conditions that the operator guarantees if Durability is PMem and the
	// system does not report them.
	AssertPMem PMemConditions
	// Resize selects when keys move as the index grows. The default is Beside.
	Resize Resize
	// AtomicBatch, if not 0, makes batches of up to AtomicBatch operations atomic. Such a batch is
	// done as a whole or not at all, however the process ends. A call with more operations is split
	// into several atomic batches, in its order. A batch without capacity for all its inserts does
	// nothing and returns [weft.ErrFull].
	//
	// The pool then has a log for one batch, with 24 bytes per operation. AtomicBatch is at most
	// 1,048,576. The log takes whole MiB of the pool, and a batch may have as many operations as
	// fit: 43,685 in the first MiB, and 43,690 or 43,691 in each further one. For [Strings] the log
	// takes whole sixteenths of a MiB. On a GPU, AtomicBatch implies Mirror, and calls with streams
	// wait.
	AtomicBatch int
	// AtomicTail sets OpenOptions.AtomicTail. The log has capacity for AtomicTail more operations.
	AtomicTail int
	// Mirror, Cache and CachePolicy set the fields of the same names in OpenOptions.
	Mirror      bool
	Cache       float64
	CachePolicy CachePolicy
	// Logger receives the pool's events. If Logger is nil, events are dropped.
	Logger *slog.Logger
}

// OpenOptions are the options for opening a pool.
type OpenOptions struct {
	// ReadOnly opens the pool alongside other readers and leaves the file unchanged. Readers skip
	// the traces of a crash instead of repairing them. Changes return [ErrReadOnly]. If a file in a
	// file system in memory has holes, Open returns [ErrReadOnly], too.
	ReadOnly bool
	// Repair drops damaged slots instead of returning [weft.ErrCorrupt]. It implies Verify: if two
	// slots refer to one value, the value's checksum decides which slot keeps it. Repair also opens
	// a pool after a power loss, instead of returning [ErrPowerLost], and keeps all pairs with
	// valid checksums. Lost data is not restored; the [Report] lists it.
	Repair bool
	// Verify reads all values and compares them with their checksums. It also compares the sum of
	// the checksums with the sum that the last Close stored.
	Verify bool
	// Durability is the minimum durability that the caller requires. Open returns [ErrNotDurable]
	// if the pool's memory does not provide it.
	Durability Durability
	// Mirror keeps a copy of all control words and tags, 16 bytes per slot, in the GPU's memory. A
	// lookup then reads only the value from the pool. Mirror has no effect on a CPU.
	Mirror bool
	// AtomicTail is the number of operations in atomic batches that a GPU may publish in the log
	// before it applies them to the slots. The capacity of the log limits it, too. Operations in
	// the log are durable: opening the pool after a crash applies them. The delay lets a slot that
	// several batches change be written once. AtomicTail has no effect on a CPU.
	AtomicTail int
	// Cache is the share of the buckets that a GPU caches in its memory: 0.2 is one bucket in five.
	// [Index.LoadCache] selects the buckets that were read most. With Mirror, which covers all
	// buckets, Cache is instead the share of the values that the GPU caches. A cache of values
	// takes 8 more bytes for each value that fits the pool. Atomic batches imply Mirror, so their
	// cache holds values. [Strings] cannot combine Cache with Mirror.
	Cache       float64
	CachePolicy CachePolicy
	// HostFirst makes Open return as soon as the CPU has recovered the pool. The GPU's driver takes
	// longer to map the pool, since it locks the pages one by one, and the CPU runs batches until
	// then. The GPU takes over between two batches. Batches on the device wait for the GPU, as
	// WaitMapped does. If the GPU cannot map the pool or lacks memory, the CPU continues, and
	// batches on the device return the reason. HostFirst has no effect on a CPU.
	HostFirst bool
	// Unsorted makes a GPU look up keys in the given order instead of sorting them first. Use it to
	// measure the effect of sorting.
	Unsorted bool
	// AssertPMem, Resize and Logger have the meaning of the same fields in Options.
	AssertPMem PMemConditions
	Resize     Resize
	Logger     *slog.Logger
}

// PMemConditions are conditions that the operator guarantees because the system does not report
// them. If a condition does not hold, a power failure may damage the pool.
type PMemConditions struct {
	// Persistent states that data outside the CPU's caches survives a power failure, in any file.
	Persistent bool
	// DDIOOff states that stores of GPUs bypass the CPU's caches, since DDIO is off at the root
	// ports of the GPUs. It is required if a GPU works on the pool and the persistence domain does
	// not include the CPU's caches.
	DDIOOff bool
	// GlobalPersistentFlush states that the CXL device, its host and its power supply support
	// Global Persistent Flush.
	GlobalPersistentFlush bool
}

// Resize selects how the keys of the bottom level move when an index has grown.
type Resize uint8

const (
	// Beside spreads the moves over batches: each batch moves keys and zeroes a part of the next
	// level, in proportion to the batch's size. The next level is allocated once half of the slots
	// are taken (a quarter, if a key has fewer than 16 candidates). If values find no other memory,
	// they take the next level's memory back.
	Beside Resize = iota
	// Stop lets the batch that grows the index zero the new level and move all keys, as in the
	// paper.
	Stop
)

var resizes = enum.Names[Resize]{Type: "gphash.Resize", Names: []string{"Beside", "Stop"}, Err: op.ErrOptions}

// String returns the name of the mode.
func (r Resize) String() string { return resizes.String(r) }

// MarshalText returns the name of the mode, or weft.ErrOptions for an invalid value.
func (r Resize) MarshalText() ([]byte, error) { return resizes.Text(r) }

// UnmarshalText parses a name in upper or lower case, so that flag.TextVar accepts a Resize.
func (r *Resize) UnmarshalText(text []byte) error { return resizes.Read(r, text) }

// Errors of this package.
var (
	// ErrSkewed reports that a key finds no slot, though less than half of the slots are taken (a
	// quarter, with fewer than 16 candidates per key). Such keys were chosen to collide, with
	// knowledge of the seed, and a larger index would not help. The error comes with
	// [weft.ErrFull], since the other operations of the batch were done.
	ErrSkewed = errors.New("keys collide")

	// ErrLocked reports that the pool is already open, in this process or in another one.
	ErrLocked = pool.ErrLocked
	// ErrPowerLost reports that the pool was open when the machine stopped, and that its memory is
	// not persistent. The file may mix pages written at different times. OpenOptions.Repair keeps
	// all pairs with valid checksums. Acknowledged data may be missing, so restoring a backup may
	// be better.
	ErrPowerLost = pool.ErrPowerLost
	// ErrNotDurable reports that the pool cannot provide the required durability.
	ErrNotDurable = pool.ErrNotDurable
	// ErrReadOnly reports a change of a pool that was opened for reading.
	ErrReadOnly = pool.ErrReadOnly
	// ErrVersion reports a pool in a version that this module does not support.
	ErrVersion = pool.ErrVersion

	errNoDevice = core.Invalid("no device")
	errCrowded  = errors.New("no slot")
	errNoSpace  = errors.New("the pool is used up")
)

// maxKey is the maximum length of a key of fixed length, in bytes.
const maxKey = 128

// maxAtomic is the maximum number of operations in an atomic batch, which must be a single chunk.
const maxAtomic = core.ChunkOps

const maxTail = 1 << 26

// maxLevels is the number of possible level sizes. The largest level has 2^30 buckets.
const maxLevels = pool.MaxLevels

// recordUnit is the allocation unit, in words, of pools with records. It is only 64 KiB, since each
// size of records has separate units.
const recordUnit = 1 << 13

// unit is the allocation unit, in words, of pools with values of one length: 1 MiB. The superblock
// stores the unit of each pool. Tests make units smaller.
var unit uint64 = maxRunUnits * recordUnit

// check sets the defaults, validates the options and returns the superblock of the new pool.
func (o *Options) check(records bool) (*pool.Superblock, error) {
	for _, field := range []struct{ value, def *int }{{&o.Slots, ptr(8)}, {&o.Hashes, ptr(2)}, {&o.Levels, ptr(2)}, {&o.Capacity, ptr(1000)}} {
		if *field.value == 0 {
			*field.value = *field.def
		}
	}
	if o.Hash == 0 {
		o.Hash = SipHash
	}
	minSize := 1
	if records {
		minSize = 0
	}
	switch {
	case o.KeySize < minSize || o.KeySize > maxKey:
		return nil, core.Invalid("KeySize %d is not between %d and %d", o.KeySize, minSize, maxKey)
	case o.ValueSize < minSize || o.ValueSize > maxValue:
		return nil, core.Invalid("ValueSize %d is not between %d and %d", o.ValueSize, minSize, maxValue)
	case records && o.KeySize > 0 && o.ValueSize > 0:
		return nil, core.Invalid("KeySize %d, ValueSize %d: neither is variable; use an Index",
			o.KeySize, o.ValueSize)
	case o.Slots < 1 || o.Hashes < 1 || o.Hashes > maxHashes || o.Levels < 1:
		return nil, core.Invalid("Slots %d, Hashes %d, Levels %d: at least 1 of each, and 4 hashes at most", o.Slots, o.Hashes, o.Levels)
	case o.Slots*o.Hashes*o.Levels < 8 || o.Slots*o.Hashes*o.Levels > 32:
		return nil, core.Invalid("Slots %d x Hashes %d x Levels %d are not between 8 and 32", o.Slots, o.Hashes, o.Levels)
	case o.Hashes*o.Levels == 1:
		return nil, core.Invalid("1 hash and 1 level: a key has a single bucket, which is full before others are half full")
	case o.Resize > Stop:
		return nil, core.Invalid("unknown Resize %d", o.Resize)
	case o.Capacity < 0 || o.Capacity > 1<<40:
		return nil, core.Invalid("Capacity %d is negative or too large", o.Capacity)
	case o.Hash != SipHash && o.Hash != Fast:
		return nil, core.Invalid("unknown Hash %d", o.Hash)
	case o.AtomicTail < 0 || o.AtomicTail > maxTail || o.AtomicTail > 0 && o.AtomicBatch == 0:
		return nil, core.Invalid("AtomicTail %d with AtomicBatch %d: it is not between 0 and %d", o.AtomicTail, o.AtomicBatch, maxTail)
	case o.AtomicBatch < 0 || o.AtomicBatch > maxAtomic:
		return nil, core.Invalid("AtomicBatch %d is not between 0 and %d", o.AtomicBatch, maxAtomic)
	case o.Size < 0:
		return nil, core.Invalid("Size %d is negative", o.Size)
	}
	if records {
		return o.plan(recordUnit)
	}
	return o.plan(unit)
}

func ptr[T any](v T) *T { return &v }

// plan returns the superblock of a new pool with its first levels. unit is the size of the pool's
// allocation units in words.
func (o *Options) plan(unit uint64) (*pool.Superblock, error) {
	l := newLayout(uint64(o.KeySize), uint64(o.ValueSize), uint64(o.Slots))
	top := o.Levels - 1
	for capacityOf(l, o.Hashes, o.Levels, top) < uint64(o.Capacity) {
		if top++; top == maxLevels {
			return nil, core.Invalid("Capacity %d needs more than 2^%d buckets", o.Capacity, maxLevels-1)
		}
	}
	s := &pool.Superblock{Geometry: pool.Geometry{
		KeySize: uint32(o.KeySize), ValueSize: uint32(o.ValueSize), Unit: uint32(unit),
		Slots: uint32(o.Slots), Hashes: uint32(o.Hashes), Levels: uint32(o.Levels), HashID: uint32(o.Hash), Seed: o.Seed,
	}, Top: uint32(top), Bottom: uint32(top - o.Levels + 1)}
	if l.records() {
		s.Features.Incompat = pool.Records
	}
	at := uint64(pool.DataStart)
	for i := s.Bottom; i <= s.Top; i++ {
		length := (l.bucketWords<<i + unit - 1) / unit * unit * pm.Word
		s.Levels[i] = pool.Level{Offset: at, Length: length, State: pool.Live}
		at += length
	}
	levels := at - pool.DataStart
	if o.AtomicBatch > 0 {
		s.Features.Incompat |= pool.AtomicBatches
		length := (redoWords(uint64(o.AtomicBatch+o.AtomicTail)) + unit - 1) / unit * unit * pm.Word
		s.Areas[redoArea] = pool.Area{Offset: at, Length: length, Used: length}
		at += length
	}
	if o.Size == 0 {
		v, regions := o.typicalLayout(unit, &l), uint64(1)<<level{bits: uint(top) + 2}.regions()
		values := (4*uint64(o.Capacity)/v.perUnit*(v.unit/unit) + regions + 1) * unit * pm.Word
		if l.records() {
			// units that classes with few records leave partly empty
			values += (32*regions + 8*maxRunUnits) * unit * pm.Word
		}
		o.Size = int64(at+6*levels+values+hugePageBytes-1) / hugePageBytes * hugePageBytes
	}
	if minPool := at + unit*pm.Word; uint64(o.Size) < minPool {
		return nil, core.Invalid("Size %d is less than the %d bytes that levels for %d keys, the log and one unit of values take", o.Size, minPool, o.Capacity)
	}
	o.Size = o.Size / int64(unit*pm.Word) * int64(unit*pm.Word)
	return s, nil
}

// typicalLayout returns the unit layout for the expected size of values. It assumes 64 bytes for a
// variable length.
func (o *Options) typicalLayout(unit uint64, l *layout) unitLayout {
	if !l.records() {
		return newUnitLayout(unit, l.valueSize)
	}
	size := func(n int) int {
		if n == 0 {
			return 64
		}
		return n
	}
	return recordClasses(unit)[classOf(newHeader(size(o.KeySize), size(o.ValueSize)).words())]
}

// hugePageBytes is the usual page size of hugetlbfs.
const hugePageBytes = 2 << 20

// capacityOf returns the number of keys that the levels hold without a resize: 85% of the slots, or
// 50% if a key has fewer than 16 candidate slots.
func capacityOf(l layout, hashes, levels, top int) (keys uint64) {
	percent := uint64(85)
	if l.slots*uint64(hashes*levels) < 16 {
		percent = 50
	}
	for i := range levels {
		keys += l.slots << (top - i) * percent / 100
	}
	return keys
}
