package gphash

import (
	"encoding/binary"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// redoLog is the area of a pool for atomic batches. It holds the new states of a batch's slots,
// with a checksum, before any of the slots changes. In words:
//
//	0…7       the header of a batch
//	8…        its records, up to a multiple of 8 words
//	          the header of the next batch, and so on
//
// A header with a checksum begins a published batch. A header without a checksum ends the log. The
// checksum is one word, which is written after the fence that makes the rest of the batch durable.
// So a wrong checksum is damage, never a torn batch. When all batches are applied, a special value
// of this word in the first header empties the log.
type redoLog struct {
	mem         *pm.Memory
	first, last uint64 // first word of the log, and the word after the last one
}

// Indexes of words in a header, which is one line of memory. Numbers in a pool are little-endian.
const (
	headMagic    = iota
	headFormat   // version, flags << 16, bytes per record << 32
	headSequence // incremented by each batch
	headCount    // number of records
	headLength   // bytes of records
	_
	_
	// checksum of the header and the records, or one of the values below
	headSum
	headWords // words per header, a multiple of redoLine
)

// Values of headSum that are not checksums.
const (
	unpublished = 0
	applied     = ^uint64(0) // this batch and all later ones have been applied
)

const (
	redoMagic   = "WEFTREDO"
	redoVersion = 1
	redoLine    = 8 // alignment of headers in words: 64 bytes
)

// flagWipe marks a batch that first deletes all pairs.
const flagWipe = 1 << 0

// recordWords is the number of words per record. A record is the new state of a slot: the index of
// its control word, the new control word, and the tag. Records of a batch may be applied repeatedly
// and in any order. Values, and keys longer than a word, are in the pool before the batch is
// published, where no reader finds them.
const recordWords = 3

// redoWords returns the size in words of a log for batches with at most the given number of
// records.
func redoWords(records uint64) uint64 {
	return headWords + aligned(records*recordWords) + headWords
}

func (l *redoLog) capacity() int {
	return int((max(l.last-l.first, 2*headWords) - 2*headWords) / recordWords)
}

func aligned(words uint64) uint64 { return (words + redoLine - 1) / redoLine * redoLine }

// redoOf returns the log of a pool, or nil if the pool's batches are not atomic.
func redoOf(s *pool.Superblock, mem *pm.Memory) (*redoLog, error) {
	a, g := s.Areas[redoArea], &s.Geometry
	l := &redoLog{mem, a.Offset / pm.Word, (a.Offset + a.Length) / pm.Word}
	unit := uint64(g.Unit) * pm.Word
	unknown := s.Areas
	unknown[redoArea] = pool.Area{}
	switch atomic := s.Features.Incompat&pool.AtomicBatches != 0; {
	case unknown != [len(unknown)]pool.Area{} || !atomic && a != pool.Area{}:
		return nil, fmt.Errorf("%w: the pool has areas that this program does not support",
			ErrVersion)
	case !atomic:
		return nil, nil
	case a.Length%unit != 0 || (a.Offset-pool.DataStart)%unit != 0 || l.capacity() < 1:
		return nil, fmt.Errorf("%w: the redo log lies at %d and has %d bytes", op.ErrCorrupt, a.Offset, a.Length)
	}
	return l, nil
}

const redoArea = 0

type redoBatch struct {
	at       uint64 // word of its header
	sequence uint64
	count    uint64
	flags    uint16
}

func (b *redoBatch) records() uint64 { return b.at + headWords }

// end returns the word where the header of the batch after b begins.
func (l *redoLog) end(b *redoBatch) uint64 {
	return b.records() + aligned(b.count*recordWords)
}

// firstBatch returns a batch of count records at the beginning of the log.
func (l *redoLog) firstBatch(count uint64, flags uint16) *redoBatch {
	return &redoBatch{at: l.first, sequence: l.mem.Load(l.first+headSequence) + 1, count: count, flags: flags}
}

// header returns the words that precede the checksum in a header.
func (l *redoLog) header(b *redoBatch) (words [headSum]uint64) {
	const size = recordWords * pm.Word
	words[headMagic] = binary.LittleEndian.Uint64([]byte(redoMagic))
	words[headFormat] = redoVersion | uint64(b.flags)<<16 | size<<32
	words[headSequence], words[headCount], words[headLength] = b.sequence, b.count, b.count*size
	return words
}

// digest returns the number that record i adds to the checksum, as digest in batch.cuh does. The
// digest depends on i, so digests can be summed in any order.
func digest(i uint64, record []uint64) uint64 {
	for _, w := range record {
		i = hash.Uint64(i^w, redoSeed)
	}
	return i
}

const redoSeed = 0x9d39247e33776d41 // kRedoSeed in CUDA

// digestsOf returns the sum of the digests of contiguous records. The first one has number i.
func digestsOf(i uint64, records []uint64) (sum uint64) {
	for ; len(records) > 0; records, i = records[recordWords:], i+1 {
		sum += digest(i, records[:recordWords])
	}
	return sum
}

// checksum returns the checksum of a batch. records is the sum of the digests of its records. The
// result is never one of the special values.
func (l *redoLog) checksum(b *redoBatch, records uint64) uint64 {
	words := l.header(b)
	sum := digest(records, words[:])
	if sum == unpublished || sum == applied {
		sum = 1
	}
	return sum
}

// publish durably publishes a batch of durable records. records is the sum of their digests.
func (l *redoLog) publish(b *redoBatch, records uint64) {
	for i, w := range l.header(b) {
		l.mem.Store(b.at+uint64(i), w)
	}
	l.mem.Store(b.at+headSum, unpublished)
	l.mem.Store(l.end(b)+headSum, unpublished)
	l.mem.Fence()
	l.mem.Store(b.at+headSum, l.checksum(b, records))
	l.mem.Fence()
}

// unpublish durably removes the last batch from the log. No part of the batch may have been
// applied.
func (l *redoLog) unpublish(b *redoBatch) {
	if b.at == l.first {
		l.truncate()
		return
	}
	l.mem.Store(b.at+headSum, unpublished)
	l.mem.Fence()
}

// truncate durably empties the log. All its batches must have been applied.
func (l *redoLog) truncate() {
	l.mem.Store(l.first+headSum, applied)
	l.mem.Fence()
}

// published returns the published batches in their order. If the log is damaged, it returns
// [weft.ErrCorrupt] and the batches before the damage.
func (l *redoLog) published() (batches []*redoBatch, err error) {
	for at := l.first; at+headWords <= l.last; {
		sum := l.mem.Load(at + headSum)
		if sum == unpublished || sum == applied && at == l.first {
			break
		}
		b, err := l.read(at)
		if n := len(batches); err == nil && n > 0 && b.sequence != batches[n-1].sequence+1 {
			err = fmt.Errorf("it comes after batch %d", batches[n-1].sequence)
		}
		if err != nil {
			return batches, fmt.Errorf("%w: redo log: batch %d: %w", op.ErrCorrupt, b.sequence, err)
		}
		batches, at = append(batches, b), l.end(b)
	}
	return batches, nil
}

func (l *redoLog) read(at uint64) (*redoBatch, error) {
	b := &redoBatch{
		at: at, sequence: l.mem.Load(at + headSequence), count: l.mem.Load(at + headCount), flags: uint16(l.mem.Load(at+headFormat) >> 16),
	}
	if remaining := l.last - b.records(); b.count > remaining/recordWords || b.flags&^flagWipe != 0 {
		return b, fmt.Errorf("%d records with flags %#x", b.count, b.flags)
	}
	for i, w := range l.header(b) {
		if actual := l.mem.Load(at + uint64(i)); actual != w {
			return b, fmt.Errorf("word %d of its header is %#x, not %#x", i, actual, w)
		}
	}
	records := uint64(0)
	for i := range b.count {
		r := l.record(b, i)
		records += digest(i, r[:])
	}
	if actual := l.mem.Load(at + headSum); actual != l.checksum(b, records) {
		return b, fmt.Errorf("its checksum is %#x, not %#x", actual, l.checksum(b, records))
	}
	return b, nil
}

func (l *redoLog) record(b *redoBatch, i uint64) (r [recordWords]uint64) {
	l.mem.Read(b.records()+i*recordWords, device.Bytes(r[:]))
	return r
}

// torn reports whether a crash interrupted the writing of a batch before it was published.
func (l *redoLog) torn() bool {
	return l.mem.Load(l.first+headSum) == unpublished && l.mem.Load(l.first+headMagic) == l.header(&redoBatch{})[headMagic]
}

func (l *redoLog) hasUnit(v *values, unit uint64) bool {
	at := v.first + unit*v.unit
	return at >= l.first && at < l.last
}
