package pool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"strings"

	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
)

// Major counts formats that older programs cannot read, Minor those that they can.
const (
	Major = 1
	Minor = 1 // since 1.1 the superblock has Boot and Contents
)

// Every version keeps the magic, the marker, the length, the place of the generation
// and the checksums: they tell whether the rest is what somebody wrote, before the
// version tells what it means.
const (
	magic     = "WEFTPOOL"
	marker    = 0x01020304 // as a little-endian number
	blockSize = Page
	sumsAt    = blockSize - 16
	sumsKind  = 1 // CRC32C, and mix
	copyB     = DataStart / 2
)

// AtomicBatches is a feature, one of Features.Incompat: batches go through a redo log in
// area 0, where some may be that have not been applied.
const AtomicBatches = 1 << 1

// known are the features that this version has a meaning for.
var known = Features{Incompat: Records | AtomicBatches}

// wire is a superblock on file, little-endian and without gaps, behind which the
// block is zero up to the checksums. Copy A has the odd generations, copy B the even
// ones, so that a copy in the other's place is no superblock.
type wire struct {
	Magic          [8]byte
	Major, Minor   uint16
	Length         uint32 // of the block, in bytes
	Marker         uint32
	Sums           uint32 // which checksums
	Features       Features
	Clean          uint32
	Generation     uint64
	UUID           [16]byte
	Created        int64 // nanoseconds since 1970; 0 is unknown
	Tool           [32]byte
	Geometry       Geometry
	Size           uint64
	Epoch, Unclean uint64
	Top, Bottom    uint32
	Levels         [32]Level
	Areas          [8]Area
	Boot           BootID   // zero in version 1.0,
	Contents       Contents // and so is this
}

var little = binary.LittleEndian

// block is a copy of the superblock as it lies in the pool.
type block [blockSize]byte

// encode writes s over the superblock that the block holds, or over zeros. What a
// later minor version keeps in the rest of the block stays.
func (b *block) encode(s *Superblock) {
	w := wire{
		Major: Major, Minor: max(Minor, little.Uint16(b[10:])), Length: blockSize, Marker: marker, Sums: sumsKind,
		Features: s.Features, Generation: s.Generation, UUID: s.UUID, Created: nanoseconds(s.Created), Geometry: s.Geometry,
		Size: s.Size, Epoch: s.Epoch, Unclean: s.UncleanOpens, Top: s.Top, Bottom: s.Bottom,
		Levels: s.Levels, Areas: s.Areas, Boot: s.Boot, Contents: s.Contents,
	}
	copy(w.Magic[:], magic)
	copy(w.Tool[:], s.Tool)
	if s.Clean {
		w.Clean = 1
	}
	if _, err := binary.Encode(b[:], little, &w); err != nil {
		panic(err) // the block is larger than wire, whose size is constant
	}
	b.seal()
}

func (w *wire) superblock() Superblock {
	return Superblock{
		Features: w.Features, UUID: w.UUID, Created: date(w.Created), Tool: strings.TrimRight(string(w.Tool[:]), "\x00"),
		Geometry: w.Geometry, Size: w.Size, Levels: w.Levels, Top: w.Top, Bottom: w.Bottom, Areas: w.Areas,
		Epoch: w.Epoch, Clean: w.Clean != 0, UncleanOpens: w.Unclean, Generation: w.Generation,
		Boot: w.Boot, Contents: w.Contents,
	}
}

// seal writes the checksums: CRC32C, four bytes of zero, and mix over all before it.
func (b *block) seal() {
	little.PutUint64(b[sumsAt:], uint64(b.crc()))
	little.PutUint64(b[sumsAt+8:], b.mix())
}

