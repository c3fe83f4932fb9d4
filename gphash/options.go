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

// Options are the options of a new pool, which keeps them.
type Options struct {
	// KeySize and ValueSize are the lengths of all keys and values in bytes: 1 to 128, and 1 to
	// 65,536. Maps set them to the sizes of their types. For [Strings] at least one of them is 0, a
	// variable length: 1 to 4,096, and 0 to 65,536.
	KeySize, ValueSize int
	// Capacity is the number of keys that fit without a resize; 1,000 by default.
	Capacity int
	// Size is the size of the pool in bytes, allocated in full on creation. It holds
	// levels, two more of them while they grow, and values. The default fits four times Capacity,
	// with 64 bytes for each variable length.
	Size int64
	// Slots of a bucket, hash locations of a key, and levels (section 3.1): 8, 2 and 2 by default.
	// Their product, the number of candidate slots of a key, is 8 to 32, which a warp reads at
	// once. At least one of Hashes and Levels is 2 or more.
	Slots, Hashes, Levels int
	// Hash is the hash function of keys; SipHash by default. Keys chosen to collide in their first
	// bits by [Fast] make a GPU compare each of them with all others of their batch.
	Hash HashID
	// Seed is the seed of the hash function; random by default.
	Seed [2]uint64
	// Durability is the minimum required, if any. A pool that is not granted it returns
	// [ErrNotDurable].
	Durability Durability
	// AssertPMem is what an operator vouches for if Durability is PMem and the system does not
	// report it.
	AssertPMem PMemConditions
	// Resize selects when keys move as the index grows; Beside by default.
	Resize Resize
	// AtomicBatch, if not 0, makes batches of up to that many operations atomic. Such a call is
	// done as a whole or not at all, however the process ends. A call with more operations is split
	// into several such batches, in its order. A batch without capacity for all its inserts does
	// nothing and returns [weft.ErrFull]. The pool has a log for one batch, of 24 bytes per
	// operation. The maximum is 1,048,576. The log takes whole MiB of the pool, and a batch may
	// have as many operations as fit. The first MiB fits 43,685, and each further one 43,690 or
	// 43,691 more. For [Strings] it takes whole sixteenths of a MiB. On a GPU it implies Mirror,
	// and calls with streams wait.
	AtomicBatch int
	// AtomicTail is as in OpenOptions. The log has capacity for that many operations more.
	AtomicTail int
	// Mirror, Cache and CachePolicy are as in OpenOptions.
	Mirror      bool
	Cache       float64
	CachePolicy CachePolicy
	// Logger receives events of the pool; nil drops them.
	Logger *slog.Logger
}

// OpenOptions are the options of opening a pool.
type OpenOptions struct {
	// ReadOnly opens the pool alongside other readers and leaves the file unchanged. Readers ignore
	// what a crash has left in it. Changes return [ErrReadOnly]; so does opening a pool with holes
	// in a file system in memory.
	ReadOnly bool
	// Repair gives up damaged slots instead of returning [weft.ErrCorrupt]. It implies Verify: if
	// two slots refer to one value, its checksum decides between them. It also opens pools after a
	// loss of power, instead of returning [ErrPowerLost], and keeps what passes its checksum. Lost
	// data is not restored; the [Report] lists it.
	Repair bool
	// Verify reads all values and compares them with their checksums, and the sum of these with
	// that of the last Close.
	Verify bool
	// Durability is the minimum required, if any. A pool that is not granted it returns
	// [ErrNotDurable].
	Durability Durability
	// Mirror keeps control words and tags, 16 bytes per slot, in the memory of a GPU, too. A lookup
	// then reads only the value in the pool. It has no effect on a CPU.
	Mirror bool
	// AtomicTail lets the slots of the pool lag atomic batches of a GPU by that many operations, or
	// by the capacity of the log. These are durable in the log, and opening the pool after a crash
	// applies them. So slots that several batches change are written once. It has no effect on a
	// CPU.
	AtomicTail int
	// Cache is the share of the buckets that a GPU has in its memory: 0.2 is one in five. They are
	// those read most as of the last LoadCache. For [Strings] it requires that Mirror is off. With
	// Mirror, which has all buckets, Cache is the share of the keys that have their values in the
	// GPU's memory too. That takes 8 bytes more for each value that fits the pool. Atomic batches
	// imply a mirror, so there it is a cache of values.
	Cache       float64
	CachePolicy CachePolicy
	// HostFirst makes Open return as soon as the CPU has recovered the pool. The CPU works on the
	// pool until the GPU has mapped it, since the driver locks its pages one by one. The GPU takes
	// over between two batches. Batches on the device wait for that, as WaitMapped does. If the GPU
	// cannot map the pool or lacks memory, the CPU goes on, and batches on the device return the
	// reason. It has no effect on a CPU.
	HostFirst bool
	// Unsorted makes a GPU look keys up in the given order, all over the pool. It serves to measure
	// what sorting gains.
	Unsorted bool
	// AssertPMem, Resize and Logger are as in Options.
	AssertPMem PMemConditions
	Resize     Resize
	Logger     *slog.Logger
}

