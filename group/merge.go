package group

import "math"

// allGroups is how many groups a part can have at most: records begin at 32-bit numbers.
func allGroups(l *layout) int { return math.MaxUint32/l.stride() - 1 }

// move makes a record of record i of another part, whose group is not here.
func (p *part) move(from *part, i int) {
	rec := from.rec(i)
	mask := uint64(len(p.index) - 1)
	at := from.recs[rec] & mask
	for p.index[at] != 0 {
		at = (at + 1) & mask
	}
	to := int(p.insert(at, from.recs[rec+wordCode], from.orders[i]))
	copy(p.recs[to:], from.recs[rec:rec+p.l.stride()])
	if i < from.ordered {
		p.ordered++
	}
	for s := range p.nulls {
		if n := from.nullsOf(s, i); n > 0 {
			p.null(s, uint32(to), n)
		}
	}
	for j := range p.l.texts {
		if v := from.texts.at(i*p.l.texts + j); v != nil {
			p.texts.set(p.at(to)*p.l.texts+j, v)
		}
	}
	p.carryOf(from, rec, to)
}

// carryOf adds what sums of a record went over 64 bits to those of a record here.
func (p *part) carryOf(from *part, rec, to int) {
	if from.carry == nil {
		return
	}
	for w := wordSlots; w < p.l.stride(); w++ {
		if c := from.carry[uint32(rec+w)]; c != 0 {
			p.overflow(to+w, c)
		}
	}
}

// merge adds the groups of another part, whose rows come behind those here.
func (p *part) merge(b *block, from *part) {
	stride := p.l.stride()
	for lo := 0; lo < from.n; lo += blockRows {
		n := min(blockRows, from.n-lo)
		of := func(word int) []uint64 {
			for i := range n {
				b.words[i] = from.recs[from.rec(lo+i)+word]
			}
			return b.words[:n]
		}
		for i := range n {
			rec := from.rec(lo + i)
			b.ids[i] = p.search(from.recs[rec+wordCode], int(from.orders[lo+i]), allGroups(p.l))
		}
		for i, rows := range of(wordRows) {
			p.recs[int(b.ids[i])+wordRows] += rows
		}
		for s := range p.l.sources {
			p.mergeSource(b, from, s, lo, n, of)
		}
		for i := range n {
			p.carryOf(from, (lo+i+1)*stride, int(b.ids[i]))
		}
	}
}

// mergeSource adds what groups lo to lo+n of another part keep of a source.
func (p *part) mergeSource(b *block, from *part, s, lo, n int, of func(word int) []uint64) {
	for i := range n {
		if nulls := from.nullsOf(s, lo+i); nulls > 0 {
			p.null(s, b.ids[i], nulls)
		}
	}
	for _, x := range p.l.sources[s].slots {
		switch {
		case x.kind.text():
			for i, rec := range b.ids[:n] {
				if v := from.texts.at((lo+i)*p.l.texts + x.at); v != nil {
					p.text([]slot{x}, int(rec), v, from.recs[from.rec(lo+i)+x.ord])
				}
			}
		case x.kind == first || x.kind == last:
			// Groups without a value leave what there is.
			k := 0
			for i := range n {
				if from.nullsOf(s, lo+i) < from.rows(lo+i) {
					rec := from.rec(lo + i)
					b.valid[k], b.words[k], b.ords[k] = b.ids[i], from.recs[rec+x.at], from.recs[rec+x.ord]
					k++
				}
			}
			p.slots(&source{slots: []slot{x}}, b.valid[:k], b.words[:k], b.ords[:k])
		default:
			updates[x.kind](p, x.at, b.ids[:n], of(x.at))
		}
	}
}
