package sim

// A view describes how much of the history of memory a thread must have seen: all of some works; of
// other threads, all their stores up to some time; and of some cells, more than that, because the
// thread has read them. Views only grow.
type view struct {
	works   progress
	threads vector // by number of the thread
	cells   vector // by id of the cell
}

// copy returns the current view; the result never changes.
func (v *view) copy() *view { return &view{v.works, v.threads.copy(), v.cells.copy()} }

// join adds to v all that o has seen; o is a copy that never changes, or nil.
func (v *view) join(o *view) {
	if o != nil && o != v {
		v.works = v.works.join(o.works)
		v.threads.join(&o.threads)
		v.cells.join(&o.cells)
	}
}

// joinViews returns a view that has seen all that either has; nil has seen nothing.
func joinViews(a, b *view) *view {
	switch {
	case a == nil || a == b:
		return b
	case b == nil:
		return a
	}
	sum := a.copy()
	sum.join(b)
	return sum.copy()
}

// includes reports whether a thread with the view must have seen an access to a cell.
func (v *view) includes(c *cell, m *mark) bool {
	return m.work == nil || v.works.include(m.work) || m.time <= v.threads.at(int(m.thread)) || m.time <= v.cells.at(c.id)
}

// A vector maps small numbers to times, 0 for unset ones. Copies share pages until one of them
// changes.
type vector struct {
	pages  []*page
	tag    *byte // pages with this tag belong only to this vector
	shared bool  // the list of pages is shared with a copy
}

const pageSize = 64

type page struct {
	tag  *byte
	time [pageSize]uint32
}

// at returns the time at index i.
func (v *vector) at(i int) uint32 {
	if p := i / pageSize; p < len(v.pages) && v.pages[p] != nil {
		return v.pages[p].time[i%pageSize]
	}
	return 0
}

// raise sets the time at index i if the old one is lower.
func (v *vector) raise(i int, time uint32) {
	if v.at(i) < time {
		v.writablePage(i / pageSize).time[i%pageSize] = time
	}
}

// writablePage makes page i writable and returns it.
func (v *vector) writablePage(i int) *page {
	v.ensurePage(i)
	if v.tag == nil {
		v.tag = new(byte)
	}
	p := v.pages[i]
	if p != nil && p.tag == v.tag {
		return p
	}
	writable := &page{tag: v.tag}
	if p != nil {
		writable.time = p.time
	}
	v.pages[i] = writable
	return writable
}

// ensurePage makes entry i of the list of pages exist and writable.
func (v *vector) ensurePage(i int) {
	if v.shared {
		v.pages, v.shared = append(make([]*page, 0, max(len(v.pages), i+1)), v.pages...), false
	}
	for len(v.pages) <= i {
		v.pages = append(v.pages, nil)
	}
}

// copy returns the current vector; both vectors copy their pages before they change them.
func (v *vector) copy() vector {
	v.shared, v.tag = true, nil
	return vector{pages: v.pages, shared: true}
}

// join raises the times in v to those in o, which never changes.
func (v *vector) join(o *vector) {
	for i := v.firstDifference(o, 0); i < len(o.pages); i = v.firstDifference(o, i+1) {
		theirs := o.pages[i]
		if theirs == nil {
			continue
		}
		var mine *page
		if i < len(v.pages) {
			mine = v.pages[i]
		}
		above, below := mine.compare(theirs)
		switch {
		case !below:
		case !above:
			v.ensurePage(i)
			v.pages[i] = theirs
		default:
			writable := v.writablePage(i)
			for k, t := range &theirs.time {
				writable.time[k] = max(writable.time[k], t)
			}
		}
	}
}

// firstDifference returns the first page, from i on, that v does not share with o. Of hundreds of
// pages, they share nearly all.
func (v *vector) firstDifference(o *vector, i int) int {
	n := min(len(v.pages), len(o.pages))
	for mine, theirs := v.pages[:n], o.pages[:n]; i < n && mine[i] == theirs[i]; i++ {
	}
	return i
}

// compare reports whether any time in p is above that in o, and whether any is below it; p may be
// nil.
func (p *page) compare(o *page) (above, below bool) {
	if p == nil {
		return false, true
	}
	var more, less int64 // negative if any difference is
	for k := range o.time {
		d := int64(p.time[k]) - int64(o.time[k])
		more, less = more|-d, less|d
	}
	return more < 0, less < 0
}
