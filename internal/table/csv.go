package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/column"
)

// A field that begins with a quote is quoted. Within it, two quotes stand for one, and separators
// and line ends are text. Rows end with \n, \r\n or \r, and empty lines are ignored. A row is bad
// if a quote occurs in an unquoted field, if text follows a closing quote, or if the closing quote
// is missing. The first line of a bad row is skipped, and the next line begins a row. With lazy
// quotes, such quotes are text.

var (
	errBareQuote = errors.New(
		`a quote in a field without quotes; use --lazy-quotes to read it as text`,
	)
	errAfterQuote = errors.New(
		`text after a closing quote; double a quote within quotes, or use --lazy-quotes to read it as text`,
	)
	errOpen  = errors.New(`a quote is not closed; use --bad skip to skip the line`)
	errBreak = errors.New(
		`a line break in quotes, which --lines excludes; leave --lines out`,
	)
	errLong = errors.New(
		`a quote is not closed within the longest row; use --bad skip to skip the line`,
	)
)

// csvCutter finds the ends of CSV rows, and bad rows.
//
// After a bad row it continues on the row's second line. The total time is linear nevertheless. If
// a line lies between a quote and the point that proves the quote wrong, the line has an even
// number of quotes. Such a line opens no quote itself.
type csvCutter struct {
	sep     byte
	lazy    bool
	lines   bool
	pos     int // number of scanned bytes
	end     int // end of the last whole row
	quoted  bool
	bad     error // error in the row that begins at end, if the end of its first line is unknown
	returns returns
	marks   []mark
}

func (c *csvCutter) next() []mark {
	marks := c.marks
	*c = csvCutter{sep: c.sep, lazy: c.lazy, lines: c.lines}
	return marks
}

func (c *csvCutter) whole(b []byte, last bool) int {
	for c.pos < len(b) || c.bad != nil {
		if c.bad != nil {
			if !c.skip(b) {
				break
			}
			continue
		}
		q := bytes.IndexByte(b[c.pos:], '"')
		if q >= 0 {
			q += c.pos
		}
		if c.quoted {
			c.inside(b, q)
			if q+1 == len(b) { // a second quote may follow
				break
			}
		} else if !c.outside(b, q) {
			break
		}
		switch {
		case !last || c.pos < len(b) || !c.quoted:
		case c.lazy:
			c.end = len(b)
		default:
			c.bad = errOpen
		}
	}
	return c.end
}

// inside scans quoted text up to the next quote, b[q], or to the end of b if q < 0.
func (c *csvCutter) inside(b []byte, q int) {
	to := q
	if q < 0 {
		to = len(b)
	}
	switch {
	case c.lines && bytes.ContainsAny(b[c.pos:to], "\r\n"):
		c.bad = errBreak
	case q < 0:
		c.pos = len(b)
	case q+1 == len(b):
		c.pos = q
	case b[q+1] == '"':
		c.pos = q + 2
	case endsField(b[q+1], c.sep):
		c.pos, c.quoted = q+1, false
	case c.lazy:
		c.pos = q + 1
	default:
		c.bad = errAfterQuote
	}
}

// endsField reports whether a field ends if the given byte follows a quote.
func endsField(next, sep byte) bool { return next == sep || next == '\n' || next == '\r' }

// outside scans unquoted text up to the next quote, b[q]. If q < 0, it scans to the end of b and
// returns false.
func (c *csvCutter) outside(b []byte, q int) bool {
	to := q
	if q < 0 {
		to = len(b)
	}
	c.returns.replace(b, c.pos, to)
	if nl := bytes.LastIndexByte(b[c.pos:to], '\n'); nl >= 0 {
		c.end = c.pos + nl + 1
	}
	if q < 0 {
		c.pos = min(to, c.returns.at)
		return false
	}
	c.pos = q + 1
	switch {
	case q == c.end || b[q-1] == c.sep:
		c.quoted = true
	case !c.lazy:
		c.bad = errBareQuote
	}
	return true
}

// skip marks the first line of a bad row. It returns false if b does not contain the end of the
// line.
func (c *csvCutter) skip(b []byte) bool {
	end := lineEnd(b, c.end)
	if end < 0 {
		return false
	}
	c.marks = append(c.marks, mark{c.end, end, c.bad})
	c.pos, c.end, c.quoted, c.bad = end, end, false, nil
	c.returns.truncate(end)
	return true
}

// drop implements cutter. With lazy quotes it cannot find the next row.
func (c *csvCutter) drop(b []byte) int {
	if c.quoted && !c.lazy {
		c.bad = errLong
		c.skip(b)
	}
	return c.end
}

// lowBits has the low seven bits of each byte, and ones has the lowest bit.
const (
	lowBits = 0x7f7f7f7f7f7f7f7f
	ones    = 0x0101010101010101
)

// three sets the high bit of each byte of w that equals the corresponding byte of a, b or c. All
// other bits are 0.
func three(w, a, b, c uint64) uint64 {
	a, b, c = w^a, w^b, w^c
	a = a&lowBits + lowBits | a
	b = b&lowBits + lowBits | b
	c = c&lowBits + lowBits | c
	return ^(a&b&c | lowBits)
}

