package sim

// view describes which accesses a thread must have seen: all accesses of works; accesses of other
// threads up to a time; and accesses to cells up to a later time, because the thread has read these
// cells. Views only grow.
type view struct {
	works   progress
	threads vector // time by number of the thread
	cells   vector // time by id of the cell
}

// copy returns a copy of v that never changes.
func (v *view) copy() *view { return &view{v.works, v.threads.copy(), v.cells.copy()} }

// join adds to v all that o contains. o is nil or a copy, which never changes.
func (v *view) join(o *view) {
	if o != nil && o != v {
		v.works = v.works.join(o.works)
		v.threads.join(&o.threads)
		v.cells.join(&o.cells)
	}
}

// joinViews returns the union of a and b. A nil view is empty.
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

// includes reports whether a thread with view v must have seen access m to cell c.
func (v *view) includes(c *cell, m *mark) bool {
	return m.work == nil || v.works.include(m.work) || m.time <= v.threads.at(int(m.thread)) || m.time <= v.cells.at(c.id)
}

// vector maps small numbers to times, which are 0 if not set. Copies share pages until one changes
// them.
type vector struct {
	pages  []*page
	tag    *byte // only this vector uses pages that have this tag
	shared bool  // whether a copy shares the list of pages
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

// raise sets the time at index i to time, unless it is higher already.
func (v *vector) raise(i int, time uint32) {
	if v.at(i) < time {
		v.writablePage(i / pageSize).time[i%pageSize] = time
	}
}

// writablePage returns page i. It first copies the page if other vectors may share it.
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

// ensurePage extends the list of pages to entry i and makes the list writable.
func (v *vector) ensurePage(i int) {
	if v.shared {
		v.pages, v.shared = append(make([]*page, 0, max(len(v.pages), i+1)), v.pages...), false
	}
	for len(v.pages) <= i {
		v.pages = append(v.pages, nil)
	}
}

// copy returns a copy of v. Both vectors copy shared pages before they change them.
func (v *vector) copy() vector {
	v.shared, v.tag = true, nil
	return vector{pages: v.pages, shared: true}
}

// join raises each time in v to the time in o. o never changes.
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

// firstDifference returns the index, at least i, of the first page that v does not share with o. Of
// hundreds of pages, two vectors share nearly all.
func (v *vector) firstDifference(o *vector, i int) int {
	n := min(len(v.pages), len(o.pages))
	for mine, theirs := v.pages[:n], o.pages[:n]; i < n && mine[i] == theirs[i]; i++ {
	}
	return i
}

// compare reports whether any time in p is above the same time in o, and whether any is below. A
// nil page counts as all zeros.
func (p *page) compare(o *page) (above, below bool) {
	if p == nil {
		return false, true
	}
	var more, less int64 // negative if a difference is negative
	for k := range o.time {
		d := int64(p.time[k]) - int64(o.time[k])
		more, less = more|-d, less|d
	}
	return more < 0, less < 0
}
