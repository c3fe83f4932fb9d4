package group

import (
	"bytes"
	"math"
	"unsafe"

	"github.com/weftgo/weft/column"
)

// blockRows is the number of rows processed at a time. Their data stays in the first-level cache.
const blockRows = 1024

// block is the working memory for one block of rows.
type block struct {
	ids, valid [blockRows]uint32 // offsets of the records of rows; of rows whose value is not null
	words      [blockRows]uint64
	ords       [blockRows]uint64
	codes      [blockRows]uint64
	rows       [blockRows]uint32
	merged     [blockRows]uint32 // offsets of records of another part

	// Distributed rows: their numbers, and the values that moved with them.
	numbers [blockRows]uint32
	missed  [blockRows]uint32 // numbers of rows yet to distribute
	moved   [maxMoved][blockRows]uint64
}

// add adds rows to their groups, and stops before the part has more groups than limit. It returns
// the number of rows added.
func (p *part) add(k *block, b batch, limit int) (done int) {
	for done < b.n {
		n := min(blockRows, b.n-done)
		sub := b.slice(done, done+n)
		found := p.findRows(k, sub, limit)
		p.update(k, sub.slice(0, found))
		done += found
		if found < n {
			break
		}
	}
	return done
}

// update adds the values of rows to the records at k.ids.
func (p *part) update(k *block, b batch) {
	n := b.n
	for i := range b.l.sources {
		s := &b.l.sources[i]
		if b.words != nil && b.words[i] != nil {
			p.updateSlots(s, k.ids[:n], b.words[i][b.base:b.base+n], b.ordinals(k, s, n, b.rows))
			continue
		}
		c, ids, rows := b.values[s.col], k.ids[:n], b.rows
		if c.HasNulls() {
			ids, rows = p.validRows(k, i, c, b)
		}
		ords := b.ordinals(k, s, len(ids), rows)
		switch {
		case len(s.slots) == 0:
		case s.typ == column.Bytes:
			for j, rec := range ids {
				var ord uint64
				if ords != nil {
					ord = ords[j]
				}
				p.updateTexts(s.slots, int(rec), c.Bytes(rowOf(rows, b.base, j)), ord)
			}
		default:
			p.updateSlots(s, ids, load(k.words[:len(ids)], c, rows, b.base), ords)
		}
	}
}

// ordinals returns the ordinals of n rows, or nil if no slot of the source needs them.
func (b *batch) ordinals(k *block, s *source, n int, rows []uint32) []uint64 {
	for _, x := range s.slots {
		if x.ord > 0 {
			return load(k.ords[:n], b.values[s.ord], rows, b.base)
		}
	}
	return nil
}

func (p *part) updateSlots(s *source, ids []uint32, words, ords []uint64) {
	for _, x := range s.slots {
		p.updateSlot(x, ids, words, ords)
	}
}

func (p *part) updateSlot(x slot, ids []uint32, words, ords []uint64) {
	if x.ord > 0 {
		p.updateOrdered(x, ids, words, ords)
	} else {
		updates[x.kind](p, x.offset, ids, words)
	}
}

// updateOrdered keeps the value with the lowest ordinal in a slot of kind first, and the value with
// the highest ordinal in a slot of kind last.
func (p *part) updateOrdered(x slot, ids []uint32, words, ords []uint64) {
	for i, rec := range ids {
		if ord := &p.recs[int(rec)+x.ord]; x.kind == first && ords[i] <= *ord || x.kind == last && ords[i] >= *ord {
			p.recs[int(rec)+x.offset], *ord = words[i], ords[i]
		}
	}
}

func rowOf(rows []uint32, base, i int) int {
	if rows == nil {
		return base + i
	}
	return int(rows[i])
}

// validRows returns the records and numbers of the rows whose value is not null. It counts the null
// values, unless rows are states, which have their own counts.
func (p *part) validRows(k *block, source int, c column.Column, b batch) (ids, rows []uint32) {
	valid, n := c.Valid(), 0
	for i, rec := range k.ids[:b.n] {
		row := rowOf(b.rows, b.base, i)
		if !valid.At(row) {
			if !b.l.ofStates {
				p.countNulls(source, rec, 1)
			}
			continue
		}
		k.valid[n], k.rows[n] = rec, uint32(row)
		n++
	}
	return k.valid[:n], k.rows[:n]
}

// load returns the values of rows as words. Consecutive 64-bit values are not copied.
func load(words []uint64, c column.Column, rows []uint32, base int) []uint64 {
	switch c.Type() {
	case column.Int8:
		return gather(words, column.Values[int8](c), rows, base)
	case column.Int16:
		return gather(words, column.Values[int16](c), rows, base)
	case column.Int32:
		return gather(words, column.Values[int32](c), rows, base)
	case column.Int64:
		return gather(words, column.Values[int64](c), rows, base)
	case column.Uint8:
		return gather(words, column.Values[uint8](c), rows, base)
	case column.Uint16:
		return gather(words, column.Values[uint16](c), rows, base)
	case column.Uint32:
		return gather(words, column.Values[uint32](c), rows, base)
	case column.Uint64:
		return gather(words, column.Values[uint64](c), rows, base)
	case column.Float32:
		return gatherFloats(words, column.Values[float32](c), rows, base)
	case column.Float64:
		return gatherFloats(words, column.Values[float64](c), rows, base)
	}
	values := column.Values[bool](c)
	for i := range words {
		words[i] = 0
		if values[rowOf(rows, base, i)] {
			words[i] = 1
		}
	}
	return words
}

