package ordered

import "github.com/weftgo/weft/internal/cpu"

// leavesFor returns the number of leaves that a run of neighboring pairs needs.
func (f *forest[K, V]) leavesFor(pairs int) int {
	if pairs <= leafPairs {
		return min(pairs, 1)
	}
	return (pairs + f.fill - 1) / f.fill
}

// merger runs the operations of a chunk. It collects the resulting pairs of neighboring leaves, and
// writes them to leaves.
type merger[K, V word] struct {
	*forest[K, V]
	cpu.Changes[K, V]
	index   *index[K]
	items   []cpu.Item[K]
	fetcher cpu.Fetcher[K]
	c       *chunk[K]

	read int // number of leaves with items that have been visited
	done int // number of items that have been run

	keys    []K
	vals    []V
	sep     K        // separator of the collected pairs
	sources []uint32 // leaves of the collected pairs that may be overwritten
	begun   bool     // pairs are being collected
	joins   bool     // the last leaf in out belongs to this window, so a few pairs may join it
	edge    bool     // the pairs extend to the end of the key range
}

func (m *merger[K, V]) run(c *chunk[K]) {
	m.c, m.Live, m.read, m.done, m.joins = c, 0, 0, c.lo, false
	m.fetcher = m.fetcher.Slice(c.lo, c.hi)
	c.out = entriesFor[K](c.b - c.a + c.maxExtra)
	for i := range min(prefetchLeaves, len(c.touched)) {
		m.prefetch(c.touched[i])
	}
	if c.a == c.b { // no leaves exist yet
		m.begin(m.items[c.lo].Key)
		m.merge(nil, 0, 0, m.items[c.lo:c.hi])
	}
	c.visitLeaves(m.index, m.items, m.visitLeaf)
	m.flush(true)
	c.delta = m.Live
}

// visitLeaf processes a leaf and the operations on its keys. A window is the leaves below one node
// of the index. Pairs of different windows are never merged.
func (m *merger[K, V]) visitLeaf(p int, items []cpu.Item[K]) {
	if p%fanout == 0 {
		m.flush(true)
		m.joins = false
	}
	id, n := m.index.ids[p], int(m.index.sizes[p])
	unshared := m.unshared(id)
	if len(items) == 0 && !m.c.cut {
		switch trimmed := n < int(m.present.sizes[p]); {
		case n == 0:
			m.c.retired = append(m.c.retired, id)
			m.c.moved = true
			return
		case m.begun && len(m.keys)+n <= maxMergedPairs:
			m.gather(p, id, unshared, nil)
			m.flush(false)
			return
		case n < minPairs && unshared && trimmed:
			m.flush(true)
			m.gather(p, id, unshared, nil)
			return
		}
		m.flush(true)
		m.c.out.add(m.index.seps[0][p], id, n)
		m.joins = true
		return
	}
	if m.read++; m.read+prefetchLeaves <= len(m.c.touched) {
		m.prefetch(m.c.touched[m.read+prefetchLeaves-1])
	}
	m.gather(p, id, unshared, items)
	m.edge = p+1 == m.index.leaves && !m.c.cut
	m.flush(false)
}

// gather runs the operations on a leaf and collects the resulting pairs.
func (m *merger[K, V]) gather(p int, id uint32, unshared bool, items []cpu.Item[K]) {
	l, lo, hi := m.at(id), 0, int(m.index.sizes[p])
	m.begin(m.index.seps[0][p])
	switch {
	case !m.c.cut && unshared:
		m.sources = append(m.sources, id)
	case !m.c.cut:
		m.c.retired = append(m.c.retired, id)
		m.c.moved = true
	default:
		n := hi
		lo = l.lower(m.c.from, n)
		if !m.c.last {
			hi = l.lower(m.c.to, n)
		}
		if m.c.moved = true; m.c.from > m.index.seps[0][p] {
			m.sep = m.c.from
		} else {
			m.c.retired = append(m.c.retired, id)
		}
	}
	m.merge(l, lo, hi, items)
}

