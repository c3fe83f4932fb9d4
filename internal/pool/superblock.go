package pool

import (
	"fmt"
	"strings"
	"time"
)

// DataStart is the offset in bytes of levels and areas. The two copies of the superblock lie before
// it, each alone in a page of 2 MiB. So damage to one huge page cannot reach both.
const DataStart = 4 << 20

// Page is the unit of offsets and lengths within a pool, in bytes.
const Page = 4096

// Limits of a pool. A file cannot be trusted: code computes with the numbers of a superblock only
// after [Superblock.Check].
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

// Geometry is the immutable shape of a pool.
type Geometry struct {
	KeySize, ValueSize uint32 // bytes; 0: variable length, which requires the feature Records
	Slots              uint32 // slots per bucket
	Hashes             uint32 // locations of a key in each level
	Levels             uint32 // levels that share keys
	HashID             uint32 // SipHash or FastHash
	Unit               uint32 // words that levels and values allocate at a time
	_                  uint32
	Seed               [2]uint64
}

// The hashes of keys.
const (
	// SipHash-1-3, keyed by the seed: without the seed an attacker cannot flood a bucket
	SipHash  = 1
	FastHash = 2 // for keys that no attacker chooses
)

// Records is the incompatible feature of pools with keys or values of variable length. Slots then
// refer to records.
const Records = 1 << 0

// LevelState is the state of a level.
type LevelState uint32

// The states of levels.
const (
	Free     LevelState = iota // no level: offset and length are zero
	Live                       // holds keys
	Draining                   // accepts no new keys; its keys move to the levels above
)

// String returns the name used in messages.
func (s LevelState) String() string {
	if names := [...]string{"free", "live", "draining"}; s < LevelState(len(names)) {
		return names[s]
	}
	return fmt.Sprintf("%d, which is none", uint32(s))
}

// Level is the place and the state of a level in the pool.
type Level struct {
	Offset, Length uint64 // bytes, multiples of Page
	State          LevelState
	_              uint32
}

// Area is a part of the pool besides the levels: values or records. The index defines the use of
// each one.
type Area struct {
	Offset, Length uint64 // bytes, multiples of Page; zero if unused
	// Used is the number of bytes from the beginning that may have been written. It is committed
	// before they are written. Otherwise a batch could overwrite values that a crash has made the
	// pool forget.
	Used uint64
}

// Features are bits for properties of a pool that some versions of this package do not support.
type Features struct {
	Compat   uint32 // versions without support may read and write the pool
	ReadOnly uint32 // … may only read it
	Incompat uint32 // … must not open it
}

// Superblock is the description of a pool, except for the contents of its levels.
type Superblock struct {
	Features Features
	UUID     [16]byte
	Created  time.Time // to the nanosecond, UTC
	Tool     string    // what made the pool; at most 32 bytes of printable ASCII
	Geometry Geometry
	Size     uint64 // of the pool in bytes

	Levels      [32]Level // by number: level i has 2^i buckets of some unit
	Top, Bottom uint32    // range of levels that lookups search, by number
	Areas       [8]Area

	Epoch        uint64
	Clean        bool   // the last writer closed the pool
	Boot         BootID // boot of the system that last opened the pool for changing
	Contents     Contents
	UncleanOpens uint64 // number of openings without a Close before

	Generation uint64 // of this superblock; the copy with the higher one is current
}

// BootID identifies one run of an operating system; zero is unknown.
type BootID [16]byte

// Contents are what Close found in a pool. A version of this package without the field copies it
// unchanged, so Contents are valid for one generation of the superblock only.
type Contents struct {
	Generation uint64 // of the superblock that they belong to
	Keys       uint64
	Slots      uint64 // a sum over the slots that hold keys
	Values     uint64 // a sum over the checksums of their values
}

// contentsAtClose returns what Close found in the pool, if no writer has opened it since.
func (s *Superblock) contentsAtClose() (c Contents, ok bool) {
	return s.Contents, s.Clean && s.Contents.Generation == s.Generation
}

// validate returns what is wrong with a superblock of a pool of size bytes. The error has no
// sentinel, since that depends on the origin of the superblock.
func (s *Superblock) validate(size uint64) error {
	for _, check := range []func(uint64) error{s.validateSize, s.validateGeometry, s.validateIdentity, s.validateExtents, s.validateLevels} {
		if err := check(size); err != nil {
			return err
		}
	}
	return nil
}

func (s *Superblock) validateSize(size uint64) error {
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

func (s *Superblock) validateGeometry(uint64) error {
	g := &s.Geometry
	size := uint32(1) // min size of keys and values
	if s.Features.Incompat&Records != 0 {
		size = 0
		if g.KeySize > 0 && g.ValueSize > 0 {
			return fmt.Errorf("key size %d, value size %d: the pool has records, and neither is variable", g.KeySize, g.ValueSize)
		}
	}
	for _, f := range []struct {
		name            string
		value, min, max uint32
	}{
		{"key size", g.KeySize, size, maxKey}, {"value size", g.ValueSize, size, maxValue}, {"slots of a bucket", g.Slots, 1, maxWays},
		{"hash locations", g.Hashes, 1, maxWays}, {"levels", g.Levels, 1, MaxLevels}, {"hash", g.HashID, 1, FastHash}, {"unit", g.Unit, 1, maxUnit},
	} {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("%s %d: not between %d and %d", f.name, f.value, f.min, f.max)
		}
	}
	return nil
}

func (s *Superblock) validateIdentity(uint64) error {
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

// nanoseconds and date convert between a time and its form on file; zero is no time.
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
