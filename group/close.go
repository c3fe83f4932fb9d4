package group

import "github.com/weftgo/weft/internal/hash"

// closeSpan is the number of consecutive keys with a place each.
const closeSpan = 1 << 14

// closeKeys holds the records of keys that lie close together, indexed by the distance to the first
// key. Most rows then need neither a hash nor a comparison.
type closeKeys struct {
	known bool
	first uint64 // code of the first key
	// offsets of records; 0: the place is empty, and the last place always is
	recs [closeSpan + 1]uint32
	rows int // rows that have been looked up
	far  int // rows that were not found here
}

// begin chooses the first key by the codes of some rows.
func (c *closeKeys) begin(codes []uint64) {
	least, most := codes[0], codes[0]
	for _, code := range codes {
		least, most = min(least, code), max(most, code)
	}
	c.known = true
	if span := most - least; span < closeSpan {
		// equal room before and after the keys; a value below 0 wraps modulo 2^64, as distances do
		c.first = least - (closeSpan-span)/2
	} else {
		c.first = least
	}
}

// findRows is find for a block of rows that may not have codes yet.
func (p *part) findRows(k *block, b batch, limit int) (done int) {
	if b.keys == nil {
		return p.find(k, b.codes, b.rows, b.base, limit)
	}
	e, codes := b.keys, k.codes[:b.n]
	if p.close == nil {
		e.encode(codes, e.keys, b.base, e.seed)
		return p.find(k, codes, nil, b.base, limit)
	}
	e.plain(codes, e.keys, b.base)
	return p.findClose(k, codes, b.base, e.seed, limit)
}

// findClose is find for codes that are not mixed, and may lie close together.
func (p *part) findClose(k *block, codes []uint64, base int, seed uint64, limit int) (done int) {
	c := p.close
	if !c.known {
		c.begin(codes)
	}
	ids, elsewhere, n := k.ids[:len(codes)], &k.rows, uint64(0)
	recs, first := p.recs, c.first
	for i, code := range codes {
		rec := c.recs[min(code-first, closeSpan)]
		ids[i] = rec
		recs[rec+wordRows]++ // the count of rec 0 is not used
		elsewhere[n%blockRows] = uint32(i)
		n += (uint64(rec) - 1) >> 63
	}
	for _, i := range elsewhere[:n] {
		code := codes[i]
		rec := p.search(hash.Uint64(code, seed), base+int(i), limit)
		if rec == 0 {
			for _, there := range ids[i:] {
				p.recs[there+wordRows]--
			}
			return int(i)
		}
		ids[i] = rec
		p.recs[rec+wordRows]++
		if at := code - first; at < closeSpan {
			c.recs[at] = rec
		} else {
			c.far++
		}
	}
	if c.rows += len(codes); c.far > c.rows/8 {
		p.close = nil
	}
	return len(codes)
}
