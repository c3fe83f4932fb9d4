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

// A field is quoted if it begins with a quote. In it, two quotes are one, and separators and line
// ends are text. Rows end with \n, \r\n or \r. Empty lines are no rows. A quote elsewhere makes a
// bad row, as does a quoted field that continues after its quote or has no end. The first line of a
// bad row is left out, and the next line begins a row. With lazy quotes, such quotes are text.

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

// csvCutter finds the ends of rows of CSV, and bad rows.
//
// It returns to a bad row's second line. The time is linear all the same: no line between a quote
// and the place where that proves wrong opens one itself, because the number of its quotes is even.
type csvCutter struct {
	sep     byte
	lazy    bool
	lines   bool
	pos     int // scanned up to here
	end     int // end of the last whole row
	quoted  bool
	bad     error // of the row at end, with no end of its first line yet
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
			if q+1 == len(b) { // the first of two, or the end: unknown
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

// inside scans quoted text up to the next quote, b[q].
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

// endsField reports whether a byte after a quote makes it the end of a field.
func endsField(next, sep byte) bool { return next == sep || next == '\n' || next == '\r' }

// outside scans unquoted text up to the next quote, b[q]. It returns false at the end of b.
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

// skip leaves out the first line of a bad row. It returns false if the end of the line is not in b.
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

// drop leaves out a row with an open quote. With lazy quotes, the next row cannot be located then.
func (c *csvCutter) drop(b []byte) int {
	if c.quoted && !c.lazy {
		c.bad = errLong
		c.skip(b)
	}
	return c.end
}

// Words with one of two values in every byte.
const (
	lowBits = 0x7f7f7f7f7f7f7f7f
	ones    = 0x0101010101010101
)

// three sets the high bit of each byte of w that equals one of three bytes. a, b and c repeat these
// eight times each.
func three(w, a, b, c uint64) uint64 {
	a, b, c = w^a, w^b, w^c
	a = a&lowBits + lowBits | a
	b = b&lowBits + lowBits | b
	c = c&lowBits + lowBits | c
	return ^(a&b&c | lowBits)
}

// span is a field: b[lo:hi], without its quotes.
type span struct {
	lo, hi  int
	quoted  bool
	doubled bool // has two quotes that stand for one
}

// scanner finds fields. It stores the wanted ones at their places in spans, or calls field for all.
// At the end of a row, b[at:end], it calls row with the number of fields, or with an error.
type scanner struct {
	sep   byte
	lazy  bool
	want  []int // place in spans of each field, or -1
	spans []span
	field func(i int, s span)
	row   func(at, end, fields int, bad error) error
}

// storeField stores field i of a row.
func (s *scanner) storeField(i int, f span) {
	if s.field != nil {
		s.field(i, f)
	} else if i < len(s.want) && s.want[i] >= 0 {
		s.spans[s.want[i]] = f
	}
}

// block scans the rows of a block. Its marks are bad rows. The others have correct quotes.
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

// scan scans whole rows, b[lo:hi]. The last one ends with \n. b has pad bytes after hi.
func (s *scanner) scan(b []byte, lo, hi int) error {
	seps, ends, quotes := uint64(s.sep)*ones, uint64('\n')*ones, uint64('"')*ones
	f := span{lo: lo}
	row, n, begun := lo, 0, false // begun: f has been quoted
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
			if i != f.lo || begun { // with lazy quotes
				continue
			}
			begun = true
			f = s.quotedField(b, i, hi)
			// After the closing quote comes a separator or the end of a row.
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

// quotedField returns the field with an opening quote at i. With lazy quotes, it may continue to
// hi.
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

// csvParser makes batches of blocks of CSV.
type csvParser struct {
	file    string
	sep     byte
	fields  int // of each row
	nulls   []string
	skipBad bool
	columns []wanted
	scan    scanner

	unquote []byte
	skipped int
	n       int // rows so far
	block   *block
}

// wanted is a requested column.
type wanted struct {
	builder
	name    string
	index   int          // in the table
	field   int          // in the file; -1: absent, and all values are null
	slot    int          // of the values of a row, which hold each field once
	seen    kinds        // kinds of values so far
	strings *atomic.Bool // set by a value that is a JSON string
	look    bool         // values that do not fit the type are null, and misfits
}

// setColumns makes the columns of a batch from known rows.
func (b *Batch) setColumns(columns []wanted) {
	b.Columns, b.looks = make([]column.Column, len(columns)), make([]kinds, len(columns))
	for i := range columns {
		b.Columns[i] = columns[i].column(b.Rows)
		for _, m := range columns[i].misfits {
			b.looks[i] |= m.of
		}
	}
}

// slots numbers the fields of columns, each once.
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
	rows := min(b.rows, len(b.text())/p.fields) // a row may have many lines
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

// row stores the fields of a row.
func (p *csvParser) row(at, end, fields int, bad error) error {
	if bad == nil && fields != p.fields {
		bad = fmt.Errorf("%d fields, want %d", fields, p.fields)
	}
	var misfit error // of a row that is otherwise good
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

// value sets the value of a column in the row that begins at an offset. A value that does not fit
// the column's type makes a bad row, or an error.
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

// isNull reports whether a field without quotes stands for null.
func isNull(b []byte, nulls []string) bool {
	for _, null := range nulls {
		if string(b) == null {
			return true
		}
	}
	return false
}

// misfit returns the consequence of a value that does not fit the column's type: null if the type
// is fixed, otherwise a bad row, a Widening, or an error.
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

// headerHint returns further advice about a value of the first line.
func headerHint(line int) string {
	if line == 1 {
		return ", and --header yes takes the line for names"
	}
	return ""
}

// classifyText is classify for text without pad bytes before it.
func classifyText(s []byte) kind {
	b := append(make([]byte, pad, pad+len(s)), s...)
	return classify(b, pad, len(b))
}