// span is a field, b[lo:hi], without its quotes.
type span struct {
	lo, hi  int
	quoted  bool
	doubled bool // contains two quotes that stand for one
}

// scanner finds the fields of rows. It calls field for each field. If field is nil, it instead
// stores the fields that have an index in want. After a row, b[at:end], it calls row with the
// number of fields, or with an error.
type scanner struct {
	sep   byte
	lazy  bool
	want  []int // index in spans of each field, or -1
	spans []span
	field func(i int, s span)
	row   func(at, end, fields int, bad error) error
}

// storeField handles field i of a row.
func (s *scanner) storeField(i int, f span) {
	if s.field != nil {
		s.field(i, f)
	} else if i < len(s.want) && s.want[i] >= 0 {
		s.spans[s.want[i]] = f
	}
}

// block scans the rows of a block, including the bad rows, which are its marks.
func (s *scanner) block(b *block) error {
	lo := pad
	for _, m := range b.marks {
		if err := s.scan(b.buf, lo, pad+m.lo); err != nil {
			return err
		}
		if err := s.row(pad+m.lo, pad+m.hi, 0, m.bad); err != nil {
			return err
		}
		lo = pad + m.hi
	}
	return s.scan(b.buf, lo, len(b.buf)-pad)
}

// scan scans the rows in b[lo:hi], which are whole and good, and end with \n. b has pad bytes after
// hi.
func (s *scanner) scan(b []byte, lo, hi int) error {
	seps, ends, quotes := uint64(s.sep)*ones, uint64('\n')*ones, uint64('"')*ones
	f := span{lo: lo}
	row, n, begun := lo, 0, false // begun: f is a quoted field
	base := lo
	m := three(binary.LittleEndian.Uint64(b[base:]), seps, ends, quotes)
	for {
		for m == 0 {
			if base += 8; base >= hi {
				return nil
			}
			m = three(binary.LittleEndian.Uint64(b[base:]), seps, ends, quotes)
		}
		i := base + bits.TrailingZeros64(m)>>3
		if i >= hi {
			return nil
		}
		m &= m - 1
		switch b[i] {
		case '"':
			if i != f.lo || begun { // such a quote is text with lazy quotes
				continue
			}
			begun = true
			f = s.quotedField(b, i, hi)
			// A separator or the end of the row follows the closing quote.
			base = min(f.hi+1, hi-1)
			m = three(binary.LittleEndian.Uint64(b[base:]), seps, ends, quotes)
			continue
		case '\n':
			if !begun {
				f.hi = i
				if i > f.lo && b[i-1] == '\r' {
					f.hi--
				}
			}
			if n > 0 || begun || f.hi > f.lo {
				s.storeField(n, f)
				if err := s.row(row, i+1, n+1, nil); err != nil {
					return err
				}
			}
			n, row = 0, i+1
		default:
			if !begun {
				f.hi = i
			}
			s.storeField(n, f)
			n++
		}
		f, begun = span{lo: i + 1}, false
	}
}

// quotedField returns the field with its opening quote at b[i]. With lazy quotes, the field may end
// at hi.
func (s *scanner) quotedField(b []byte, i, hi int) span {
	f := span{lo: i + 1, quoted: true}
	for at := i + 1; ; {
		q := bytes.IndexByte(b[at:hi], '"')
		if q < 0 {
			f.hi = hi - 1
			return f
		}
		q += at
		switch {
		case b[q+1] == '"':
			f.doubled = true
			at = q + 2
		case s.lazy && !endsField(b[q+1], s.sep):
			at = q + 1
		default:
			f.hi = q
			return f
		}
	}
}

// csvParser converts blocks of CSV to batches.
type csvParser struct {
	file    string
	sep     byte
	fields  int // number of fields in each row
	nulls   []string
	skipBad bool
	columns []wanted
	scan    scanner

	unquote []byte
	skipped int
	n       int // number of good rows so far
	block   *block
}

type wanted struct {
	builder
	name  string
	index int // index in the table
	// index in the file; -1 if the file lacks the column and all values are null
	field   int
	slot    int          // index among the distinct fields that are read
	seen    kinds        // kinds of values in the column so far
	strings *atomic.Bool // set if a value is a JSON string
	look    bool         // a value that does not fit the type becomes null and a misfit
}

// setColumns takes the columns of a batch from their builders.
func (b *Batch) setColumns(columns []wanted) {
	b.Columns, b.looks = make([]column.Column, len(columns)), make([]kinds, len(columns))
	for i := range columns {
		b.Columns[i] = columns[i].column(b.Rows)
		for _, m := range columns[i].misfits {
			b.looks[i] |= m.of
		}
	}
}

// slots assigns a slot to each distinct field of columns. It sets the slots of columns and returns
// the slot of each field.
func slots(columns []wanted) map[int]int {
	of := map[int]int{}
	for i := range columns {
		c := &columns[i]
		if c.field < 0 {
			continue
		}
		if _, ok := of[c.field]; !ok {
			of[c.field] = len(of)
		}
		c.slot = of[c.field]
	}
	return of
}

