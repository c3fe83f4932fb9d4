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

// Options are those of a new pool, which keeps them.
type Options struct {
	// KeySize and ValueSize are those of all keys and values, in bytes: 1 to 128, and
	// 1 to 65,536. Maps have those of their types. Of [Strings], at least one of them is 0,
	// a variable length: 1 to 4,096, and 0 to 65,536.
	KeySize, ValueSize int
	// Capacity is the number of keys that fit without a resize; 1,000 by default.
	Capacity int
	// Size is that of the pool in bytes, all of which is allocated when it is made:
	// for levels, while they grow for two more at a time, and for values. By default
	// what four times Capacity takes; of variable lengths, with 64 bytes each.
	Size int64
	// Slots of a bucket, hash locations of a key, and levels (section 3.1): 8, 2 and 2
	// by default. Their product, the slots that a key may be in, is 8 to 32, what a warp
	// reads at once; of hashes or of levels there are two at least.
	Slots, Hashes, Levels int
	// Hash is the hash function of keys; SipHash by default. Keys that somebody has chosen to begin alike by [Fast]
	// make a GPU compare each of them with all others of their batch.
	Hash HashID
	// Seed is that of the hash function; random by default.
	Seed [2]uint64
	// Durability is what is asked for at least, if anything: [ErrNotDurable] if the pool
	// is not granted it.
	Durability Durability
	// AssertPMem is what an operator vouches for where Durability is PMem and the system
	// does not tell.
	AssertPMem PMemConditions
	// Resize says who moves keys when the index grows; Beside by default.
	Resize Resize
	// AtomicBatch makes batches of up to so many operations atomic, if it is not 0: such a
	// call is there as a whole or not at all, whatever ends the process. A call that has more is several
	// such batches, in its order; one without room for all that it inserts does nothing, and returns
	// [weft.ErrFull]. The pool has a log for one batch, of 24 bytes an operation. At most 1,048,576. The
	// log takes whole MiB of the pool, and a batch may have as many operations as there is room for: 43,685
	// where fewer are asked for, 43,690 or 43,691 more with each MiB. For [Strings] it takes whole sixteenths
	// of a MiB. On a GPU it takes Mirror, whether
	// asked for or not, and calls with streams wait.
	AtomicBatch int
	// AtomicTail is as in OpenOptions; the log has room for so many operations besides.
	AtomicTail int
	// Mirror, Cache and CachePolicy are as in OpenOptions.
	Mirror      bool
	Cache       float64
	CachePolicy CachePolicy
	// Logger receives what happens to the pool; nobody by default.
	Logger *slog.Logger
}

// OpenOptions are those of a pool that is there.
type OpenOptions struct {
	// ReadOnly opens the pool beside other readers and leaves the file as it is, with
	// what a crash has left, which no reader sees. Whatever would change it returns
	// [ErrReadOnly]; so does opening a pool with holes in a file system in memory.
	ReadOnly bool
	// Repair gives up slots that are damaged, instead of returning [weft.ErrCorrupt]. It
	// verifies: of two slots that have one value, the checksum knows whose it is. It opens pools of which
	// power was lost, too, instead of returning [ErrPowerLost], and keeps what has its checksum. What is
	// gone is not brought back: the [Report] says what there was.
	Repair bool
	// Verify reads all values and compares them with their checksums, and these with their sum when the
	// pool was closed.
	Verify bool
	// Durability is what is asked for at least, if anything: [ErrNotDurable] if the pool
	// is not granted it.
	Durability Durability
	// Mirror keeps control words and tags, 16 bytes a slot, in the memory of a GPU, too: a
	// lookup reads nothing of the pool but the value then. On a CPU it changes nothing.
	Mirror bool
	// AtomicTail lets slots of the pool be behind atomic batches of a GPU by up to so many operations,
	// as long as the log has room for them: these are durable in the log, and opening the pool after a
	// crash applies them. So slots that several batches change are written once. On a CPU it changes nothing.
	AtomicTail int
	// Cache is the share of the buckets that a GPU has in its memory: 0.2 is one of five, those that
	// are read most, as of the last LoadCache; of [Strings] without Mirror only. With Mirror, which has all buckets, it is the share of
	// the keys whose values the GPU has, too, and 8 bytes for each value that the pool has room for; so it
	// is where batches are atomic, which take a mirror.
	Cache       float64
	CachePolicy CachePolicy
	// HostFirst has Open return as soon as the CPU has recovered the pool, which works on it until the GPU
	// has mapped it, whose driver locks its pages one by one. The GPU takes over between two
	// batches. Batches on the device wait for that, as Mapped does. If the GPU cannot map the pool, or lacks
	// memory, the CPU goes on, and batches on the device return why. On a CPU it changes nothing.
	HostFirst bool
	// Unsorted has a GPU look keys up as they come, all over the pool: to measure what
	// sorting them gains.
	Unsorted bool
	// AssertPMem, Resize and Logger are as in Options.
	AssertPMem PMemConditions
	Resize     Resize
	Logger     *slog.Logger
}

// PMemConditions are what an operator vouches for: no file of the system says so. If it
// is not so, a power failure may leave a pool that is damaged.
type PMemConditions struct {
	// Persistent: the memory of the pool survives a power failure, in whatever file it is,
	// as far as it has left the caches of the CPU.
	Persistent bool
	// DDIOOff: stores of GPUs pass by the caches of the CPU, since DDIO is off at their root
	// ports; needed where a GPU works on the pool, and only the memory controllers are in
	// the persistence domain.
	DDIOOff bool
	// GlobalPersistentFlush: the device behind CXL, its host and its power supply have it.
	GlobalPersistentFlush bool
}

