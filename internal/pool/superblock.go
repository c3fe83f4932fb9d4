package pool

import (
	"fmt"
	"strings"
	"time"
)

// DataStart is the offset in bytes of levels and areas. The two copies of the superblock lie before
// it in separate pages of 2 MiB, so damage to one huge page cannot affect both copies.
const DataStart = 4 << 20

// Page is the unit of offsets and lengths in a pool, in bytes.
const Page = 4096

// Limits of a pool. A file may contain any numbers, so code uses the numbers of a superblock only
// after [Superblock.Check].
const (
	MaxLevels = 31       // levels of a pool; the last of the 32 table entries stays unused
	maxWays   = 32       // slots per bucket, and hash locations; a warp has as many lanes
	maxKey    = 128      // bytes
	maxValue  = 64 << 10 // bytes
	maxUnit   = 1 << 28  // words
	maxSize   = 1 << 48
	maxTool   = 32      // bytes
	maxCount  = 1 << 62 // generations, epochs and openings, which therefore never wrap
)

// Geometry is the immutable layout of a pool.
type Geometry struct {
	KeySize, ValueSize uint32 // bytes; 0 is a variable length, which requires the feature Records
	Slots              uint32 // slots per bucket
	Hashes             uint32 // hash locations of a key per level
	Levels             uint32 // number of levels that accept new keys
	HashID             uint32 // SipHash or FastHash
	Unit               uint32 // allocation unit of levels and values, in words
	_                  uint32
	Seed               [2]uint64
}

// Hash functions for keys.
const (
	// SipHash-1-3 with the seed as its key; without the seed an attacker cannot choose keys that
	// collide
	SipHash  = 1
	FastHash = 2 // use only if no attacker chooses keys
)

// Records is a bit of Features.Incompat. Slots of such a pool refer to records, since keys or
// values have a variable length.
const Records = 1 << 0

// LevelState is the state of a level.
type LevelState uint32

// States of levels.
const (
	Free     LevelState = iota // unused; offset and length are zero
	Live                       // holds keys
	Draining                   // accepts no new keys; its keys are moving to the levels above
)

// String returns the name of the state for messages.
func (s LevelState) String() string {
	if names := [...]string{"free", "live", "draining"}; s < LevelState(len(names)) {
		return names[s]
	}
	return fmt.Sprintf("%d (unknown)", uint32(s))
}

// Level is the location and the state of a level in the pool.
type Level struct {
	Offset, Length uint64 // bytes, multiples of Page
	State          LevelState
	_              uint32
}

// Area is a part of the pool outside the levels. The index determines the use of each area.
type Area struct {
	Offset, Length uint64 // bytes, multiples of Page; zero if unused
	// Used is the number of bytes from the beginning that may have been written. It is committed
	// before these bytes are written. Otherwise, after a crash, a batch could overwrite values
	// because the pool does not count them as used.
	Used uint64
}

// Features are bits for properties of a pool that not all versions of this package support.
type Features struct {
	Compat   uint32 // versions without support may read and write the pool
	ReadOnly uint32 // versions without support may only read it
	Incompat uint32 // versions without support must not open it
}

// Superblock describes a pool, except for the contents of its levels.
type Superblock struct {
	Features Features
	UUID     [16]byte
	Created  time.Time // UTC, with nanoseconds
	Tool     string    // program that created the pool; at most 32 bytes of printable ASCII
	Geometry Geometry
	Size     uint64 // size of the pool in bytes

	Levels      [32]Level // level i has 2^i buckets
	Top, Bottom uint32    // numbers of the highest and the lowest level in use
	Areas       [8]Area

	Epoch        uint64
	Clean        bool   // the last writer closed the pool
	Boot         BootID // boot of the system that last opened the pool for changing
	Contents     Contents
	UncleanOpens uint64 // number of openings of an unclean pool

	Generation uint64 // number of this superblock; the copy with the higher number is current
}

// BootID identifies one run of an operating system. Zero means unknown.
type BootID [16]byte

// Contents describes the contents of a pool when it was closed. Versions of this package that do
// not support Superblock.Contents copy the field unchanged. So it is valid only if its Generation
// equals that of the superblock.
type Contents struct {
	Generation uint64 // generation of the superblock that stores these contents
	Keys       uint64
	Slots      uint64 // sum of hashes of the slots that hold keys
	Values     uint64 // sum of hashes of the checksums of values
}

// contentsAtClose returns the contents that Close stored, if no writer has opened the pool since.
func (s *Superblock) contentsAtClose() (c Contents, ok bool) {
	return s.Contents, s.Clean && s.Contents.Generation == s.Generation
}

// validate returns an error if the superblock is illegal in a pool of size bytes. The caller wraps
// the error, since its kind depends on the origin of the superblock.
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
		return fmt.Errorf("size %d: there are %d bytes, more than the pool has", s.Size, size)
	}
	return nil
}

func (s *Superblock) validateGeometry(uint64) error {
	g := &s.Geometry
	size := uint32(1) // minimum size of keys and values
	if s.Features.Incompat&Records != 0 {
		size = 0
		if g.KeySize > 0 && g.ValueSize > 0 {
			return fmt.Errorf("key size %d, value size %d: the pool has records, but neither is variable", g.KeySize, g.ValueSize)
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

// nanoseconds and date convert between a time and its stored form. Zero means no time.
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
