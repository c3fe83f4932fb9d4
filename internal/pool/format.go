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

// Major is the number of the current format. Programs with another Major cannot read the format.
// Minor counts its compatible extensions.
const (
	Major = 1
	Minor = 1 // 1.1 adds Boot and Contents to the superblock
)

// All versions have the magic, the marker, the length, the offset of the generation and the
// checksums in common. So a program can tell whether the block is intact before it interprets the
// version.
const (
	magic     = "WEFTPOOL"
	marker    = 0x01020304 // stored as a little-endian number
	blockSize = Page
	sumsAt    = blockSize - 16
	sumsKind  = 1 // CRC32C and mix
	copyB     = DataStart / 2
)

// AtomicBatches is a bit of Features.Incompat. Batches of such a pool go through a redo log in area
// 0. The log may hold batches that have not been applied.
const AtomicBatches = 1 << 1

var known = Features{Incompat: Records | AtomicBatches}

// wire is a superblock as stored in a file, little-endian and without gaps. The rest of the block
// up to the checksums is zero. Copy A holds odd generations and copy B even ones, so parse detects
// a copy in the wrong place.
type wire struct {
	Magic          [8]byte
	Major, Minor   uint16
	Length         uint32 // length of the block in bytes
	Marker         uint32
	Sums           uint32 // kind of checksums
	Features       Features
	Clean          uint32
	Generation     uint64
	UUID           [16]byte
	Created        int64 // nanoseconds since 1970; 0 if unknown
	Tool           [32]byte
	Geometry       Geometry
	Size           uint64
	Epoch, Unclean uint64
	Top, Bottom    uint32
	Levels         [32]Level
	Areas          [8]Area
	Boot           BootID   // zero in version 1.0
	Contents       Contents // zero in version 1.0
}

var le = binary.LittleEndian

// block is a copy of the superblock as stored in the pool.
type block [blockSize]byte

// encode writes s to the block. It keeps data of later minor versions in the rest of the block.
func (b *block) encode(s *Superblock) {
	w := wire{
		Major: Major, Minor: max(Minor, le.Uint16(b[10:])), Length: blockSize, Marker: marker, Sums: sumsKind,
		Features: s.Features, Generation: s.Generation, UUID: s.UUID, Created: nanoseconds(s.Created), Geometry: s.Geometry,
		Size: s.Size, Epoch: s.Epoch, Unclean: s.UncleanOpens, Top: s.Top, Bottom: s.Bottom,
		Levels: s.Levels, Areas: s.Areas, Boot: s.Boot, Contents: s.Contents,
	}
	copy(w.Magic[:], magic)
	copy(w.Tool[:], s.Tool)
	if s.Clean {
		w.Clean = 1
	}
	if _, err := binary.Encode(b[:], le, &w); err != nil {
		panic(err) // wire has constant size and fits in a block
	}
	b.writeChecksums()
}

func (w *wire) superblock() Superblock {
	return Superblock{
		Features: w.Features, UUID: w.UUID, Created: date(w.Created), Tool: strings.TrimRight(string(w.Tool[:]), "\x00"),
		Geometry: w.Geometry, Size: w.Size, Levels: w.Levels, Top: w.Top, Bottom: w.Bottom, Areas: w.Areas,
		Epoch: w.Epoch, Clean: w.Clean != 0, UncleanOpens: w.Unclean, Generation: w.Generation,
		Boot: w.Boot, Contents: w.Contents,
	}
}

// writeChecksums writes the checksums of the block: CRC32C, four zero bytes, and mix of all bytes
// before it.
func (b *block) writeChecksums() {
	le.PutUint64(b[sumsAt:], uint64(b.crc()))
	le.PutUint64(b[sumsAt+8:], b.mix())
}

