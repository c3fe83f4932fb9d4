package group

import (
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

// mostMoved is the maximum number of sources that move with their rows. Values of others are read
// in place, with a cache line for each.
const mostMoved = 4

// dealing adds a batch to the parts of a table. Each core has one share of its rows. It combines
// the first of them in a part of its own, and distributes the others to chunks.
type dealing struct {
	t     *table
	b     batch
	share int   // rows of a share; the last may have fewer
	done  []int // by share: rows that are combined

	// By share, the numbers of the groups of its core's part, in the order of the table's parts,
	// and the index of the first group of each part.
	came, begins [][]uint32
	chunks       *chunks
	moved        []int // sources with values that move with the rows
}

func (t *table) newDealing(dev device.Host, s *scratch, b batch) *dealing {
	shares := max(1, min(dev.Properties().Units, b.n/directRows))
	d := &dealing{t: t, b: b, share: (b.n + shares - 1) / shares, done: make([]int, shares),
		chunks: s.chunks, came: make([][]uint32, shares),
		begins: make([][]uint32, shares)}
	for i, x := range b.l.sources {
		if len(d.moved) < mostMoved && len(x.slots) > 0 && x.typ != column.Bytes &&
			!b.values[x.col].HasNulls() {
			d.moved = append(d.moved, i)
		}
	}
	return d
}

// rows returns the rows of a share.
func (d *dealing) rows(c int) batch {
	return d.b.sub(min(c*d.share, d.b.n), min((c+1)*d.share, d.b.n))
}

// each calls f for each share.
func (d *dealing) each(dev device.Host, f func(k *block, c int)) {
	dev.Parallel(len(d.done), 1, func(lo, hi int) {
		k := blocks.Get().(*block)
		for c := lo; c < hi; c++ {
			f(k, c)
		}
		blocks.Put(k)
	})
}

// combine makes cores combine rows in parts of their own, all or the first ones. It estimates the
// number of groups of the batch and of the rows to come.
func (d *dealing) combine(dev device.Host, coming int) (groups int) {
	t := d.t
	for len(t.own) < len(d.done) {
		t.own = append(t.own, newOwn(t.l))
	}
	for _, own := range t.own[:len(d.done)] {
		own.reset()
		t.mayBeClose(own, d.b)
	}
	d.each(dev, func(k *block, c int) { d.done[c] = t.own[c].add(k, d.rows(c), t.most) })
	return groupsOf(t.own[0].n, d.done[0], d.b.n+coming)
}

// deal distributes the rows that are not combined, and the groups of cores' parts.
//
// A core with a full part still combines rows of the groups that it has, as long as these are the
// majority. They are if keys are distributed as in natural language. Once a row of a group was
// distributed, all later rows of the group are, so rows stay in their order.
func (d *dealing) deal(dev device.Host) {
	parts, left := len(d.t.parts), 0
	for c, done := range d.done {
		left = max(left, d.rows(c).n-done)
	}
	d.chunks.fit(len(d.done), parts, left, 2+len(d.moved))
	d.each(dev, func(k *block, c int) {
		own, tries, rows := (*part)(nil), 0, d.rows(c).from(d.done[c])
		if d.done[c] > 0 {
			own = d.t.own[c]
		}
		for full := own; rows.n > 0; rows = rows.from(min(blockRows, rows.n)) {
			b := d.encode(k, rows.sub(0, min(blockRows, rows.n)))
			if n := b.n; full != nil {
				b = full.addKnown(k, b)
				if tries = min(tries+n-2*b.n, triedRows); tries < -triedRows {
					full = nil
				}
			}
			d.dealBlock(k, c, b)
		}
		if own != nil {
			d.sortOwn(c)
		}
	})
}

// triedRows is the lead of rows of other groups over rows of known ones that ends the search for
// the latter.
const triedRows = 1 << 13

// encode computes the codes of a block.
func (d *dealing) encode(k *block, b batch) batch {
	if b.keys != nil {
		b.codes = k.codes[:b.n]
		b.keys.encode(b.codes, b.keys.keys, b.base, b.keys.seed)
		b.keys = nil
	}
	return b
}

// sortOwn sorts the groups of a core's part by the table's parts.
func (d *dealing) sortOwn(c int) {
	own, shift := d.t.own[c], d.t.shift
	begins, came := make([]uint32, len(d.t.parts)+1), make([]uint32, own.n)
	for i := range own.n {
		begins[own.recs[own.rec(i)+wordCode]>>shift]++
	}
	at := uint32(0)
	for p, n := range begins {
		begins[p], at = at, at+n
	}
	for i := range own.n {
		p := own.recs[own.rec(i)+wordCode] >> shift
		came[begins[p]] = uint32(i)
		begins[p]++
	}
	copy(begins[1:], begins) // each begin has advanced to the next one
	begins[0] = 0
	d.came[c], d.begins[c] = came, begins
}

// ofPart returns the groups of a share's core that belong to a part.
func (d *dealing) ofPart(c, p int) []uint32 {
	if d.came[c] == nil {
		return nil
	}
	return d.came[c][d.begins[c][p]:d.begins[c][p+1]]
}

// dealBlock writes rows to the chunks of their parts.
func (d *dealing) dealBlock(k *block, c int, b batch) {
	mem, ats := d.chunks.mem, k.ids[:b.n]
	d.chunks.places(c, b.codes, d.t.shift, ats)
	for i, at := range ats {
		row := mem[at : at+2]
		row[0], row[1] = b.codes[i], uint64(b.base+i)
	}
	if b.rows != nil {
		for i, at := range ats {
			mem[at+1] = uint64(b.rows[i])
		}
	}
	for j, source := range d.moved {
		s := &b.l.sources[source]
		words := load(k.words[:b.n], b.values[s.col], b.rows, b.base)
		mem := mem[2+j:]
		for i, at := range ats {
			mem[at] = words[i]
		}
	}
}

// add makes cores add the rows and groups of all shares to each part.
func (d *dealing) add(dev device.Host, coming int) {
	t, expected := d.t, 0
	parts := len(t.parts)
	add := func(lo, hi int) {
		k := blocks.Get().(*block)
		for p := lo; p < hi; p++ {
			if part := t.parts[p]; expected > 2*part.n && t.store == nil {
				part.reserve(expected)
			}
			d.addPart(k, p)
		}
		blocks.Put(k)
	}
	// The first parts show how many groups to expect in others, which then need not grow.
	first := min(parts, max(len(d.done), parts/64))
	found, rows, before := 0, 0, 0
	for _, part := range t.parts[:first] {
		before += part.n
	}
	dev.Parallel(first, 1, add)
	for p := range first {
		found += t.parts[p].n
		for c := range d.done {
			rows += len(d.ofPart(c, p)) + d.chunks.rows(c, p)
		}
	}
	if before < rows/4 && coming < 32*d.b.n {
		expected = groupsOf(found, rows, rows+rows*coming/d.b.n) / first
		expected += expected / 16
		t.room = max(t.room, expected*parts)
	}
	dev.Parallel(parts-first, max(1, parts*directRows/d.b.n/4), func(lo, hi int) {
		add(first+lo, first+hi)
	})
}

// addPart adds the rows and groups of all shares to a part.
func (d *dealing) addPart(k *block, p int) {
	part := d.t.parts[p]
	for c := range d.done {
		if some := d.ofPart(c, p); len(some) > 0 {
			part.merge(k, d.t.own[c], some)
		}
		b := batch{l: d.b.l, values: d.b.values}
		if len(d.moved) > 0 {
			b.words = make([][]uint64, len(d.b.l.sources))
		}
		for r := d.chunks.read(c, p); r.left > 0; {
			b.n = d.chunks.move(&r, k)
			b.codes, b.rows = k.codes[:b.n], k.numbers[:b.n]
			for j, source := range d.moved {
				b.words[source] = k.moved[j][:b.n]
			}
			part.add(k, b, allGroups(d.t.l))
		}
	}
}
