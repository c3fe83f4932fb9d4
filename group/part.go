package group

import (
	"slices"

	"github.com/weftgo/weft/internal/hostmem"
)

// part holds some groups of a table: their records in the order of insertion, and a hash index.
type part struct {
	l     *layout
	index []uint32 // offsets of records; 0: the entry is free
	recs  []uint64 // records from one stride on, so that no record has offset 0
	n     int
	// orders holds, by record, places in the order of all groups. Records that the current piece
	// has added hold their row in the piece instead.
	orders []uint64
	// ordered is the number of records whose place is assigned.
	ordered int

	nulls [][]uint64 // by source and record: number of null values; may be too short, or nil
	texts texts
	carry map[uint32]int64 // by word: the net number of times that its sum overflowed 64 bits

	mem        *hostmem.Pool // memory of recs, orders and index; nil: the Go heap
	dense      *denseKeys    // nil: keys that lie close together are not searched for
	triedDense bool          // a search for close keys has been made

	// local: the part belongs to a core. Its index has more entries per record.
	local bool
}

// The loads are index entries per record. A collision in the index costs a branch misprediction,
// some 16 ns. If one row in four collides, finding takes twice as long as with one in 14. Local
// parts are small, so their indexes have localLoad entries per record, or sparseLoad if smaller
// than sparseIndex.
const (
	minIndex, indexLoad, localLoad = 16, 2, 4
	sparseLoad, sparseIndex        = 8, 1 << 15
)

// newPart makes a part with capacity for a number of groups.
func newPart(l *layout, mem *hostmem.Pool, groups int) *part {
	p := &part{l: l, mem: mem, index: hostmem.Slice[uint32](mem, indexFor(groups)),
		recs:   hostmem.Slice[uint64](mem, (groups+1)*l.stride())[:l.stride()],
		orders: hostmem.Slice[uint64](mem, groups)[:0]}
	if len(l.sources) > 0 {
		p.nulls = make([][]uint64, len(l.sources))
	}
	return p
}

// indexFor returns the size of an index for a number of groups.
func indexFor(groups int) int {
	size := minIndex
	for size < indexLoad*groups {
		size *= 2
	}
	return size
}

// rec returns the offset of record i. at returns the number of the record at an offset.
func (p *part) rec(i int) int     { return (i + 1) * p.l.stride() }
func (p *part) at(rec int) int    { return rec/p.l.stride() - 1 }
func (p *part) end() int          { return len(p.recs) }
func (p *part) rows(i int) uint64 { return p.recs[p.rec(i)+wordRows] }

// find writes the offsets of the records of at most blockRows mixed codes to k.ids, and counts a
// row for each. New groups get a record. rows holds the numbers of the rows in the piece; if nil,
// they are base, base+1, and so on. find stops before the part has more groups than limit, and
// returns the number of codes found.
//
// Three of four records are at the first index entry of their code, so a branch on that would be
// mispredicted one time in four. findHome first compares all codes with these records, without
// branches and with many reads in progress at once.
func (p *part) find(k *block, codes []uint64, rows []uint32, base, limit int) (done int) {
	return p.findDisplaced(k, codes, rows, base, limit, p.findHome(k, codes))
}

// findHome finds records at the first index entry of their code. It writes the indexes of the n
// codes that it does not find to k.rows, and returns n.
func (p *part) findHome(k *block, codes []uint64) int {
	codes = codes[:min(len(codes), blockRows)]
	index, mask := p.index, uint64(len(p.index)-1)
	ids := k.ids[:len(codes)]
	for i, code := range codes {
		ids[i] = index[code&mask]
	}
	recs, n := p.recs, uint(0)
	for i, code := range codes {
		rec := ids[i]
		differs := recs[rec] ^ code
		miss := (differs | -differs | (uint64(rec) - 1)) >> 63 // they differ, or rec is 0
		recs[rec+wordRows] += 1 - miss
		k.rows[n%blockRows] = uint32(i)
		n += uint(miss)
	}
	return int(n)
}

// addExisting adds the rows of a block whose groups exist, and returns the other rows.
func (p *part) addExisting(k *block, b batch) (missed batch) {
	for _, i := range k.rows[:p.findHome(k, b.codes)] {
		rec := p.search(b.codes[i], 0, 0)
		if k.ids[i] = rec; rec != 0 {
			p.recs[rec+wordRows]++
		}
	}
	existing, hits, misses := b, 0, 0
	existing.rows, existing.codes = k.numbers[:], nil
	codes := b.codes
	missed = b
	missed.rows, missed.codes = k.missed[:], k.codes[:]
	for i, code := range codes {
		rec, row := k.ids[i], uint32(rowOf(b.rows, b.base, i))
		k.ids[hits], k.numbers[hits] = rec, row
		k.codes[misses], k.missed[misses] = code, row
		hit := int((uint64(-int64(rec)) >> 63))
		hits += hit
		misses += 1 - hit
	}
	existing.n, missed.n = hits, misses
	existing.rows, missed.rows, missed.codes = k.numbers[:hits], k.missed[:misses], k.codes[:misses]
	p.update(k, existing)
	return missed
}