// Resize says who moves the keys of the bottom level when an index has grown.
type Resize uint8

const (
	// Beside lets each batch move some and zero some of the next level, in proportion to its
	// size. That level has its memory from when half of the slots are taken (a quarter, where a
	// key has less than 16 to choose from), and gives it to values that find no other.
	Beside Resize = iota
	// Stop lets the batch that grows the index zero the new level and move all, as the paper
	// does.
	Stop
)

var resizes = enum.Names[Resize]{Type: "gphash.Resize", Names: []string{"Beside", "Stop"}, Err: op.ErrOptions}

// String is the name of who moves the keys.
func (r Resize) String() string { return resizes.String(r) }

// MarshalText is String, or weft.ErrOptions where there is no such value.
func (r Resize) MarshalText() ([]byte, error) { return resizes.Text(r) }

// UnmarshalText reads a name, in upper or lower case: so flag.TextVar takes it.
func (r *Resize) UnmarshalText(text []byte) error { return resizes.Read(r, text) }

// Errors of this package.
var (
	// ErrSkewed: a key finds no slot, though less than half are taken (a quarter, where a
	// key has less than 16 to choose from): keys have been chosen to collide, by who knows
	// the seed, and a larger index would not help. It comes with [weft.ErrFull], since the
	// other operations of the batch have been done.
	ErrSkewed = errors.New("keys collide")

	// ErrLocked: somebody has the pool open, in this process or in another one.
	ErrLocked = pool.ErrLocked
	// ErrPowerLost: the pool was open when the machine stopped, and its memory does not outlive that. The
	// file has pages of different times. OpenOptions.Repair keeps what has its checksum; what had been
	// acknowledged may be missing, so a backup may be better.
	ErrPowerLost = pool.ErrPowerLost
	// ErrNotDurable: the pool cannot keep what was asked of it.
	ErrNotDurable = pool.ErrNotDurable
	// ErrReadOnly: the pool was opened for reading.
	ErrReadOnly = pool.ErrReadOnly
	// ErrVersion: the pool is of a version that this module does not know.
	ErrVersion = pool.ErrVersion

	errNoDevice = core.Invalid("no device")
	errCrowded  = errors.New("no slot")
	errNoSpace  = errors.New("the pool is used up")
)

// maxKey is the length of the longest keys, in bytes.
const maxKey = 128

// maxAtomic is how many operations an atomic batch has at most: as many as a table is handed at once.
const maxAtomic = core.ChunkOps

// maxTail is how many operations slots of the pool are behind at most.
const maxTail = 1 << 26

// maxLevels is how many levels of different size there are: the largest has 2^30
// buckets.
const maxLevels = pool.MaxLevels

// recordUnit is what levels and records take of a pool at a time, in words: 64 KiB, since each size of
// records has units of its own.
const recordUnit = 1 << 13

// unit is what levels and values take of a pool at a time, in words: 1 MiB. The superblock of a pool has
// its own. Tests make units smaller.
var unit uint64 = mostUnits * recordUnit

// check fills options in and returns the first superblock.
func (o *Options) check(records bool) (*pool.Superblock, error) {
	for _, field := range []struct{ at, def *int }{{&o.Slots, ptr(8)}, {&o.Hashes, ptr(2)}, {&o.Levels, ptr(2)}, {&o.Capacity, ptr(1000)}} {
		if *field.at == 0 {
			*field.at = *field.def
		}
	}
	if o.Hash == 0 {
		o.Hash = SipHash
	}
	least := 1
	if records {
		least = 0
	}
	switch {
	case o.KeySize < least || o.KeySize > maxKey:
		return nil, core.Invalid("KeySize %d is not between %d and %d", o.KeySize, least, maxKey)
	case o.ValueSize < least || o.ValueSize > maxValue:
		return nil, core.Invalid("ValueSize %d is not between %d and %d", o.ValueSize, least, maxValue)
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

// plan places the first levels in a pool of units of so many words.
func (o *Options) plan(unit uint64) (*pool.Superblock, error) {
	l := newLayout(uint64(o.KeySize), uint64(o.ValueSize), uint64(o.Slots))
	top := o.Levels - 1
	for fits(l, o.Hashes, o.Levels, top) < uint64(o.Capacity) {
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
		v, regions := o.typical(unit, &l), uint64(1)<<level{bits: uint(top) + 2}.regions()
		values := (4*uint64(o.Capacity)/v.per*(v.unit/unit) + regions + 1) * unit * pm.Word
		if l.records() {
			values += (32*regions + 8*mostUnits) * unit * pm.Word // of some sizes that few records have
		}
		o.Size = int64(at+6*levels+values+hugePage-1) / hugePage * hugePage
	}
	if least := at + unit*pm.Word; uint64(o.Size) < least {
		return nil, core.Invalid("Size %d is less than the %d bytes that levels for %d keys, the log and one unit of values take", o.Size, least, o.Capacity)
	}
	o.Size = o.Size / int64(unit*pm.Word) * int64(unit*pm.Word)
	return s, nil
}

// typical is the layout of units when the pool is made, as far as it is known: variable
// lengths are taken for 64 bytes.
func (o *Options) typical(unit uint64, l *layout) unitLayout {
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

// hugePage is what the sizes of files of hugetlbfs are multiples of, mostly.
const hugePage = 2 << 20

// fits is how many keys levels take without a resize, with a little to spare: fewer where
// a key has less than 16 slots to choose from.
func fits(l layout, hashes, levels, top int) (keys uint64) {
	percent := uint64(85)
	if l.slots*uint64(hashes*levels) < 16 {
		percent = 50
	}
	for i := range levels {
		keys += l.slots << (top - i) * percent / 100
	}
	return keys
}
