package group

import "github.com/weftgo/weft/internal/hash"

// denseSpan is the number of consecutive keys that have an entry in denseKeys.
const denseSpan = 1 << 14

// denseKeys holds the records of keys that lie close together, indexed by the distance from the
// first key. Most rows then need neither a hash nor a comparison.
type denseKeys struct {
	hasFirst bool
	first    uint64 // code of the first key
	// offsets of records, 0 if none; the last entry is always 0
	recs     [denseSpan + 1]uint32
	nRows    int // rows that have been looked up
	nOutside int // rows whose key is outside the span
}

// chooseFirst chooses the first key from a sample of codes.
func (c *denseKeys) chooseFirst(codes []uint64) {
	lo, hi := codes[0], codes[0]
	for _, code := range codes {
		lo, hi = min(lo, code), max(hi, code)
	}
	c.hasFirst = true
	if span := hi - lo; span < denseSpan {
		// Leave equal space before and after the keys. Values wrap modulo 2^64, as distances do.
		c.first = lo - (denseSpan-span)/2
	} else {
		c.first = lo
	}
}

// findRows finds the records of a block of rows, and computes their codes first if necessary. See
// part.find for the parameters.
func (p *part) findRows(k *block, b batch, limit int) (done int) {
	if b.keys == nil {
		return p.find(k, b.codes, b.rows, b.base, limit)
	}
	e, codes := b.keys, k.codes[:b.n]
	if p.dense == nil {
		e.encode(codes, e.keys, b.base, e.seed)
		return p.find(k, codes, nil, b.base, limit)
	}
	e.encodeUnmixed(codes, e.keys, b.base)
	return p.findDense(k, codes, b.base, e.seed, limit)
}

// findDense is find for unmixed codes that may lie close together.
func (p *part) findDense(k *block, codes []uint64, base int, seed uint64, limit int) (done int) {
	c := p.dense
	if !c.hasFirst {
		c.chooseFirst(codes)
	}
	ids, missed, n := k.ids[:len(codes)], &k.rows, uint64(0)
	recs, first := p.recs, c.first
	for i, code := range codes {
		rec := c.recs[min(code-first, denseSpan)]
		ids[i] = rec
		recs[rec+wordRows]++ // rec 0 is no record, so its count does not matter
		missed[n%blockRows] = uint32(i)
		n += (uint64(rec) - 1) >> 63
	}
	for _, i := range missed[:n] {
		code := codes[i]
		rec := p.search(hash.Uint64(code, seed), base+int(i), limit)
		if rec == 0 {
			for _, found := range ids[i:] {
				p.recs[found+wordRows]--
			}
			return int(i)
		}
		ids[i] = rec
		p.recs[rec+wordRows]++
		if at := code - first; at < denseSpan {
			c.recs[at] = rec
		} else {
			c.nOutside++
		}
	}
	if c.nRows += len(codes); c.nOutside > c.nRows/8 {
		p.dense = nil
	}
	return len(codes)
}
