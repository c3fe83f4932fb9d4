package gphash

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// redoLog is the area of a pool through which atomic batches go: what a batch makes of
// its keys lies here, as a whole and checksummed, before any slot changes. In words:
//
//	0…7       the header of a batch
//	8…        its records, up to a multiple of 8 words
//	          the header of the next batch, and so on
//
// A header with checksums is a batch that counts; one without is the end of the log. A
// batch is published by its checksums, one word, behind the fence by which all else of it
// is durable. So checksums that do not hold are damage, and never a torn batch. The
// same word of the first header empties the log when its batches have been applied.
type redoLog struct {
	mem         *pm.Memory
	first, last uint64 // words between which it lies
	key, value  uint64 // bytes
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
	headSums  // CRC32C of the words before, and << 32 of the records; or as below
	headWords // a multiple of redoLine
)

// What a header has in place of checksums.
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

// A record is what a batch makes of a key, a post-image: it says the same however often it
// is applied, and records of a batch, each of another key, say it in any order. It is a
// word, the key, and the value, which are filled up with zeros to words. The word is the
// kind and, << 8, the control word of the slot that has been reserved for a new key.
const (
	recordPresent = 1 // the key has the value
	recordAbsent  = 2 // there is no such key; the value is zero
)

func (l *redoLog) recordWords() uint64 {
	return 1 + pm.WordsOf(int(l.key)) + pm.WordsOf(int(l.value))
}

// keyOf and valueOf are those of a record.
func (l *redoLog) keyOf(record []byte) []byte { return record[pm.Word:][:l.key] }
func (l *redoLog) valueOf(record []byte) []byte {
	return record[pm.Word*(1+pm.WordsOf(int(l.key))):][:l.value]
}

// redoWords is how many words a log for batches of so many records takes.
func (l *redoLog) redoWords(records uint64) uint64 {
	return headWords + aligned(records*l.recordWords()) + headWords
}

// capacity is how many records a batch may have.
func (l *redoLog) capacity() int {
	return int((max(l.last-l.first, 2*headWords) - 2*headWords) / l.recordWords())
}

func aligned(words uint64) uint64 { return (words + redoLine - 1) / redoLine * redoLine }

// redoOf is the log of a pool; nil, if its batches are not atomic.
func redoOf(s *pool.Superblock, mem *pm.Memory) (*redoLog, error) {
	a, g := s.Areas[redoArea], &s.Geometry
	l := &redoLog{mem, a.Offset / pm.Word, (a.Offset + a.Length) / pm.Word, uint64(g.KeySize), uint64(g.ValueSize)}
	unit := uint64(g.Unit) * pm.Word
	others := s.Areas
	others[redoArea] = pool.Area{}
	switch atomic := s.Features.Incompat&pool.AtomicBatches != 0; {
	case others != [len(others)]pool.Area{} || !atomic && a != pool.Area{}:
		return nil, fmt.Errorf("%w: the pool has areas that this program does not know", ErrVersion)
	case !atomic:
		return nil, nil
	case l.key == 0 || l.value == 0 || a.Length%unit != 0 || (a.Offset-pool.DataStart)%unit != 0 || l.capacity() < 1:
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
	return b.records() + aligned(b.count*l.recordWords())
}

// next is a batch of so many records for an empty log.
func (l *redoLog) next(count uint64, flags uint16) *redoBatch {
	return &redoBatch{at: l.first, sequence: l.mem.Load(l.first+headSequence) + 1, count: count, flags: flags}
}

// header are the words of a header before the checksums.
func (l *redoLog) header(b *redoBatch) (words [headSums]uint64) {
	size := l.recordWords() * pm.Word
	words[headMagic] = binary.LittleEndian.Uint64([]byte(redoMagic))
	words[headFormat] = redoVersion | uint64(b.flags)<<16 | size<<32
	words[headSequence], words[headCount], words[headLength] = b.sequence, b.count, b.count*size
	return words
}

// sums are the checksums of a batch, which are never what stands in their place.
func (l *redoLog) sums(b *redoBatch, records uint32) uint64 {
	crc := uint32(0)
	for _, w := range l.header(b) {
		crc = crc32.Update(crc, castagnoli, binary.LittleEndian.AppendUint64(nil, w))
	}
	sums := uint64(records)<<32 | uint64(crc)
	if sums == unpublished || sums == applied {
		sums = 1
	}
	return sums
}

// publish makes a batch count whose records have been written, durably: records is their
// CRC32C.
func (l *redoLog) publish(b *redoBatch, records uint32) {
	for i, w := range l.header(b) {
		l.mem.Store(b.at+uint64(i), w)
	}
	l.mem.Store(b.at+headSums, unpublished)
	l.mem.Store(l.end(b)+headSums, unpublished)
	l.mem.Fence()
	l.mem.Store(b.at+headSums, l.sums(b, records))
	l.mem.Fence()
}

// retire empties the log, whose batches have been applied, durably.
func (l *redoLog) retire() {
	l.mem.Store(l.first+headSums, applied)
	l.mem.Fence()
}

// published are the batches that count, in their order. Error: [weft.ErrCorrupt], with
// those before.
func (l *redoLog) published() (all []*redoBatch, err error) {
	for at := l.first; at+headWords <= l.last; {
		sums := l.mem.Load(at + headSums)
		if sums == unpublished || sums == applied && at == l.first {
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
	if room := l.last - b.records(); b.count > room/l.recordWords() || b.flags&^flagWipe != 0 {
		return b, fmt.Errorf("%d records with flags %#x", b.count, b.flags)
	}
	for i, w := range l.header(b) {
		if is := l.mem.Load(at + uint64(i)); is != w {
			return b, fmt.Errorf("word %d of its header is %#x, not %#x", i, is, w)
		}
	}
	crc := uint32(0)
	l.each(b, func(record []byte) error {
		crc = crc32.Update(crc, castagnoli, record)
		return nil
	})
	if is := l.mem.Load(at + headSums); is != l.sums(b, crc) {
		return b, fmt.Errorf("its checksums are %#x, not %#x", is, l.sums(b, crc))
	}
	return b, nil
}

// each calls f with the records of a batch, until an error.
func (l *redoLog) each(b *redoBatch, f func(record []byte) error) error {
	record := make([]byte, l.recordWords()*pm.Word)
	for i := range b.count {
		l.mem.Read(b.records()+i*l.recordWords(), record)
		if err := f(record); err != nil {
			return err
		}
	}
	return nil
}

// torn reports whether there is a batch that a crash has kept from being published.
func (l *redoLog) torn() bool {
	return l.mem.Load(l.first+headSums) == unpublished && l.mem.Load(l.first+headMagic) == l.header(&redoBatch{})[headMagic]
}

// inUnit reports whether a unit is of the log.
func (l *redoLog) inUnit(v *values, unit uint64) bool {
	at := v.first + unit*v.unit
	return at >= l.first && at < l.last
}