func gather[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](words []uint64, values []T, rows []uint32, base int) []uint64 {
	switch {
	case rows == nil && unsafe.Sizeof(T(0)) == 8:
		return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(values[base:base+len(words)]))), len(words))
	case rows == nil:
		for i, v := range values[base : base+len(words)] {
			words[i] = uint64(v)
		}
		return words
	}
	for i, row := range rows {
		words[i] = uint64(values[row])
	}
	return words
}

func gatherFloats[T float32 | float64](words []uint64, values []T, rows []uint32, base int) []uint64 {
	for i := range words {
		words[i] = math.Float64bits(float64(values[rowOf(rows, base, i)]))
	}
	return words
}

// updates holds, by kind of slot, the function that adds a word to each of some records. The slot
// is word at of a record, and ids are the offsets of the records.
var updates = [...]func(p *part, at int, ids []uint32, words []uint64){
	sumSigned: func(p *part, at int, ids []uint32, words []uint64) {
		recs, words := p.recs[at:], words[:len(ids)]
		for i, rec := range ids {
			a, b := int64(recs[rec]), int64(words[i])
			sum := a + b
			recs[rec] = uint64(sum)
			if (a^sum)&(b^sum) < 0 {
				p.recordOverflow(int(rec)+at, 1|b>>63)
			}
		}
	},
	sumUnsigned: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			word := int(rec) + at
			sum := p.recs[word] + words[i]
			p.recs[word] = sum
			if sum < words[i] {
				p.recordOverflow(word, 1)
			}
		}
	},
	sumFloat: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			w := &p.recs[int(rec)+at]
			*w = math.Float64bits(math.Float64frombits(*w) + math.Float64frombits(words[i]))
		}
	},
	minSigned: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			w := &p.recs[int(rec)+at]
			*w = uint64(min(int64(*w), int64(words[i])))
		}
	},
	minUnsigned: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			w := &p.recs[int(rec)+at]
			*w = min(*w, words[i])
		}
	},
	minFloat: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			w := &p.recs[int(rec)+at]
			*w = math.Float64bits(min(math.Float64frombits(*w), math.Float64frombits(words[i])))
		}
	},
	maxSigned: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			w := &p.recs[int(rec)+at]
			*w = uint64(max(int64(*w), int64(words[i])))
		}
	},
	maxUnsigned: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			w := &p.recs[int(rec)+at]
			*w = max(*w, words[i])
		}
	},
	maxFloat: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			w := &p.recs[int(rec)+at]
			*w = math.Float64bits(max(math.Float64frombits(*w), math.Float64frombits(words[i])))
		}
	},
	first: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			if w := p.recs[int(rec)+at:]; w[1] == 0 {
				w[0], w[1] = words[i], 1
			}
		}
	},
	last: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			p.recs[int(rec)+at] = words[i]
		}
	},
	momentsSigned: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			x := words[i]
			sign := uint64(int64(x) >> 63) // 0 or all ones
			addInt(p.recs[int(rec)+at:], x, sign, (x^sign)-sign)
		}
	},
	momentsUnsigned: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			addInt(p.recs[int(rec)+at:], words[i], 0, words[i])
		}
	},
	momentsFloat: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			addFloat(p.recs[int(rec)+at:], math.Float64frombits(words[i]))
		}
	},
	addRows: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			p.recs[int(rec)+at] += words[i] - 1 // find has counted one row
		}
	},
	addNulls: func(p *part, source int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			if words[i] > 0 {
				p.countNulls(source, rec, words[i])
			}
		}
	},
	addCarry: func(p *part, at int, ids []uint32, words []uint64) {
		for i, rec := range ids {
			if words[i] != 0 {
				p.recordOverflow(int(rec)+at, int64(words[i]))
			}
		}
	},
	addLimb1: addLimbs(1),
	addLimb2: addLimbs(2),
	addLimb3: addLimbs(3),
	addTerm1: addTerms(1),
	addTerm2: addTerms(2),
	addTerm3: addTerms(3),
}

// updateTexts adds a byte string to slots of a record. ord is its ordinal, if rows have ordinals.
func (p *part) updateTexts(slots []slot, rec int, v []byte, ord uint64) {
	base := p.at(rec) * p.l.texts
	for _, s := range slots {
		current := p.texts.get(base + s.offset)
		var replace bool
		switch s.kind {
		case minBytes:
			replace = bytes.Compare(v, current) < 0
		case maxBytes:
			replace = bytes.Compare(v, current) > 0
		case firstBytes:
			replace = s.ord > 0 && ord <= p.recs[rec+s.ord]
		case lastBytes:
			replace = s.ord == 0 || ord >= p.recs[rec+s.ord]
		}
		if replace || current == nil {
			if s.ord > 0 {
				p.recs[rec+s.ord] = ord
			}
			p.texts.set(base+s.offset, v)
		}
	}
}