// findDisplaced finds the records of the n codes that findHome did not find.
func (p *part) findDisplaced(k *block, codes []uint64, rows []uint32, base, limit, n int) (done int) {
	ids := k.ids[:len(codes)]
	for _, i := range k.rows[:n] {
		row := base + int(i)
		if rows != nil {
			row = int(rows[i])
		}
		rec := p.search(codes[i], row, limit)
		if rec == 0 {
			p.uncount(ids[i:], codes[i:])
			return int(i)
		}
		ids[i] = rec
		p.recs[rec+wordRows]++
	}
	return len(codes)
}

// uncount reverts the counts that findHome made for these codes.
func (p *part) uncount(ids []uint32, codes []uint64) {
	for i, rec := range ids {
		if rec != 0 && p.recs[rec+wordCode] == codes[i] {
			p.recs[rec+wordRows]--
		}
	}
}

// search returns the offset of the record of a code, and inserts a missing record. It returns 0 if
// the part would have more groups than limit.
func (p *part) search(code uint64, row, limit int) uint32 {
	mask := uint64(len(p.index) - 1)
	at := code & mask
	for {
		rec := p.index[at]
		if rec == 0 {
			if p.n >= limit {
				return 0
			}
			return p.insert(at, code, uint64(row))
		}
		if p.recs[rec+wordCode] == code {
			return rec
		}
		at = (at + 1) & mask
	}
}

// insert makes a record and stores its offset in index entry at, which must be free.
func (p *part) insert(at, code, row uint64) (rec uint32) {
	rec = uint32(len(p.recs))
	if len(p.recs)+p.l.stride() > cap(p.recs) {
		p.recs = grown(p.recs, p.mem, max(len(p.recs)/2, 4*p.l.stride()))
	}
	p.recs = append(p.recs, p.l.init...)
	p.recs[rec+wordCode] = code
	if len(p.orders) == cap(p.orders) {
		p.orders = grown(p.orders, p.mem, max(len(p.orders)/2, 4))
	}
	p.orders = append(p.orders, row)
	for range p.l.texts {
		p.texts.refs = append(p.texts.refs, textRef{})
	}
	p.index[at] = rec
	p.n++
	if p.minIndexSize() > len(p.index) {
		p.index = hostmem.Slice[uint32](p.mem, 2*len(p.index))
		p.reindex()
	}
	return rec
}

// minIndexSize returns the minimum number of entries of the index.
func (p *part) minIndexSize() int {
	switch {
	case !p.local:
		return indexLoad * p.n
	case len(p.index) < sparseIndex:
		return sparseLoad * p.n
	}
	return localLoad * p.n
}

// reserve reserves capacity for a number of groups.
func (p *part) reserve(groups int) {
	p.recs = grown(p.recs, p.mem, (groups-p.n)*p.l.stride())
	p.orders = grown(p.orders, p.mem, groups-p.n)
	if size := indexFor(groups); size > len(p.index) {
		p.index = hostmem.Slice[uint32](p.mem, size)
		p.reindex()
	}
}

// grown returns s with capacity for n more elements.
func grown(s []uint64, mem *hostmem.Pool, n int) []uint64 {
	if n <= cap(s)-len(s) {
		return s
	}
	to := hostmem.Slice[uint64](mem, len(s)+n)[:len(s)]
	copy(to, s)
	return to
}

// reindex fills an empty index.
func (p *part) reindex() {
	mask := uint64(len(p.index) - 1)
	for rec := p.l.stride(); rec < p.end(); rec += p.l.stride() {
		at := p.recs[rec+wordCode] & mask
		for p.index[at] != 0 {
			at = (at + 1) & mask
		}
		p.index[at] = uint32(rec)
	}
}

// reset removes all groups and keeps the memory.
func (p *part) reset() {
	clear(p.index)
	p.texts.reset()
	p.recs, p.orders = p.recs[:p.l.stride()], p.orders[:0]
	p.n, p.ordered, p.carry = 0, 0, nil
	if p.dense != nil {
		clear(p.dense.recs[:])
	}
	for i := range p.nulls {
		p.nulls[i] = nil
	}
}

// countNulls adds count to the nulls of a source in a record.
func (p *part) countNulls(source int, rec uint32, count uint64) {
	i := p.at(int(rec))
	if i >= len(p.nulls[source]) {
		p.nulls[source] = slices.Grow(p.nulls[source], p.n-len(p.nulls[source]))[:p.n]
	}
	p.nulls[source][i] += count
}

// nullCount returns the number of nulls of a source in record i.
func (p *part) nullCount(source, i int) uint64 {
	if i >= len(p.nulls[source]) {
		return 0
	}
	return p.nulls[source][i]
}

// recordOverflow adds n to the carry of the sum in a word.
func (p *part) recordOverflow(word int, n int64) {
	if p.carry == nil {
		p.carry = make(map[uint32]int64)
	}
	if p.carry[uint32(word)] += n; p.carry[uint32(word)] == 0 {
		delete(p.carry, uint32(word))
	}
}

// bytes returns the memory of the part in bytes.
func (p *part) bytes() int64 {
	n := 4*cap(p.index) + 8*cap(p.recs) + 8*cap(p.orders) + 24*cap(p.texts.refs) + 16*len(p.carry)
	for _, nulls := range p.nulls {
		n += 8 * cap(nulls)
	}
	return int64(n) + p.texts.bytes
}
