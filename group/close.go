package group

import "github.com/weftgo/weft/internal/hash"

// closeSpan is how many keys that follow each other have a place each.
const closeSpan = 1 << 14

// closeKeys are the records of keys that lie close together, by what is behind the first of them. Most rows then need no hash and
// no comparison.
type closeKeys struct {
	known bool
	first uint64                // code
	recs  [closeSpan + 1]uint32 // where records begin; 0: nobody is there, and nobody ever is in the last place
	rows  int                   // that have been looked for
	far   int                   // that were not among them
}

// begin decides, by the codes of some rows, where the keys begin.
func (c *closeKeys) begin(codes []uint64) {
	least, most := codes[0], codes[0]
	for _, code := range codes {
		least, most = min(least, code), max(most, code)
	}
	c.known = true
	if span := most - least; span < closeSpan {
		c.first = least - (closeSpan-span)/2 // as much room before as behind; below 0 it is modulo 2^64, as distances are
	} else {
		c.first = least
	}
}

// findRows is find of a block of rows whose codes may not have been made yet.
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

// findClose is find of codes that are not mixed, and may lie close together.
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
		recs[rec+wordRows]++ // nobody reads that of rec 0
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
