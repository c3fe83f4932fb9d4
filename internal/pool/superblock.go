package pool

import (
	"fmt"
	"strings"
	"time"
)

// DataStart is where levels and areas begin, in bytes. Before it lie the two copies
// of the superblock, alone in two pages of 2 MiB, so that no damage to one huge page
// reaches both.
const DataStart = 4 << 20

// Page is what offsets and lengths within a pool are multiples of, in bytes.
const Page = 4096

// What a pool may ask for at most. A file cannot be trusted: whoever reads a
// superblock computes with its numbers only after [Superblock.Check].
const (
	MaxLevels = 31       // of the table's 32; the last one stays free
	maxWays   = 32       // slots of a bucket, hash locations: lanes of a warp
	maxKey    = 128      // bytes
	maxValue  = 64 << 10 // bytes
	maxUnit   = 1 << 28  // words
	maxSize   = 1 << 48
	maxTool   = 32      // bytes
	maxCount  = 1 << 62 // generations, epochs, openings: they never wrap
)

// Geometry is what a pool is made for; it never changes.
type Geometry struct {
	KeySize, ValueSize uint32 // bytes; 0 is a variable length, which takes the feature Records
	Slots              uint32 // of a bucket
	Hashes             uint32 // locations of a key in each level
	Levels             uint32 // levels that share keys
	HashID             uint32 // SipHash or FastHash
	Unit               uint32 // words that levels and values take of the pool at a time
	_                  uint32
	Seed               [2]uint64
}

// The hashes of keys.
const (
	SipHash  = 1 // SipHash-1-3, keyed by the seed: nobody can flood a bucket without it
	FastHash = 2 // for keys that no opponent chooses
)

// Records is the incompatible feature of pools whose keys or values have a variable
// length: what they hold lies in records.
const Records = 1 << 0

// LevelState is what a level is good for.
type LevelState uint32

// The states of levels.
const (
	Free     LevelState = iota // there is none: offset and length are zero
	Live                       // holds keys
	Draining                   // takes no new keys, and gives its own to the levels above
)

// String names the state as messages do.
func (s LevelState) String() string {
	if names := [...]string{"free", "live", "draining"}; s < LevelState(len(names)) {
		return names[s]
	}
	return fmt.Sprintf("%d, which is none", uint32(s))
}

// Level is where a level lies in the pool.
type Level struct {
	Offset, Length uint64 // bytes, multiples of Page
	State          LevelState
	_              uint32
}

// Area is a part of the pool beside the levels: values, records. What each one is
// for is the index's business.
type Area struct {
	Offset, Length uint64 // bytes, multiples of Page; zero if there is none
	// Used is how many bytes from the beginning may have been written. It is
	// committed before they are, or a batch would write over values that a crash
	// has made the pool forget.
	Used uint64
}

// Features are what a pool has that not all versions of this package know, a bit
// each.
type Features struct {
	Compat   uint32 // whoever does not know them may read and write the pool
	ReadOnly uint32 // … may read it
	Incompat uint32 // … must leave it alone
}

// Superblock is all that a pool knows about itself but for what lies in its levels.
type Superblock struct {
	Features Features
	UUID     [16]byte
	Created  time.Time // to the nanosecond, UTC
	Tool     string    // what made the pool; at most 32 bytes of printable ASCII
	Geometry Geometry
	Size     uint64 // of the pool in bytes

	Levels      [32]Level // by number: level i has 2^i buckets of some unit
	Top, Bottom uint32    // numbers of the levels between which keys are searched
	Areas       [8]Area

	Epoch        uint64
	Clean        bool   // whoever had the pool last closed it
	Boot         BootID // of the system on which the pool was last opened for changing
	Contents     Contents
	UncleanOpens uint64 // how often the pool was opened without having been closed

	Generation uint64 // of this superblock; the highest one counts
}

// BootID tells one run of an operating system from another; zero is unknown.
type BootID [16]byte

// Contents are what Close found in a pool. A version of this package that does not know the field
// leaves it as it was, so it counts in one generation of the superblock only.
type Contents struct {
	Generation uint64 // of the superblock that they belong to
	Keys       uint64
	Slots      uint64 // a sum over the slots that have keys
	Values     uint64 // a sum over the checksums of their values
}

// closed returns what Close found in the pool, if nobody has opened it for changing since.
func (s *Superblock) closed() (c Contents, ok bool) {
	return s.Contents, s.Clean && s.Contents.Generation == s.Generation
}

// illegal says what is wrong with a superblock of a pool of so many bytes; without
// a sentinel, since that depends on who has written it.
func (s *Superblock) illegal(size uint64) error {
	for _, check := range []func(uint64) error{s.illegalSize, s.illegalGeometry, s.illegalIdentity, s.illegalPlaces, s.illegalLevels} {
		if err := check(size); err != nil {
			return err
		}
	}
	return nil
}

func (s *Superblock) illegalSize(size uint64) error {
	switch {
	case s.Size < DataStart+Page || s.Size > maxSize || s.Size%Page != 0:
		return fmt.Errorf("size %d: not a multiple of %d between %d and %d", s.Size, Page, DataStart+Page, uint64(maxSize))
	case size < s.Size:
		return fmt.Errorf("size %d: only %d bytes are left, the pool has been truncated", s.Size, size)
	case size > s.Size:
		return fmt.Errorf("size %d: there are %d bytes, the end is not the pool's", s.Size, size)
	}
	return nil
}

func (s *Superblock) illegalGeometry(uint64) error {
	g := &s.Geometry
	size := uint32(1) // of keys and values, at least
	if s.Features.Incompat&Records != 0 {
		size = 0
		if g.KeySize > 0 && g.ValueSize > 0 {
			return fmt.Errorf("key size %d, value size %d: the pool has records, and neither is variable", g.KeySize, g.ValueSize)
		}
	}
	for _, f := range []struct {
		name           string
		is, least, max uint32
	}{
		{"key size", g.KeySize, size, maxKey}, {"value size", g.ValueSize, size, maxValue}, {"slots of a bucket", g.Slots, 1, maxWays},
		{"hash locations", g.Hashes, 1, maxWays}, {"levels", g.Levels, 1, MaxLevels}, {"hash", g.HashID, 1, FastHash}, {"unit", g.Unit, 1, maxUnit},
	} {
		if f.is < f.least || f.is > f.max {
			return fmt.Errorf("%s %d: not between %d and %d", f.name, f.is, f.least, f.max)
		}
	}
	return nil
}

func (s *Superblock) illegalIdentity(uint64) error {
	printable := func(r rune) bool { return r >= ' ' && r <= '~' }
	switch {
	case len(s.Tool) > maxTool || strings.ContainsFunc(s.Tool, func(r rune) bool { return !printable(r) }):
		return fmt.Errorf("tool %q: not at most %d bytes of printable ASCII", s.Tool, maxTool)
	case !date(nanoseconds(s.Created)).Equal(s.Created):
		return fmt.Errorf("created %v: not a time that 64 bits of nanoseconds hold", s.Created)
	case s.Generation > maxCount || s.Epoch > maxCount || s.UncleanOpens > maxCount:
		return fmt.Errorf("generation %d, epoch %d, unclean openings %d: beyond %d", s.Generation, s.Epoch, s.UncleanOpens, uint64(maxCount))
	}
	return nil
}

// nanoseconds and date are a time on file; zero is no time.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func date(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
