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

// redoLog is the area of a pool for atomic batches. It holds the new state of the slots of a batch,
// complete and checksummed, before any of them changes. In words:
//
//	0…7       the header of a batch
//	8…        its records, up to a multiple of 8 words
//	          the header of the next batch, and so on
//
// A header with a checksum is a published batch, one without is the end of the log. The checksum is
// one word, written after the fence that makes the rest of the batch durable. So a wrong checksum
// is damage, never a torn batch. The same word of the first header empties the log when its batches
// have been applied.
type redoLog struct {
	mem         *pm.Memory
	first, last uint64 // first word, and the word after the last
}

// Words of a header, which is a line of memory. Numbers are little-endian, as everywhere in a pool.
const (
	headMagic    = iota
	headFormat   // version, flags << 16, bytes of a record << 32
	headSequence // incremented by each batch
	headCount    // number of records
	headLength   // bytes of records
	_
	_
	// checksum of the words before and of the records; or as below
	headSum
	headWords // a multiple of redoLine
)

// Values of headSum that are not checksums.
const (
	unpublished = 0
	applied     = ^uint64(0) // this batch and all after it
)

const (
	redoMagic   = "WEFTREDO"
	redoVersion = 1
	redoLine    = 8 // words that headers are aligned to: 64 bytes
)

// flagWipe: the batch first deletes everything.
const flagWipe = 1 << 0

// recordWords is the number of words of a record, the new state of a slot: the place of its control
// word, the new control word, and the tag. Applying records is idempotent, in any order within a
// batch. The value, and a key longer than a word, are in the pool before the batch is published,
// where no reader finds them.
const recordWords = 3

// redoWords returns the number of words of a log for batches of that many records.
func redoWords(records uint64) uint64 {
	return headWords + aligned(records*recordWords) + headWords
}

// capacity returns the maximum number of records of a batch.
func (l *redoLog) capacity() int {
	return int((max(l.last-l.first, 2*headWords) - 2*headWords) / recordWords)
}

func aligned(words uint64) uint64 { return (words + redoLine - 1) / redoLine * redoLine }

// redoOf returns the log of a pool, or nil if its batches are not atomic.
func redoOf(s *pool.Superblock, mem *pm.Memory) (*redoLog, error) {
	a, g := s.Areas[redoArea], &s.Geometry
	l := &redoLog{mem, a.Offset / pm.Word, (a.Offset + a.Length) / pm.Word}
	unit := uint64(g.Unit) * pm.Word
	unknown := s.Areas
	unknown[redoArea] = pool.Area{}
	switch atomic := s.Features.Incompat&pool.AtomicBatches != 0; {
	case unknown != [len(unknown)]pool.Area{} || !atomic && a != pool.Area{}:
		return nil, fmt.Errorf("%w: the pool has areas that this program does not know", ErrVersion)
	case !atomic:
		return nil, nil
	case a.Length%unit != 0 || (a.Offset-pool.DataStart)%unit != 0 || l.capacity() < 1:
		return nil, fmt.Errorf("%w: the redo log lies at %d and has %d bytes", op.ErrCorrupt, a.Offset, a.Length)
	}
	return l, nil
}

// redoArea is the number of the log's area.
const redoArea = 0

// redoBatch is a batch in a log.
type redoBatch struct {
	at       uint64 // its header
	sequence uint64
	count    uint64
	flags    uint16
}

func (b *redoBatch) records() uint64 { return b.at + headWords }

// end returns the place of the header of the batch after b.
func (l *redoLog) end(b *redoBatch) uint64 {
	return b.records() + aligned(b.count*recordWords)
}

// firstBatch returns a batch of count records for an empty log.
func (l *redoLog) firstBatch(count uint64, flags uint16) *redoBatch {
	return &redoBatch{at: l.first, sequence: l.mem.Load(l.first+headSequence) + 1, count: count, flags: flags}
}

// header returns the words of a header before the checksum.
func (l *redoLog) header(b *redoBatch) (words [headSum]uint64) {
	const size = recordWords * pm.Word
	words[headMagic] = binary.LittleEndian.Uint64([]byte(redoMagic))
	words[headFormat] = redoVersion | uint64(b.flags)<<16 | size<<32
	words[headSequence], words[headCount], words[headLength] = b.sequence, b.count, b.count*size
	return words
}

// digest returns what the words of record number i add to the checksum (twin: digest in batch.cuh).
// It includes the number, so digests can be summed in any order.
func digest(i uint64, record []uint64) uint64 {
	for _, w := range record {
		i = hash.Uint64(i^w, redoSeed)
	}
	return i
}

const redoSeed = 0x9d39247e33776d41 // of digests; twin: kRedoSeed

// digestsOf returns the sum of the digests of contiguous records, from number i on.
func digestsOf(i uint64, records []uint64) (sum uint64) {
	for ; len(records) > 0; records, i = records[recordWords:], i+1 {
		sum += digest(i, records[:recordWords])
	}
	return sum
}

// checksum returns the checksum of a batch, given the sum of its records' digests. It is never one
// of the special values.
func (l *redoLog) checksum(b *redoBatch, records uint64) uint64 {
	words := l.header(b)
	sum := digest(records, words[:])
	if sum == unpublished || sum == applied {
		sum = 1
	}
	return sum
}

// publish publishes a batch with records that are written already, durably. records is the sum of
// their digests.
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

// unpublish unpublishes the last batch, durably. Nothing of it has been applied.
func (l *redoLog) unpublish(b *redoBatch) {
	if b.at == l.first {
		l.truncate()
		return
	}
	l.mem.Store(b.at+headSum, unpublished)
	l.mem.Fence()
}

// truncate empties the log once its batches have been applied, durably.
func (l *redoLog) truncate() {
	l.mem.Store(l.first+headSum, applied)
	l.mem.Fence()
}

// published returns the published batches, in their order. Error: [weft.ErrCorrupt], with the
// batches before the damage.
func (l *redoLog) published() (batches []*redoBatch, err error) {
	for at := l.first; at+headWords <= l.last; {
		sum := l.mem.Load(at + headSum)
		if sum == unpublished || sum == applied && at == l.first {
			break
		}
		b, err := l.read(at)
		if n := len(batches); err == nil && n > 0 && b.sequence != batches[n-1].sequence+1 {
			err = fmt.Errorf("it comes behind batch %d", batches[n-1].sequence)
		}
		if err != nil {
			return batches, fmt.Errorf("%w: redo log: batch %d: %w", op.ErrCorrupt, b.sequence, err)
		}
		batches, at = append(batches, b), l.end(b)
	}
	return batches, nil
}

// read reads and verifies a batch.
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

// record reads record number i of a batch.
func (l *redoLog) record(b *redoBatch, i uint64) (r [recordWords]uint64) {
	l.mem.Read(b.records()+i*recordWords, device.Bytes(r[:]))
	return r
}

// torn reports whether a crash has kept a batch from being published.
func (l *redoLog) torn() bool {
	return l.mem.Load(l.first+headSum) == unpublished && l.mem.Load(l.first+headMagic) == l.header(&redoBatch{})[headMagic]
}

// hasUnit reports whether a unit belongs to the log.
func (l *redoLog) hasUnit(v *values, unit uint64) bool {
	at := v.first + unit*v.unit
	return at >= l.first && at < l.last
}
