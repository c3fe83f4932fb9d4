package group

import (
	"context"
	"math/bits"
	"sync/atomic"

	"github.com/weftgo/weft/column"
)

const (
	// maxPiece is the maximum number of rows in a piece.
	maxPiece = 1 << 24
	// encodeRows is the number of rows that a core encodes at a time.
	encodeRows = 1 << 14
)

// piece is a range of n rows, from row lo of a batch on.
type piece struct {
	l            *layout // layout of the values
	keys, values []column.Column
	lo, n        int
	remaining    int // rows of the batch after the piece
	// stop is the error that ended the piece after its first n rows, or nil.
	stop error
}

// slice cuts the piece to its first n rows, and its columns to these rows.
func (p *piece) slice(n int) {
	keys, values := make([]column.Column, len(p.keys)), make([]column.Column, len(p.values))
	for i, c := range p.keys {
		keys[i] = c.Slice(p.lo, p.lo+n)
	}
	for i, c := range p.values {
		values[i] = c.Slice(p.lo, p.lo+n)
	}
	p.keys, p.values, p.lo, p.n = keys, values, 0, n
}

// estimateRemaining estimates how many rows after the piece will go to the same table as b. It
// returns at most b.n, because the first pieces of a long batch may differ from the last.
func (p *piece) estimateRemaining(b batch) int {
	if p.remaining >= p.n {
		return b.n
	}
	return p.remaining * b.n / p.n
}

// add adds a piece, or only its first rows if memory cannot hold all.
func (g *Groups) add(ctx context.Context, p *piece) (added int, err error) {
	p.slice(p.n)
	if err := g.ensureCapacity(ctx, p); err != nil {
		return 0, err
	}
	if g.spilled.directLeft > 0 {
		return g.addDirect(p)
	}
	g.spilled.nAdded += p.n
	g.numberTexts(ctx, p)
	packed, numbered := g.encode(ctx, p)
	if p.stop != nil { // p.n may have become smaller
		packed = packed.rowsBelow(p.n)
	}
	g.packed.add(g.dev, g.scratch, packed, p.estimateRemaining(packed))
	g.numbered.add(g.dev, g.scratch, numbered, p.estimateRemaining(numbered))
	g.assignPlaces(p.n)
	return p.n, p.stop
}

// scratchBytes returns the bytes that encode needs for a piece: codes, and lists of rows.
func (g *Groups) scratchBytes(p *piece) int {
	row := 8
	if anyNulls(p.keys) { // split lists the rows
		row += 8 + 4 + 4
	}
	if !g.coder.packable || anyNulls(p.keys) { // ids of interned keys
		row += 4
	}
	return p.n*row + 256
}

// encode returns the rows of a piece that have packed codes, and the rows with interned keys.
func (g *Groups) encode(ctx context.Context, p *piece) (packed, numbered batch) {
	if !g.coder.packable {
		g.scratch.reserve(g.scratchBytes(p))
		rows, nulls, n := []uint32(nil), []uint32(nil), p.n
		if anyNulls(p.keys) && (g.opts.SkipNulls || len(p.keys) == 1) {
			rows, nulls = g.split(p, nil)
			n = len(rows)
		}
		return g.nullBatch(p, nulls), g.intern(ctx, p, rows, n)
	}
	packed = batch{l: p.l, n: p.n, keys: &encoder{&g.coder, p.keys, g.seed, g.scratchBytes(p)}, values: p.values}
	if g.coder.nullBits || !anyNulls(p.keys) {
		return packed, batch{l: p.l, values: p.values}
	}
	packed = packed.encoded(g.dev, g.scratch)
	valid, nulls := g.split(p, packed.codes)
	packed.codes, packed.rows, packed.n = packed.codes[:len(valid)], valid, len(valid)
	return packed, g.intern(ctx, p, nulls, len(nulls))
}

// nullBatch returns the batch of the rows with a null key, for a single key column whose null is
// not interned.
func (g *Groups) nullBatch(p *piece, rows []uint32) batch {
	b := batch{l: p.l, n: len(rows), codes: allocScratch[uint64](g.scratch, len(rows)), rows: rows, values: p.values}
	for i := range b.codes {
		b.codes[i] = codeOf(0)
	}
	return b
}

func anyNulls(columns []column.Column) bool {
	for _, c := range columns {
		if c.HasNulls() {
			return true
		}
	}
	return false
}

// split lists the rows without null keys, and the rows with a null key. The second list is empty if
// such rows are skipped. split compacts codes to the rows without nulls.
func (g *Groups) split(p *piece, codes []uint64) (valid, nulls []uint32) {
	valid, nulls = allocScratch[uint32](g.scratch, p.n)[:0], allocScratch[uint32](g.scratch, p.n)[:0]
rows:
	for i := range p.n {
		for _, c := range p.keys {
			if c.Null(i) {
				if !g.opts.SkipNulls {
					nulls = append(nulls, uint32(i))
				}
				continue rows
			}
		}
		if codes != nil {
			codes[len(valid)] = codes[i]
		}
		valid = append(valid, uint32(i))
	}
	return valid, nulls
}

// assignPlaces assigns places to the groups that a piece of n rows has added. A place is the
// position of a group among all groups. The places of the added groups come after all present ones,
// in the order of the rows that added the groups.
func (g *Groups) assignPlaces(n int) {
	s := g.scratch
	parts := append(g.packed.parts[:len(g.packed.parts):len(g.packed.parts)], g.numbered.parts...)
	if g.spilled.unordered() && g.coder.packable { // see internedKeys
		g.assignPlacesByPart(parts)
		return
	}
	added, ranks := resize(&s.added, (n+63)/64), resize(&s.ranks, (n+63)/64)
	clear(added)
	each := func(visit func(rows []uint64)) {
		g.dev.Parallel(len(parts), max(1, len(parts)*directRows/(n+1)), func(lo, hi int) {
			for _, p := range parts[lo:hi] {
				visit(p.orders[p.ordered:])
			}
		})
	}
	each(func(rows []uint64) {
		for _, row := range rows {
			atomic.OrUint64(&added[row/64], 1<<(row%64))
		}
	})
	count := uint32(0)
	for i, word := range added {
		ranks[i] = count
		count += uint32(bits.OnesCount64(word))
	}
	first := uint64(g.resident)
	each(func(rows []uint64) {
		for i, row := range rows {
			word, bit := row/64, row%64
			rows[i] = first + uint64(ranks[word]) + uint64(bits.OnesCount64(added[word]&(1<<bit-1)))
		}
	})
	for _, p := range parts {
		p.ordered = p.n
	}
	g.resident += int(count)
	g.n.Add(int64(count))
}

// assignPlacesByPart assigns places to the groups that a piece has added, part by part.
func (g *Groups) assignPlacesByPart(parts []*part) {
	before := g.resident
	for _, p := range parts {
		for i := p.ordered; i < p.n; i++ {
			p.orders[i] = uint64(g.resident)
			g.resident++
		}
		p.ordered = p.n
	}
	g.n.Add(int64(g.resident - before))
}