func (b *block) crc() uint32 { return crc32.Checksum(b[:sumsAt], castagnoli) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mix is the second checksum. It is not linear, unlike a CRC, so each of the two checksums detects
// damage that the other misses.
func (b *block) mix() (h uint64) {
	for at := 0; at < sumsAt+8; at += 8 {
		h = hash.Uint64(h^le.Uint64(b[at:]), magicSeed)
	}
	return h
}

// magicSeed is 2^64 divided by the golden ratio. A seed of 0 would hash zeros to zero.
const magicSeed = 0x9e3779b97f4a7c15

// parse returns the superblock that is stored in b, or an error if b is damaged. copy is the place
// of the block in the pool: 0 for copy A, 1 for copy B. parse does not check the fields or the
// version.
func (b *block) parse(copy int) (Superblock, error) {
	generation := le.Uint64(b[40:])
	switch {
	case *b == block{}:
		return Superblock{}, fmt.Errorf("%w: all zero", op.ErrFormat)
	case string(b[:8]) != magic:
		return Superblock{}, fmt.Errorf("%w: it begins with %q, not %q", op.ErrFormat, b[:8], magic)
	case le.Uint32(b[16:]) == bits.ReverseBytes32(marker):
		return Superblock{}, fmt.Errorf("%w: a pool of the other byte order (big-endian), which is not supported", op.ErrFormat)
	case le.Uint32(b[16:]) != marker:
		return Superblock{}, fmt.Errorf("%w: the marker of the byte order is %#08x, not %#08x", op.ErrFormat, le.Uint32(b[16:]), marker)
	case le.Uint32(b[12:]) != blockSize || le.Uint32(b[20:]) != sumsKind:
		return Superblock{}, fmt.Errorf("%w: %d bytes with checksums of kind %d, not %d and %d",
			op.ErrFormat, le.Uint32(b[12:]), le.Uint32(b[20:]), blockSize, sumsKind)
	case le.Uint64(b[sumsAt:]) != uint64(b.crc()) || le.Uint64(b[sumsAt+8:]) != b.mix():
		return Superblock{}, fmt.Errorf("%w: the checksums are wrong: torn or damaged", op.ErrCorrupt)
	case generation == 0 || generation%2 == uint64(copy):
		return Superblock{}, fmt.Errorf("%w: generation %d does not belong in copy %c",
			op.ErrCorrupt, generation, 'A'+copy)
	}
	var w wire
	if _, err := binary.Decode(b[:], le, &w); err != nil {
		return Superblock{}, err
	}
	return w.superblock(), nil
}

// checkSupported returns an error if this package does not support the superblock s in a pool of
// size bytes. parse has read s from b.
func (b *block) checkSupported(s *Superblock, size uint64) error {
	major, minor := le.Uint16(b[8:]), le.Uint16(b[10:])
	if major != Major {
		return fmt.Errorf("%w: format %d.%d, this program knows %d", ErrVersion, major, minor, Major)
	}
	if unknown := s.Features.Incompat &^ known.Incompat; unknown != 0 {
		return fmt.Errorf("%w: the pool has features %#x, which this program does not support",
			ErrVersion, unknown)
	}
	if err := s.Check(size); err != nil {
		return err
	}
	// A block of a known version has exactly one form, since its gaps hold no data.
	fields := *s
	if minor == 0 {
		fields.Boot, fields.Contents = BootID{}, Contents{}
	}
	var canonical block
	canonical.encode(&fields)
	le.PutUint16(canonical[10:], minor)
	canonical.writeChecksums()
	if canonical != *b && minor <= Minor && s.Features.Compat&^known.Compat == 0 && s.Features.ReadOnly&^known.ReadOnly == 0 {
		return fmt.Errorf("%w: the superblock is not in canonical form", op.ErrCorrupt)
	}
	return nil
}

// Check returns weft's ErrCorrupt with the first illegal field of a superblock in a pool of size
// bytes. If it returns nil, levels and areas lie within the pool after the superblocks and do not
// overlap. The sum of an offset and a length does not overflow.
func (s *Superblock) Check(size uint64) error {
	if err := s.validate(size); err != nil {
		return fmt.Errorf("%w: superblock: %w", op.ErrCorrupt, err)
	}
	return nil
}

// Copy is the content of one copy of the superblock.
type Copy struct {
	Superblock Superblock // zero if the copy is not whole
	// Err describes why the copy is not whole. For the current copy it may also describe why this
	// package does not support it.
	Err error

	block block
}

// chooseCopy parses both copies and returns the index of the current one, which has the higher
// generation, or -1. If the current copy is whole but not supported, chooseCopy does not return the
// older one, since the pool has changed since then.
func chooseCopy(copies *[2]Copy, size uint64) (int, error) {
	current := -1
	for i := range copies {
		c := &copies[i]
		if c.Err == nil {
			c.Superblock, c.Err = c.block.parse(i)
		}
		if c.Err == nil && (current < 0 || c.Superblock.Generation > copies[current].Superblock.Generation) {
			current = i
		}
	}
	if current < 0 {
		return -1, noCopyErr(copies, size)
	}
	c := &copies[current]
	c.Err = c.block.checkSupported(&c.Superblock, size)
	return current, c.Err
}

// noCopyErr returns an error for a file of size bytes without a whole copy of the superblock. The
// error says whether the file is damaged or not a pool.
func noCopyErr(copies *[2]Copy, size uint64) error {
	first := copies[0].block[:min(size, blockSize)]
	foreign := errors.Is(copies[0].Err, op.ErrFormat) || size < blockSize
	switch kind := contentOf(first); {
	case size == 0:
		return fmt.Errorf("%w: the file is empty, not a pool", op.ErrFormat)
	case size < blockSize && strings.HasPrefix(magic, string(first[:min(len(first), len(magic))])):
		return fmt.Errorf("%w: only %d bytes are left, the pool has been truncated", op.ErrCorrupt, size)
	case kind != "" && foreign:
		return fmt.Errorf("%w: %s, not a pool", op.ErrFormat, kind)
	case size < blockSize:
		return fmt.Errorf("%w: not a pool: it begins with %q, not %q", op.ErrFormat,
			first[:min(len(first), len(magic))], magic)
	}
	return fmt.Errorf("%w: neither copy of the superblock is whole: A: %w; B: %w", op.ErrCorrupt, copies[0].Err, copies[1].Err)
}

// contentOf returns the kind of a file with the given first bytes, or "" if the kind is unknown.
func contentOf(first []byte) string {
	for _, kind := range []struct{ begins, name string }{
		{"PAR1", "a Parquet file"}, {"ARROW1", "an Arrow file"}, {"\x1f\x8b", "a gzip file"}, {"\x28\xb5\x2f\xfd", "a Zstandard file"},
		{"BZh", "a bzip2 file"}, {"\xfd7zXZ", "an xz file"}, {"PK\x03\x04", "a zip file"}, {"\x7fELF", "a program"},
		{"SQLite format 3", "an SQLite database"},
	} {
		if strings.HasPrefix(string(first), kind.begins) {
			return kind.name
		}
	}
	if first = bytes.TrimRight(first, "\x00"); len(first) > 0 && !bytes.ContainsFunc(first[:min(len(first), 512)], func(r rune) bool {
		return r == 0xfffd || r < ' ' && !strings.ContainsRune("\t\n\r\f", r)
	}) {
		return "a text file"
	}
	return ""
}

// Errors of this package. Functions wrap them with the file and the details.
var (
	// ErrVersion reports a pool in a version that this program does not support.
	ErrVersion = errors.New("unknown version")
	// ErrLocked reports that the pool is already open, in this process or in another one.
	ErrLocked = errors.New("locked")
	// ErrReadOnly reports that the pool was opened for reading, or can only be opened for reading.
	ErrReadOnly = errors.New("read-only")
	// ErrPowerLost reports that the pool was open when the machine stopped, and that its memory is
	// not persistent.
	ErrPowerLost = errors.New("power lost")
	// ErrNotDurable reports that the pool cannot provide the required durability.
	ErrNotDurable = errors.New("not durable")
)
