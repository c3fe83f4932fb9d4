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

// redoLog is the area of a pool through which atomic batches go: what a batch makes of
// the slots of its keys lies here, as a whole and checksummed, before any of them changes. In words:
//
//	0…7       the header of a batch
//	8…        its records, up to a multiple of 8 words
//	          the header of the next batch, and so on
//
// A header with a checksum is a batch that counts; one without is the end of the log. A
// batch is published by its checksum, one word, behind the fence by which all else of it
// is durable. So a checksum that does not hold is damage, and never a torn batch. The
// same word of the first header empties the log when its batches have been applied.
type redoLog struct {
	mem         *pm.Memory
	first, last uint64 // words between which it lies
}

// Words of a header, which is a line of memory. Its numbers are little-endian, as all in
// a pool.
const (
	headMagic    = iota
	headFormat   // version, flags << 16, bytes of a record << 32
	headSequence // one more with each batch
	headCount    // records
	headLength   // their bytes
	_
	_
	headSum   // checksum of the words before and of the records; or as below
	headWords // a multiple of redoLine
)

// What a header has in place of a checksum.
const (
	unpublished = 0
	applied     = ^uint64(0) // this batch, and all behind it
)

const (
	redoMagic   = "WEFTREDO"
	redoVersion = 1
	redoLine    = 8 // words that headers are aligned to: 64 bytes
)

// flagWipe: nothing of what was there before the batch stays.
const flagWipe = 1 << 0

// A record is what a batch makes of a slot, a post-image: the place of its control word, what
// that becomes, and the tag. It says the same however often it is applied, and so do the records
// of a batch in any order. All else that a slot names, the value and a key that is longer
// than a word, is in the pool before the batch is published, where nobody finds it.
const recordWords = 3

// redoWords is how many words a log for batches of so many records takes.
func redoWords(records uint64) uint64 {
	return headWords + aligned(records*recordWords) + headWords
}

// capacity is how many records a batch may have.
func (l *redoLog) capacity() int {
	return int((max(l.last-l.first, 2*headWords) - 2*headWords) / recordWords)
}

func aligned(words uint64) uint64 { return (words + redoLine - 1) / redoLine * redoLine }

// redoOf is the log of a pool; nil, if its batches are not atomic.
func redoOf(s *pool.Superblock, mem *pm.Memory) (*redoLog, error) {
	a, g := s.Areas[redoArea], &s.Geometry
	l := &redoLog{mem, a.Offset / pm.Word, (a.Offset + a.Length) / pm.Word}
	unit := uint64(g.Unit) * pm.Word
	others := s.Areas
	others[redoArea] = pool.Area{}
	switch atomic := s.Features.Incompat&pool.AtomicBatches != 0; {
	case others != [len(others)]pool.Area{} || !atomic && a != pool.Area{}:
		return nil, fmt.Errorf("%w: the pool has areas that this program does not know", ErrVersion)
	case !atomic:
		return nil, nil
	case a.Length%unit != 0 || (a.Offset-pool.DataStart)%unit != 0 || l.capacity() < 1:
		return nil, fmt.Errorf("%w: the redo log lies at %d and has %d bytes", op.ErrCorrupt, a.Offset, a.Length)
	}
	return l, nil
}

// redoArea is the number of its area.
const redoArea = 0

// redoBatch is a batch in a log.
type redoBatch struct {
	at       uint64 // its header
	sequence uint64
	count    uint64
	flags    uint16
}

func (b *redoBatch) records() uint64 { return b.at + headWords }

// end is where the batch behind another one has its header.
func (l *redoLog) end(b *redoBatch) uint64 {
	return b.records() + aligned(b.count*recordWords)
}

// next is a batch of so many records for an empty log.
func (l *redoLog) next(count uint64, flags uint16) *redoBatch {
	return &redoBatch{at: l.first, sequence: l.mem.Load(l.first+headSequence) + 1, count: count, flags: flags}
}

// header are the words of a header before the checksum.
func (l *redoLog) header(b *redoBatch) (words [headSum]uint64) {
	const size = recordWords * pm.Word
	words[headMagic] = binary.LittleEndian.Uint64([]byte(redoMagic))
	words[headFormat] = redoVersion | uint64(b.flags)<<16 | size<<32
	words[headSequence], words[headCount], words[headLength] = b.sequence, b.count, b.count*size
	return words
}