func newCSVParser(file string, sep byte, fields int, o *Options, columns []wanted) *csvParser {
	p := &csvParser{
		file:    file,
		sep:     sep,
		fields:  fields,
		nulls:   o.nulls(),
		skipBad: o.SkipBad,
		columns: append([]wanted(nil), columns...),
	}
	of, last := slots(p.columns), 0
	for field := range of {
		last = max(last, field+1)
	}
	p.scan = scanner{
		sep:   sep,
		lazy:  o.LazyQuotes,
		want:  slices.Repeat([]int{-1}, last),
		spans: make([]span, len(of)),
		row:   p.row,
	}
	for field, slot := range of {
		p.scan.want[field] = slot
	}
	return p
}

func (p *csvParser) parse(b *block) (Batch, error) {
	p.block, p.n, p.skipped = b, 0, 0
	rows := min(b.rows, len(b.text())/p.fields) // fewer than lines if rows span several lines
	for i := range p.columns {
		p.columns[i].reset(rows)
	}
	if err := p.scan.block(b); err != nil {
		return Batch{}, err
	}
	batch := Batch{Rows: p.n, Skipped: p.skipped}
	batch.setColumns(p.columns)
	return batch, nil
}

func (p *csvParser) row(at, end, fields int, bad error) error {
	if bad == nil && fields != p.fields {
		bad = fmt.Errorf("%d fields, want %d", fields, p.fields)
	}
	var misfit error // first misfit, which matters only if the row is good
	for i := 0; i < len(p.columns) && bad == nil; i++ {
		var err error
		if bad, err = p.value(&p.columns[i], at); misfit == nil {
			misfit = err
		}
	}
	switch {
	case bad == nil && misfit != nil:
		return misfit
	case bad == nil:
		p.n++
		return nil
	case !p.skipBad:
		return &RowError{File: p.file, Line: p.block.lineOf(at), Err: bad}
	}
	for i := range p.columns {
		p.columns[i].truncate(p.n)
	}
	p.skipped += p.block.lines(at, end)
	return nil
}

// value sets the value of a column in the row that begins at an offset. If the value does not fit
// the type, it returns an error as bad if the row is bad, and as err if reading must stop.
func (p *csvParser) value(c *wanted, at int) (bad, err error) {
	b := p.block.buf
	if c.field < 0 {
		c.null(p.n)
		return nil, nil
	}
	s := p.scan.spans[c.slot]
	if !s.quoted && isNull(b[s.lo:s.hi], p.nulls) {
		c.null(p.n)
		return nil, nil
	}
	if s.doubled {
		p.unquote = append(
			append(p.unquote[:0], b[:pad]...),
			bytes.ReplaceAll(b[s.lo:s.hi], []byte(`""`), []byte(`"`))...)
		b, s.lo, s.hi = p.unquote, pad, len(p.unquote)
	}
	if c.set(p.n, b, s.lo, s.hi) {
		return nil, nil
	}
	value, line := b[s.lo:s.hi], p.block.lineOf(at)
	bad, err = c.misfit(p.file, line, p.n, value, classifyText(value))
	if bad != nil && !s.quoted && len(value) <= maxHint {
		bad = fmt.Errorf(
			"%w; use --null %s to read it as null%s",
			bad,
			quoteFlag(string(value)),
			headerHint(line),
		)
	}
	return bad, err
}

// maxHint is the maximum length of a value that an error suggests for --null.
const maxHint = 40

// isNull reports whether an unquoted field stands for null.
func isNull(b []byte, nulls []string) bool {
	for _, null := range nulls {
		if string(b) == null {
			return true
		}
	}
	return false
}

// misfit handles a value that does not fit the column's type. The value may become null. Otherwise
// misfit returns bad if the row is bad, or a Widening or another error.
func (c *wanted) misfit(file string, line, row int, value []byte, of kind) (bad, err error) {
	k := c.seen | of
	reason, skips := c.form.conflict(c.name, k, of)
	if c.fixed && !skips {
		if c.form != Forced || !c.setWhole(row, value) {
			c.null(row)
		}
		return nil, nil
	}
	if reason == "" && c.look {
		c.misfits = append(c.misfits, misfit{row, of})
		c.null(row)
		return nil, nil
	}
	if reason == "" {
		return nil, &Widening{
			File:   file,
			Line:   line,
			Column: c.index,
			Name:   c.name,
			Value:  string(value),
			From:   c.typ,
			To:     c.form.typ(k),
			of:     of,
		}
	}
	problem := fmt.Errorf("column %s: %.40q %s", c.name, value, reason)
	if skips {
		return problem, nil
	}
	return nil, &RowError{File: file, Line: line, Err: problem}
}

func headerHint(line int) string {
	if line == 1 {
		return ", and --header yes takes the line for names"
	}
	return ""
}

// classifyText returns the kind of a text that has no pad bytes before it.
func classifyText(s []byte) kind {
	b := append(make([]byte, pad, pad+len(s)), s...)
	return classify(b, pad, len(b))
}
