package group

import "github.com/weftgo/weft/column"

// recordBytes is the memory of groups, but for keys that are interned.
func (g *Groups) recordBytes() int64 { return g.packed.bytes() + g.other.bytes() }

// needs is what a piece may need: each row a group of its own, and parts that double. Rows are
// taken to be spread over parts, which get at most about twice their share.
func (g *Groups) needs(p *piece) int64 {
	n := int64(p.n) * g.groupBytes()
	n += g.textsOf(p)
	for _, t := range []*table{g.packed, g.other} {
		if len(t.parts) == 1 { // may be cut
			n += t.bytes() + leastParts*leastIndex*g.groupBytes()
		}
		n += int64(g.dev.Properties().Units) * fewGroups * g.groupBytes()
		for _, part := range t.parts {
			n += part.doubles(min(p.n, 2*p.n/len(t.parts)+64))
		}
	}
	return n
}

// doubles is the memory of the part that moves if so many groups come.
func (p *part) doubles(more int) (n int64) {
	if len(p.recs)+more*p.l.stride() > cap(p.recs) {
		n += 8 * int64(len(p.recs))
	}
	if indexLoad*(p.n+more) > len(p.index) {
		n += 4 * int64(len(p.index))
	}
	if p.l.texts*(p.n+more) > cap(p.texts) {
		n += 24 * int64(cap(p.texts))
	}
	return n
}

// groupBytes is what a group takes at most, but for byte strings: places in an index that has just doubled,
// a record whose memory has.
func (g *Groups) groupBytes() int64 {
	l := g.l
	return int64(8*indexLoad + 16*(l.stride()+1) + 48*l.texts + 16*len(l.sources))
}

// textsOf is the memory of the byte strings that a piece may add beside records.
func (g *Groups) textsOf(p *piece) int64 {
	n := int64(0)
	for _, s := range p.l.sources {
		if s.typ == column.Bytes {
			n += (2*textBytes(p.values[s.col]) + 8*int64(p.n)) * int64(len(s.slots))
		}
	}
	return n
}

// textBytes is the length of all values of a column of byte strings together.
func textBytes(c column.Column) int64 {
	if c.Type() != column.Bytes {
		return 0
	}
	n := int64(0)
	for i := range c.Len() {
		n += int64(len(c.Bytes(i)))
	}
	return n
}

// addCarefully adds rows one by one, in their order, until there is no memory for one.
func (g *Groups) addCarefully(p *piece, packed, other batch) (added int) {
	k, total := g.scratch.block(), g.recordBytes()
	defer g.scratch.blocks.Put(k)
	for row := range p.n {
		one := piece{l: p.l, keys: p.keys, values: p.values, lo: row, n: 1}
		one.slice(1)
		t, b := g.packed, &packed
		if other.n > 0 && rowOf(other.rows, other.base, 0) == row {
			t, b = g.other, &other
		} else if packed.n == 0 || rowOf(packed.rows, packed.base, 0) != row {
			continue // skipped
		}
		part := t.parts[b.codes[0]>>t.shift]
		known := part.search(b.codes[0], row, part.n) != 0
		need := part.grows(known, &one) + g.textsOf(&one)
		if need > 0 && total+need > g.opts.MaxBytes-g.share() {
			return row
		}
		before := part.bytes()
		part.add(k, batch{l: p.l, n: 1, codes: b.codes[:1], base: row, values: p.values}, allGroups(g.l))
		total += part.bytes() - before
		*b = b.from(1)
	}
	return p.n
}

// grows is the memory that a part takes more at most for a row with some values, but for byte strings.
func (p *part) grows(known bool, row *piece) int64 {
	n, groups := 0, p.n
	if !known {
		groups++
		if len(p.recs)+p.l.stride() > cap(p.recs) {
			n += 8 * 2 * max(len(p.recs), 4*p.l.stride())
		}
		if groups > cap(p.orders) {
			n += 8 * 2 * max(cap(p.orders), 4)
		}
		if indexLoad*groups > len(p.index) {
			n += 4 * len(p.index)
		}
		if p.l.texts*groups > cap(p.texts) {
			n += 24 * 2 * max(cap(p.texts), 8*p.l.texts)
		}
	}
	for i, s := range row.l.sources {
		if i < len(p.nulls) && len(p.nulls[i]) < groups && row.values[s.col].Null(0) {
			n += 8 * 2 * groups
		}
	}
	return int64(n)
}
