package group

import (
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

// maxMoved is the maximum number of sources whose values move with the rows. Reading a value of
// another source costs a cache line per row.
const maxMoved = 4

// distributor adds a batch to the parts of a table. Each core has one share of the rows. It
// combines the first rows of its share in a local part, and distributes the other rows to chunks.
type distributor struct {
	t     *table
	b     batch
	share int   // rows per share; the last share may have fewer
	done  []int // by share: number of combined rows

	// By share: the groups of the local part, sorted by the table's parts, and the index of the
	// first group of each part.
	groups, offsets [][]uint32
	chunks          *chunks
	moved           []int // sources whose values move with the rows
}

func (t *table) newDistributor(dev device.Host, s *scratch, b batch) *distributor {
	shares := max(1, min(dev.Properties().Units, b.n/directRows))
	d := &distributor{t: t, b: b, share: (b.n + shares - 1) / shares, done: make([]int, shares),
		chunks: s.chunks, groups: make([][]uint32, shares),
		offsets: make([][]uint32, shares)}
	for i, x := range b.l.sources {
		if len(d.moved) < maxMoved && len(x.slots) > 0 && x.typ != column.Bytes &&
			!b.values[x.col].HasNulls() {
			d.moved = append(d.moved, i)
		}
	}
	return d
}

func (d *distributor) shareRows(c int) batch {
	return d.b.slice(min(c*d.share, d.b.n), min((c+1)*d.share, d.b.n))
}

// eachShare calls f for each share, in parallel.
func (d *distributor) eachShare(dev device.Host, f func(k *block, c int)) {
	dev.Parallel(len(d.done), 1, func(lo, hi int) {
		k := blocks.Get().(*block)
		for c := lo; c < hi; c++ {
			f(k, c)
		}
		blocks.Put(k)
	})
}

// combine makes each core combine all or the first rows of its share in its local part. It returns
// an estimate of the number of groups in the batch and in the remaining rows after it.
func (d *distributor) combine(dev device.Host, remaining int) (groups int) {
	t := d.t
	for len(t.localParts) < len(d.done) {
		t.localParts = append(t.localParts, newLocalPart(t.l))
	}
	for _, local := range t.localParts[:len(d.done)] {
		local.reset()
		t.tryDense(local, d.b)
	}
	d.eachShare(dev, func(k *block, c int) { d.done[c] = t.localParts[c].add(k, d.shareRows(c), t.maxLocalGroups) })
	return estimateGroups(t.localParts[0].n, d.done[0], d.b.n+remaining)
}

// distribute distributes the rows that are not combined, and sorts the groups of local parts.
//
// A core with a full local part still combines rows of the groups there while these rows are the
// majority. This is so for keys distributed as words of natural language. Once a row of a group was
// distributed, so are all later rows of the group, which keeps rows in their order.
func (d *distributor) distribute(dev device.Host) {
	parts, left := len(d.t.parts), 0
	for c, done := range d.done {
		left = max(left, d.shareRows(c).n-done)
	}
	d.chunks.prepare(len(d.done), parts, left, 2+len(d.moved))
	d.eachShare(dev, func(k *block, c int) {
		local, tries, rows := (*part)(nil), 0, d.shareRows(c).rowsFrom(d.done[c])
		if d.done[c] > 0 {
			local = d.t.localParts[c]
		}
		for full := local; rows.n > 0; rows = rows.rowsFrom(min(blockRows, rows.n)) {
			b := d.encode(k, rows.slice(0, min(blockRows, rows.n)))
			if n := b.n; full != nil {
				b = full.addExisting(k, b)
				if tries = min(tries+n-2*b.n, triedRows); tries < -triedRows {
					full = nil
				}
			}
			d.distributeBlock(k, c, b)
		}
		if local != nil {
			d.sortLocal(c)
		}
	})
}

// triedRows bounds the search for existing groups. The search ends when rows of new groups
// outnumber rows of existing groups by this number.
const triedRows = 1 << 13

func (d *distributor) encode(k *block, b batch) batch {
	if b.keys != nil {
		b.codes = k.codes[:b.n]
		b.keys.encode(b.codes, b.keys.keys, b.base, b.keys.seed)
		b.keys = nil
	}
	return b
}

// sortLocal sorts the groups of a core's local part by the table's parts.
func (d *distributor) sortLocal(c int) {
	local, shift := d.t.localParts[c], d.t.shift
	offsets, groups := make([]uint32, len(d.t.parts)+1), make([]uint32, local.n)
	for i := range local.n {
		offsets[local.recs[local.rec(i)+wordCode]>>shift]++
	}
	at := uint32(0)
	for p, n := range offsets {
		offsets[p], at = at, at+n
	}
	for i := range local.n {
		p := local.recs[local.rec(i)+wordCode] >> shift
		groups[offsets[p]] = uint32(i)
		offsets[p]++
	}
	copy(offsets[1:], offsets) // each offset has advanced to that of the next part
	offsets[0] = 0
	d.groups[c], d.offsets[c] = groups, offsets
}

// groupsOf returns the groups of share c's local part that belong to part p.
func (d *distributor) groupsOf(c, p int) []uint32 {
	if d.groups[c] == nil {
		return nil
	}
	return d.groups[c][d.offsets[c][p]:d.offsets[c][p+1]]
}

// distributeBlock writes rows to the chunks of their parts.
func (d *distributor) distributeBlock(k *block, c int, b batch) {
	mem, places := d.chunks.mem, k.ids[:b.n]
	d.chunks.reserveRows(c, b.codes, d.t.shift, places)
	for i, at := range places {
		row := mem[at : at+2]
		row[0], row[1] = b.codes[i], uint64(b.base+i)
	}
	if b.rows != nil {
		for i, at := range places {
			mem[at+1] = uint64(b.rows[i])
		}
	}
	for j, source := range d.moved {
		s := &b.l.sources[source]
		words := load(k.words[:b.n], b.values[s.col], b.rows, b.base)
		mem := mem[2+j:]
		for i, at := range places {
			mem[at] = words[i]
		}
	}
}

// addParts adds the rows and groups of all shares to the parts. Each part belongs to one core.
func (d *distributor) addParts(dev device.Host, remaining int) {
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
	// The first parts give the number of groups to expect in the others, which then need not grow.
	first := min(parts, max(len(d.done), parts/64))
	found, rows, before := 0, 0, 0
	for _, part := range t.parts[:first] {
		before += part.n
	}
	dev.Parallel(first, 1, add)
	for p := range first {
		found += t.parts[p].n
		for c := range d.done {
			rows += len(d.groupsOf(c, p)) + d.chunks.rows(c, p)
		}
	}
	if before < rows/4 && remaining < 32*d.b.n {
		expected = estimateGroups(found, rows, rows+rows*remaining/d.b.n) / first
		expected += expected / 16
		t.capacity = max(t.capacity, expected*parts)
	}
	dev.Parallel(parts-first, max(1, parts*directRows/d.b.n/4), func(lo, hi int) {
		add(first+lo, first+hi)
	})
}

// addPart adds the rows and groups of all shares to part p.
func (d *distributor) addPart(k *block, p int) {
	part := d.t.parts[p]
	for c := range d.done {
		if groups := d.groupsOf(c, p); len(groups) > 0 {
			part.merge(k, d.t.localParts[c], groups)
		}
		b := batch{l: d.b.l, values: d.b.values}
		if len(d.moved) > 0 {
			b.words = make([][]uint64, len(d.b.l.sources))
		}
		for r := d.chunks.newCursor(c, p); r.left > 0; {
			b.n = d.chunks.readBlock(&r, k)
			b.codes, b.rows = k.codes[:b.n], k.numbers[:b.n]
			for j, source := range d.moved {
				b.words[source] = k.moved[j][:b.n]
			}
			part.add(k, b, allGroups(d.t.l))
		}
	}
}
