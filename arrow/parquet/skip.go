package parquet

import "errors"

type rowRange struct{ lo, hi int64 }

func countRows(ranges []rowRange) (n int) {
	for _, r := range ranges {
		n += int(r.hi - r.lo)
	}
	return n
}

// appendRange appends rows lo to hi-1 to ranges, which end before or at lo.
func appendRange(ranges []rowRange, lo, hi int64) []rowRange {
	if n := len(ranges); n > 0 && ranges[n-1].hi >= lo {
		ranges[n-1].hi = max(ranges[n-1].hi, hi)
		return ranges
	}
	if lo < hi {
		ranges = append(ranges, rowRange{lo, hi})
	}
	return ranges
}

// intersect returns the rows that are in both a and b.
func intersect(a, b []rowRange) (out []rowRange) {
	for len(a) > 0 && len(b) > 0 {
		if lo, hi := max(a[0].lo, b[0].lo), min(a[0].hi, b[0].hi); lo < hi {
			out = append(out, rowRange{lo, hi})
		}
		if a[0].hi < b[0].hi {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// skip advances the chunk to the row with the given index. It does not decode a page if all of its
// rows are skipped.
func (c *chunk) skip(to int64) error {
	for c.row < to {
		if c.page.rows == 0 {
			if err := c.jump(to); err != nil {
				return err
			}
			passed, err := c.nextPage(to - c.row)
			if err != nil {
				return err
			}
			c.row += passed
			continue
		}
		m := int(min(to-c.row, int64(c.page.rows)))
		if m < c.page.rows {
			if err := c.skipRows(m); err != nil {
				return err
			}
		}
		c.page.rows -= m
		c.row += int64(m)
	}
	return nil
}

// skipRows skips m rows of the page, which must have more than m rows.
func (c *chunk) skipRows(m int) error {
	values := m
	if c.optional {
		values = 0
		var bitmap [1 << 10]byte
		for left := m; left > 0; {
			n := min(left, 8*len(bitmap))
			clear(bitmap[:])
			set, err := c.page.levels.levels(bitmap[:], 0, n)
			if err != nil {
				return err
			}
			values, left = values+set, left-n
		}
	}
	return c.skipValues(values)
}

func (c *chunk) skipValues(n int) error {
	p := &c.page
	switch p.from {
	case fromFixed:
		if n > len(p.fixed)/c.width {
			return errShort
		}
		p.fixed = p.fixed[n*c.width:]
	case fromBits:
		if p.bit+n > 8*len(p.fixed) {
			return errShort
		}
		p.bit += n
	case fromRuns, fromCodes:
		return p.codes.skip(n)
	case fromTexts:
		if p.offsets != nil {
			if n >= len(p.offsets) {
				return errShort
			}
			p.offsets = p.offsets[n:]
			return nil
		}
		for range n {
			var err error
			if _, p.data, err = splitLength(p.data); err != nil {
				return err
			}
		}
	}
	return nil
}

// pageLocations locates the pages of a chunk, if the file has a page index.
type pageLocations struct {
	looked bool       // the file was searched for the index
	pages  []location // in ascending order; nil without an index
	stop   int64      // end of the wanted rows; later pages are not read ahead
}

// location locates a data page: at is its position in the file, and row is the index of its first
// row within the row group.
type location struct{ at, row int64 }

var errIndex = errors.New("the page index does not match the number of rows of a page")

// check returns an error if a page contradicts the page index. The argument row is the index of the
// page's first row, rows is the number of its rows, and all is the number of rows in the row group.
func (l *pageLocations) check(row, rows, all int64) error {
	if l.pages == nil || rows == 0 {
		return nil
	}
	if lo, hi := l.rows(l.page(row), all); lo != row || hi-lo != rows {
		return errIndex
	}
	return nil
}

func (l *pageLocations) page(row int64) int {
	lo, hi := 0, len(l.pages)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; l.pages[mid].row <= row {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// rows returns the range of rows lo to hi-1 that page k contains. The row group has n rows.
func (l *pageLocations) rows(k int, n int64) (lo, hi int64) {
	if k+1 < len(l.pages) {
		n = l.pages[k+1].row
	}
	return l.pages[k].row, n
}

// locate reads the page locations on its first call. They remain nil if the file has none.
func (c *chunk) locate() {
	if l := &c.location; !l.looked {
		l.looked = true
		l.pages = c.f.locations(c)
	}
}

// jump moves to the page that contains the row with the given index, if the file has a page index
// and that page is a later one. It first reads the dictionary.
func (c *chunk) jump(to int64) error {
	c.locate()
	l := &c.location
	if l.pages == nil {
		return nil
	}
	for c.at < l.pages[0].at {
		if _, err := c.onePage(0); err != nil {
			return err
		}
		if c.page.rows > 0 {
			return errIndex
		}
	}
	k := l.page(to)
	if l.pages[k].at > c.at {
		c.at, c.row = l.pages[k].at, l.pages[k].row
	}
	return nil
}

// wanted returns the position in the file at which reading ahead ends.
func (c *chunk) wanted() int64 {
	l := &c.location
	if l.pages == nil || l.stop >= c.rows {
		return c.end
	}
	if k := l.page(l.stop-1) + 1; l.stop > 0 && k < len(l.pages) {
		return max(l.pages[k].at, c.at)
	}
	return c.end
}
