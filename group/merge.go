package group

import "math"

// allGroups returns the maximum number of groups in a part, for which offsets of 32 bits suffice.
func allGroups(l *layout) int { return math.MaxUint32/l.stride() - 1 }

// moveRecord copies record i of another part. This part must not have a record of its group.
func (p *part) moveRecord(from *part, i int) {
	rec := from.rec(i)
	to := p.newRecord(from.recs[rec+wordCode], from.orders[i])
	copy(p.recs[to:], from.recs[rec:rec+p.l.stride()])
	if i < from.ordered {
		p.ordered++
	}
	at := from.at(rec)
	for s := range p.nulls {
		if n := from.nullCount(s, at); n > 0 {
			p.countNulls(s, uint32(to), n)
		}
	}
	for j := range p.l.texts {
		if v := from.texts.get(at*p.l.texts + j); v != nil {
			p.texts.set(p.at(to)*p.l.texts+j, v)
		}
	}
	p.addCarries(from, rec, to)
}

// moveRecords copies all records of another part, which must have no byte strings. This part must
// be empty.
func (p *part) moveRecords(from *part) {
	p.reserve(from.n)
	p.recs, p.orders = append(p.recs[:0], from.recs...), append(p.orders, from.orders...)
	p.n, p.ordered, p.carry = from.n, from.ordered, from.carry
	for s, nulls := range from.nulls {
		p.nulls[s] = append(p.nulls[s], nulls...)
	}
	p.reindex()
}

// newRecord makes a record for a code that has none, and returns its offset.
func (p *part) newRecord(code, order uint64) int {
	mask := uint64(len(p.index) - 1)
	at := code & mask
	for p.index[at] != 0 {
		at = (at + 1) & mask
	}
	return int(p.insert(at, code, order))
}

// addCarries adds the carries of the sums in record rec of another part to record to.
func (p *part) addCarries(from *part, rec, to int) {
	if from.carry == nil {
		return
	}
	for w := wordSlots; w < p.l.stride(); w++ {
		if c := from.carry[uint32(rec+w)]; c != 0 {
			p.recordOverflow(to+w, c)
		}
	}
}

// merge adds groups of another part, given by their record numbers. The rows of these groups come
// after the rows of this part.
func (p *part) merge(b *block, from *part, ids []uint32) {
	for len(ids) > 0 {
		n := min(blockRows, len(ids))
		p.mergeBlock(b, from, ids[:n])
		ids = ids[n:]
	}
}

func (p *part) mergeBlock(b *block, from *part, ids []uint32) {
	n := len(ids)
	recs := b.merged[:n]
	for i, j := range ids {
		rec := from.rec(int(j))
		recs[i] = uint32(rec)
		b.ids[i] = p.search(from.recs[rec+wordCode], int(from.orders[j]), allGroups(p.l))
	}
	of := func(word int) []uint64 {
		for i, rec := range recs {
			b.words[i] = from.recs[int(rec)+word]
		}
		return b.words[:n]
	}
	for i, rows := range of(wordRows) {
		p.recs[int(b.ids[i])+wordRows] += rows
	}
	for s := range p.l.sources {
		p.mergeSource(b, from, s, recs, of)
	}
	for i, rec := range recs {
		p.addCarries(from, int(rec), int(b.ids[i]))
	}
}

// mergeSource adds the state of source s of the records recs of another part.
func (p *part) mergeSource(b *block, from *part, s int, recs []uint32, of func(word int) []uint64) {
	if len(from.nulls[s]) > 0 {
		for i, rec := range recs {
			if nulls := from.nullCount(s, from.at(int(rec))); nulls > 0 {
				p.countNulls(s, b.ids[i], nulls)
			}
		}
	}
	for _, x := range p.l.sources[s].slots {
		switch {
		case x.kind.isText():
			for i, rec := range recs {
				at := from.at(int(rec))*p.l.texts + x.offset
				if v := from.texts.get(at); v != nil {
					p.updateTexts([]slot{x}, int(b.ids[i]), v, from.recs[int(rec)+x.ord])
				}
			}
		case x.kind == first || x.kind == last:
			// Groups without a value change nothing.
			k := 0
			for i, rec := range recs {
				r := from.recs[rec:]
				if from.nullCount(s, from.at(int(rec))) < r[wordRows] {
					b.valid[k], b.words[k], b.ords[k] = b.ids[i], r[x.offset], r[x.ord]
					k++
				}
			}
			p.updateSlot(x, b.valid[:k], b.words[:k], b.ords[:k])
		case x.kind.isMoments():
			for _, c := range momentsState(x) {
				updates[c.slot.kind](p, c.slot.offset, b.ids[:len(recs)], of(c.slot.offset))
			}
		default:
			updates[x.kind](p, x.offset, b.ids[:len(recs)], of(x.offset))
		}
	}
}