func (b *block) crc() uint32 { return crc32.Checksum(b[:sumsAt], castagnoli) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mix has nothing in common with a CRC, which is linear: what one of them overlooks
// the other finds.
func (b *block) mix() (h uint64) {
	for at := 0; at < sumsAt+8; at += 8 {
		h = hash.Uint64(h^little.Uint64(b[at:]), magicSeed)
	}
	return h
}

const magicSeed = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio: without it, zeros would hash to zero

// parse is the superblock in a copy (0: A, 1: B), if the copy is whole: what it says
// may still be of a version that this package does not know, or illegal.
func (b *block) parse(copy int) (Superblock, error) {
	generation := little.Uint64(b[40:])
	switch {
	case *b == block{}:
		return Superblock{}, fmt.Errorf("%w: all zero", op.ErrFormat)
	case string(b[:8]) != magic:
		return Superblock{}, fmt.Errorf("%w: it begins with %q, not %q", op.ErrFormat, b[:8], magic)
	case little.Uint32(b[16:]) == bits.ReverseBytes32(marker):
		return Superblock{}, fmt.Errorf("%w: a pool of the other byte order (big-endian), which no version reads", op.ErrFormat)
	case little.Uint32(b[16:]) != marker:
		return Superblock{}, fmt.Errorf("%w: the marker of the byte order is %#08x, not %#08x", op.ErrFormat, little.Uint32(b[16:]), marker)
	case little.Uint32(b[12:]) != blockSize || little.Uint32(b[20:]) != sumsKind:
		return Superblock{}, fmt.Errorf("%w: %d bytes with checksums of kind %d, not %d and %d",
			op.ErrFormat, little.Uint32(b[12:]), little.Uint32(b[20:]), blockSize, sumsKind)
	case little.Uint64(b[sumsAt:]) != uint64(b.crc()) || little.Uint64(b[sumsAt+8:]) != b.mix():
		return Superblock{}, fmt.Errorf("%w: the checksums are wrong: torn or damaged", op.ErrCorrupt)
	case generation == 0 || generation%2 == uint64(copy):
		return Superblock{}, fmt.Errorf("%w: generation %d does not belong into copy %c", op.ErrCorrupt, generation, 'A'+copy)
	}
	var w wire
	if _, err := binary.Decode(b[:], little, &w); err != nil {
		return Superblock{}, err
	}
	return w.superblock(), nil
}

// accept says why this package cannot work with a superblock that parse has found in
// a block, in a pool of so many bytes.
func (b *block) accept(s *Superblock, size uint64) error {
	major, minor := little.Uint16(b[8:]), little.Uint16(b[10:])
	if major != Major {
		return fmt.Errorf("%w: format %d.%d, this program knows %d", ErrVersion, major, minor, Major)
	}
	if unknown := s.Features.Incompat &^ known.Incompat; unknown != 0 {
		return fmt.Errorf("%w: the pool has features %#x, which this program does not know", ErrVersion, unknown)
	}
	if err := s.Check(size); err != nil {
		return err
	}
	// A block of a version that this package knows has one form only: nothing hides in its gaps.
	fields := *s
	if minor == 0 {
		fields.Boot, fields.Contents = BootID{}, Contents{}
	}
	var same block
	same.encode(&fields)
	little.PutUint16(same[10:], minor)
	same.seal()
	if same != *b && minor <= Minor && s.Features.Compat&^known.Compat == 0 && s.Features.ReadOnly&^known.ReadOnly == 0 {
		return fmt.Errorf("%w: the superblock is not in canonical form", op.ErrCorrupt)
	}
	return nil
}

// Check reports the first field that is illegal in a superblock of a pool of so many
// bytes, with its numbers, as weft's ErrCorrupt. Behind it, every level and area is
// within the pool, behind the superblocks, and apart from all others, and sums of
// offsets and lengths do not overflow.
func (s *Superblock) Check(size uint64) error {
	if err := s.illegal(size); err != nil {
		return fmt.Errorf("%w: superblock: %w", op.ErrCorrupt, err)
	}
	return nil
}

// Copy is what one copy of the superblock says.
type Copy struct {
	Superblock Superblock // zero unless the copy is whole
	// Err is why the copy is not whole, or, of the one that counts, why this
	// package cannot work with it.
	Err error

	block block
}

// choose parses both copies, and says which one counts: the one of the higher
// generation, or -1. If that one is whole but unacceptable the older one does not
// take its place: the pool has moved on from what it says.
func choose(copies *[2]Copy, size uint64) (int, error) {
	chosen := -1
	for i := range copies {
		c := &copies[i]
		if c.Err == nil {
			c.Superblock, c.Err = c.block.parse(i)
		}
		if c.Err == nil && (chosen < 0 || c.Superblock.Generation > copies[chosen].Superblock.Generation) {
			chosen = i
		}
	}
	if chosen < 0 {
		return -1, neither(copies, size)
	}
	c := &copies[chosen]
	c.Err = c.block.accept(&c.Superblock, size)
	return chosen, c.Err
}

// neither says why a file of so many bytes has no whole copy of the superblock: it is no pool, or one that
// is damaged.
func neither(copies *[2]Copy, size uint64) error {
	first := copies[0].block[:min(size, blockSize)]
	none := errors.Is(copies[0].Err, op.ErrFormat) || size < blockSize
	switch what := contentOf(first); {
	case size == 0:
		return fmt.Errorf("%w: the file is empty, and no pool", op.ErrFormat)
	case size < blockSize && strings.HasPrefix(magic, string(first[:min(len(first), len(magic))])):
		return fmt.Errorf("%w: only %d bytes are left, the pool has been truncated", op.ErrCorrupt, size)
	case what != "" && none:
		return fmt.Errorf("%w: %s, and no pool", op.ErrFormat, what)
	case size < blockSize:
		return fmt.Errorf("%w: no pool: it begins with %q, not %q", op.ErrFormat, first[:min(len(first), len(magic))], magic)
	}
	return fmt.Errorf("%w: neither copy of the superblock is whole: A: %w; B: %w", op.ErrCorrupt, copies[0].Err, copies[1].Err)
}

// contentOf names what a file has that is no pool by its first bytes; "" if they are of nothing known.
func contentOf(first []byte) string {
	for _, kind := range []struct{ begins, what string }{
		{"PAR1", "a Parquet file"}, {"ARROW1", "an Arrow file"}, {"\x1f\x8b", "a gzip file"}, {"\x28\xb5\x2f\xfd", "a Zstandard file"},
		{"BZh", "a bzip2 file"}, {"\xfd7zXZ", "an xz file"}, {"PK\x03\x04", "a zip file"}, {"\x7fELF", "a program"},
		{"SQLite format 3", "an SQLite database"},
	} {
		if strings.HasPrefix(string(first), kind.begins) {
			return kind.what
		}
	}
	if first = bytes.TrimRight(first, "\x00"); len(first) > 0 && !bytes.ContainsFunc(first[:min(len(first), 512)], func(r rune) bool {
		return r == 0xfffd || r < ' ' && !strings.ContainsRune("\t\n\r\f", r)
	}) {
		return "a text file"
	}
	return ""
}

// Errors of this package; wrapped with the file and what about it.
var (
	// ErrVersion: the pool is of a version that this program does not know.
	ErrVersion = errors.New("unknown version")
	// ErrLocked: somebody has the pool open, in this process or in another one.
	ErrLocked = errors.New("locked")
	// ErrReadOnly: the pool was opened for reading, or can be opened for that only.
	ErrReadOnly = errors.New("read-only")
	// ErrPowerLost: the pool was open when the machine stopped, on memory that does not outlive that.
	ErrPowerLost = errors.New("power lost")
	// ErrNotDurable: the pool cannot keep what was asked of it.
	ErrNotDurable = errors.New("not durable")
)