// digest is what the words of record number i add to the checksum of all (twin: digest in
// batch.cuh). It has the number, so that who adds them up may do so in any order.
func digest(i uint64, record []uint64) uint64 {
	for _, w := range record {
		i = hash.Uint64(i^w, redoSeed)
	}
	return i
}

const redoSeed = 0x9d39247e33776d41 // of digests; twin: kRedoSeed

// digestsOf adds up those of records from number i on, one behind the other.
func digestsOf(i uint64, records []uint64) (sum uint64) {
	for ; len(records) > 0; records, i = records[recordWords:], i+1 {
		sum += digest(i, records[:recordWords])
	}
	return sum
}

// sum is the checksum of a batch whose records' digests come to so much; it is never what stands
// in its place.
func (l *redoLog) sum(b *redoBatch, records uint64) uint64 {
	words := l.header(b)
	sum := digest(records, words[:])
	if sum == unpublished || sum == applied {
		sum = 1
	}
	return sum
}

// publish makes a batch count whose records have been written, durably: records is what their
// digests come to.
func (l *redoLog) publish(b *redoBatch, records uint64) {
	for i, w := range l.header(b) {
		l.mem.Store(b.at+uint64(i), w)
	}
	l.mem.Store(b.at+headSum, unpublished)
	l.mem.Store(l.end(b)+headSum, unpublished)
	l.mem.Fence()
	l.mem.Store(b.at+headSum, l.sum(b, records))
	l.mem.Fence()
}

// retract has the last batch not count, of which nothing has been applied, durably.
func (l *redoLog) retract(b *redoBatch) {
	if b.at == l.first {
		l.retire()
		return
	}
	l.mem.Store(b.at+headSum, unpublished)
	l.mem.Fence()
}

// retire empties the log, whose batches have been applied, durably.
func (l *redoLog) retire() {
	l.mem.Store(l.first+headSum, applied)
	l.mem.Fence()
}

// published are the batches that count, in their order. Error: [weft.ErrCorrupt], with
// those before.
func (l *redoLog) published() (all []*redoBatch, err error) {
	for at := l.first; at+headWords <= l.last; {
		sum := l.mem.Load(at + headSum)
		if sum == unpublished || sum == applied && at == l.first {
			break
		}
		b, err := l.read(at)
		if n := len(all); err == nil && n > 0 && b.sequence != all[n-1].sequence+1 {
			err = fmt.Errorf("it comes behind batch %d", all[n-1].sequence)
		}
		if err != nil {
			return all, fmt.Errorf("%w: redo log: batch %d: %w", op.ErrCorrupt, b.sequence, err)
		}
		all, at = append(all, b), l.end(b)
	}
	return all, nil
}

// read verifies a batch.
func (l *redoLog) read(at uint64) (*redoBatch, error) {
	b := &redoBatch{
		at: at, sequence: l.mem.Load(at + headSequence), count: l.mem.Load(at + headCount), flags: uint16(l.mem.Load(at+headFormat) >> 16),
	}
	if room := l.last - b.records(); b.count > room/recordWords || b.flags&^flagWipe != 0 {
		return b, fmt.Errorf("%d records with flags %#x", b.count, b.flags)
	}
	for i, w := range l.header(b) {
		if is := l.mem.Load(at + uint64(i)); is != w {
			return b, fmt.Errorf("word %d of its header is %#x, not %#x", i, is, w)
		}
	}
	records := uint64(0)
	for i := range b.count {
		r := l.record(b, i)
		records += digest(i, r[:])
	}
	if is := l.mem.Load(at + headSum); is != l.sum(b, records) {
		return b, fmt.Errorf("its checksum is %#x, not %#x", is, l.sum(b, records))
	}
	return b, nil
}

// record reads record number i of a batch.
func (l *redoLog) record(b *redoBatch, i uint64) (r [recordWords]uint64) {
	l.mem.Read(b.records()+i*recordWords, device.Bytes(r[:]))
	return r
}

// torn reports whether there is a batch that a crash has kept from being published.
func (l *redoLog) torn() bool {
	return l.mem.Load(l.first+headSum) == unpublished && l.mem.Load(l.first+headMagic) == l.header(&redoBatch{})[headMagic]
}

// inUnit reports whether a unit is of the log.
func (l *redoLog) inUnit(v *values, unit uint64) bool {
	at := v.first + unit*v.unit
	return at >= l.first && at < l.last
}