// PMemConditions are what an operator vouches for because the system does not report it. If a
// condition does not hold, a power failure may leave a damaged pool.
type PMemConditions struct {
	// Persistent: data that has left the caches of the CPU survives a power failure, whatever file
	// the pool is in.
	Persistent bool
	// DDIOOff: stores of GPUs bypass the caches of the CPU, since DDIO is off at their root ports.
	// It is required if a GPU works on the pool and only the memory controllers are in the
	// persistence domain.
	DDIOOff bool
	// GlobalPersistentFlush: the CXL device, its host and its power supply support it.
	GlobalPersistentFlush bool
}

// Resize selects how the keys of the bottom level move when an index has grown.
type Resize uint8

const (
	// Beside lets each batch move some keys and zero a part of the next level, in proportion to its
	// size. That level is allocated once half of the slots are taken (a quarter, if a key has fewer
	// than 16 candidates). Values take its memory back if they find no other.
	Beside Resize = iota
	// Stop lets the batch that grows the index zero the new level and move all keys, as in the
	// paper.
	Stop
)

var resizes = enum.Names[Resize]{Type: "gphash.Resize", Names: []string{"Beside", "Stop"}, Err: op.ErrOptions}

// String returns the name of the mode.
func (r Resize) String() string { return resizes.String(r) }

// MarshalText returns String, or weft.ErrOptions for an invalid value.
func (r Resize) MarshalText() ([]byte, error) { return resizes.Text(r) }

// UnmarshalText parses a name in upper or lower case, so flag.TextVar accepts it.
func (r *Resize) UnmarshalText(text []byte) error { return resizes.Read(r, text) }

// Errors of this package.
var (
	// ErrSkewed: a key finds no slot, though less than half are taken (a quarter, if a key has
	// fewer than 16 candidates). The keys have been chosen to collide, with knowledge of the seed,
	// and a larger index would not help. The error comes with [weft.ErrFull], since the other
	// operations of the batch have been done.
	ErrSkewed = errors.New("keys collide")

	// ErrLocked: the pool is open already, in this process or in another one.
	ErrLocked = pool.ErrLocked
	// ErrPowerLost: the pool was open when the machine stopped, and its memory is not persistent.
	// The file has pages of different times. OpenOptions.Repair keeps what passes its checksum.
	// Acknowledged data may be missing, so a backup may be better.
	ErrPowerLost = pool.ErrPowerLost
	// ErrNotDurable: the pool cannot provide the durability asked for.
	ErrNotDurable = pool.ErrNotDurable
	// ErrReadOnly: the pool was opened for reading.
	ErrReadOnly = pool.ErrReadOnly
	// ErrVersion: this module does not support the version of the pool.
	ErrVersion = pool.ErrVersion

	errNoDevice = core.Invalid("no device")
	errCrowded  = errors.New("no slot")
	errNoSpace  = errors.New("the pool is used up")
)

// maxKey is the maximum length of keys of fixed length, in bytes.
const maxKey = 128

// maxAtomic is the maximum number of operations of an atomic batch, the size of a chunk.
const maxAtomic = core.ChunkOps

// maxTail is the maximum of AtomicTail.
const maxTail = 1 << 26

// maxLevels is the number of levels of different size. The largest has 2^30 buckets.
const maxLevels = pool.MaxLevels

// recordUnit is the allocation unit of levels and records in words: 64 KiB, since each size of
// records has units of its own.
const recordUnit = 1 << 13

// unit is the allocation unit of levels and values in words: 1 MiB. The superblock stores the unit
// of each pool. Tests make units smaller.
var unit uint64 = maxRunUnits * recordUnit

// check sets defaults and returns the first superblock.
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
		return nil, core.Invalid("KeySize %d, ValueSize %d: neither is variable, an Index is what fits", o.KeySize, o.ValueSize)
	case o.Slots < 1 || o.Hashes < 1 || o.Hashes > maxHashes || o.Levels < 1:
		return nil, core.Invalid("Slots %d, Hashes %d, Levels %d: at least 1 of each, and 4 hashes at most", o.Slots, o.Hashes, o.Levels)
	case o.Slots*o.Hashes*o.Levels < 8 || o.Slots*o.Hashes*o.Levels > 32:
		return nil, core.Invalid("Slots %d x Hashes %d x Levels %d are not between 8 and 32", o.Slots, o.Hashes, o.Levels)
	case o.Hashes*o.Levels == 1:
		return nil, core.Invalid("1 hash and 1 level: one bucket of a key is crowded before others are half full")
	case o.Resize > Stop:
		return nil, core.Invalid("unknown Resize %d", o.Resize)
	case o.Capacity < 0 || o.Capacity > 1<<40:
		return nil, core.Invalid("Capacity %d", o.Capacity)
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

// plan places the first levels in a pool with units of unit words.
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
			// for sizes with few records
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

// typicalLayout returns the expected layout of units when the pool is made. It assumes 64 bytes for
// a variable length.
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

// capacityOf returns how many keys levels hold without a resize, with a little to spare: fewer if a
// key has fewer than 16 candidate slots.
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