func (m *merger[K, V]) begin(sep K) {
	if !m.begun {
		m.begun, m.sep = true, sep
	}
}

// merge runs operations on pairs [lo,hi) of a leaf and collects the resulting pairs.
func (m *merger[K, V]) merge(l *leaf[K, V], lo, hi int, items []cpu.Item[K]) {
	for x := 0; x < len(items); {
		key, from := items[x].Key, x
		x = cpu.RunEnd(items, x+1)
		m.fetcher.Fetch(m.done)
		var val V
		found := false
		if lo < hi {
			at := min(max(l.bound(key), lo), hi)
			if at < hi && l.keys[at] < key {
				at = hi // all keys are smaller
			}
			m.keys, m.vals = append(m.keys, l.keys[lo:at]...), append(m.vals, l.vals[lo:at]...)
			if lo = at; at < hi && l.keys[at] == key {
				val, found = l.vals[at], true
				lo++
			}
		}
		m.done += x - from
		if val, found = cpu.ApplyOps(&m.Changes, items[from:x], val, found); found {
			m.keys, m.vals = append(m.keys, key), append(m.vals, val)
		}
	}
	if lo < hi {
		m.keys, m.vals = append(m.keys, l.keys[lo:hi]...), append(m.vals, l.vals[lo:hi]...)
	}
}

// flush writes the collected pairs to leaves. Without force, fewer than minPairs pairs wait for the
// pairs of the next leaf. With force, they join the last written leaf if they fit.
func (m *merger[K, V]) flush(force bool) {
	n := len(m.keys)
	if !m.begun || n > 0 && n < minPairs && !force {
		return
	}
	if last := len(m.c.out.ids) - 1; n > 0 && n < minPairs && m.joins && int(m.c.out.sizes[last])+n <= maxMergedPairs {
		m.joinLast(last)
	}
	m.write()
	m.keys, m.vals, m.sources, m.begun, m.edge = m.keys[:0], m.vals[:0], m.sources[:0], false, false
}

// joinLast puts the pairs of the last written leaf before the collected pairs.
func (m *merger[K, V]) joinLast(last int) {
	out := &m.c.out
	id, n := out.ids[last], int(out.sizes[last])
	l := m.at(id)
	keys, vals := append(l.keys[:n:n], m.keys...), append(l.vals[:n:n], m.vals...)
	m.keys, m.vals = append(m.keys[:0], keys...), append(m.vals[:0], vals...)
	m.sep = out.seps[last]
	out.seps, out.ids, out.sizes = out.seps[:last], out.ids[:last], out.sizes[:last]
	m.c.moved = true
	if m.unshared(id) {
		m.sources = append(m.sources, id)
	} else {
		m.c.retired = append(m.c.retired, id)
	}
}

// write writes the collected pairs to as many leaves as needed. If keys are appended at the end of
// the map, leaves are as full as in a bulk load. Elsewhere they are equally full.
func (m *merger[K, V]) write() {
	n := len(m.keys)
	leaves := m.leavesFor(n)
	m.c.moved = m.c.moved || leaves != 1 || len(m.sources) != 1
	m.joins = leaves == 1 || leaves == 0 && m.joins
	at := 0
	for i := range leaves {
		size := (n - at) / (leaves - i)
		if m.edge && leaves > 1 {
			size = min(m.fill, n-at)
		}
		id := m.nextLeaf()
		m.pool.at(id).set(m.keys[at:at+size], m.vals[at:at+size])
		sep := m.keys[at]
		if i == 0 {
			sep = m.sep
		}
		m.c.out.add(sep, id, size)
		at += size
	}
	m.c.retired = append(m.c.retired, m.sources...)
}

// nextLeaf returns a leaf to write: one of m.sources, or a new leaf.
func (m *merger[K, V]) nextLeaf() (id uint32) {
	if n := len(m.sources) - 1; n >= 0 {
		id, m.sources = m.sources[n], m.sources[:n]
		return id
	}
	c := m.c
	id, c.ids = c.ids[len(c.ids)-1], c.ids[:len(c.ids)-1]
	m.created[id] = m.clock
	return id
}
