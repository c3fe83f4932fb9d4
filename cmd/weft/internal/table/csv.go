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

// A field is quoted if it begins with a quote; two quotes in it are one, and separators and line
// ends are text. A quote elsewhere is an error of its row, and no quote. Rows end with \n or \r\n;
// empty lines are none.

// csvCutter finds the ends of rows of CSV.
type csvCutter struct {
	sep    byte
	pos    int // what has been looked at
	end    int // of the last whole row
	quoted bool
}

func (c *csvCutter) next() { c.pos, c.end, c.quoted = 0, 0, false }

func (c *csvCutter) whole(b []byte) int {
	for c.pos < len(b) {
		q := bytes.IndexByte(b[c.pos:], '"')
		if c.quoted {
			if q < 0 {
				c.pos = len(b)
				break
			}
			q += c.pos
			if q+1 == len(b) { // the first of two, or the end: not known yet
				c.pos = q
				break
			}
			c.pos = q + 1
			if b[q+1] == '"' {
				c.pos++
			} else {
				c.quoted = false
			}
			continue
		}
		outside := b[c.pos:]
		if q >= 0 {
			outside = outside[:q]
		}
		if nl := bytes.LastIndexByte(outside, '\n'); nl >= 0 {
			c.end = c.pos + nl + 1
		}
		c.pos += len(outside)
		if q >= 0 {
			c.quoted = c.pos == 0 || b[c.pos-1] == c.sep || b[c.pos-1] == '\n'
			c.pos++
		}
	}
	return c.end
}

// Every byte of a word that is one of two.
const (
	lowBits = 0x7f7f7f7f7f7f7f7f
	ones    = 0x0101010101010101
)

// three has the high bit of each byte of w that is one of three, given eight times each.
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
	doubled bool // has two quotes that are one
}

// scanner finds fields. It puts those that are wanted where want says, or tells field of all; row
// is told of the end of a row: how many fields it has, and what is wrong with it.
type scanner struct {
	sep   byte
	want  []int // for each field where in spans it goes, -1 for nowhere
	spans []span
	field func(i int, s span)
	row   func(at, fields int, bad error) error
}

// take takes note of field i of a row.
func (s *scanner) take(i int, f span) {
	if s.field != nil {
		s.field(i, f)
	} else if i < len(s.want) && s.want[i] >= 0 {
		s.spans[s.want[i]] = f
	}
}

var (
	errBareQuote = errors.New(`a quote in a field that does not begin with one`)
	errBehind    = errors.New(`text behind a quote that ends a field; quotes in quotes are doubled`)
	errOpen      = errors.New(`a quote that is not closed`)
)

// scan goes over whole rows, b[lo:hi], the last of which ends with \n; b has pad bytes behind hi.
func (s *scanner) scan(b []byte, lo, hi int) error {
	seps, ends, quotes := uint64(s.sep)*ones, uint64('\n')*ones, uint64('"')*ones
	f := span{lo: lo}
	row, n, begun := lo, 0, false // begun: f has been quoted
	var bad error
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
			if i != f.lo || begun {
				if bad == nil {
					bad = errBareQuote
				}
				continue
			}
			begun = true
			var closed bool
			f, closed = quotedField(b, i, hi)
			if !closed && bad == nil {
				bad = errOpen
			}
			// Behind the closing quote comes a separator or the end of a row.
			at := f.hi + 1
			if closed && b[at] != s.sep && b[at] != '\n' && (b[at] != '\r' || b[at+1] != '\n') && bad == nil {
				bad = errBehind
			}
			if at >= hi {
				at = hi - 1 // the \n
			}
			base = at
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
				s.take(n, f)
				if err := s.row(row, n+1, bad); err != nil {
					return err
				}
			}
			n, row, bad = 0, i+1, nil
		default:
			if !begun {
				f.hi = i
			}
			s.take(n, f)
			n++
		}
		f, begun = span{lo: i + 1}, false
	}
}

// quotedField is the field whose opening quote is at i, and whether it is closed before hi.
func quotedField(b []byte, i, hi int) (f span, closed bool) {
	f = span{lo: i + 1, quoted: true}
	for at := i + 1; ; {
		q := bytes.IndexByte(b[at:hi], '"')
		if q < 0 {
			f.hi = hi - 1
			return f, false
		}
		q += at
		if q+1 == hi || b[q+1] != '"' {
			f.hi = q
			return f, true
		}
		f.doubled = true
		at = q + 2
	}
}

// csvParser makes batches of blocks of CSV.
type csvParser struct {
	file    string
	sep     byte
	fields  int // of each row
	null    string
	skipBad bool
	columns []wanted
	scan    scanner

	unquote []byte
	skipped int
	n       int // rows so far
	block   *block
}

// wanted is a column that is asked for.
type wanted struct {
	builder
	name    string
	index   int          // in the table
	field   int          // in the file; -1: it has none, and all is null
	slot    int          // of the values of a row, where a field stands once however often it is wanted
	seen    kinds        // what values look like
	strings *atomic.Bool // set where a value is a JSON string
}

// slots numbers the fields that columns want, each once.
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
	p := &csvParser{file: file, sep: sep, fields: fields, null: o.Null, skipBad: o.SkipBad, columns: append([]wanted(nil), columns...)}
	of, last := slots(p.columns), 0
	for field := range of {
		last = max(last, field+1)
	}
	p.scan = scanner{sep: sep, want: slices.Repeat([]int{-1}, last), spans: make([]span, len(of)), row: p.row}
	for field, slot := range of {
		p.scan.want[field] = slot
	}
	return p
}

func (p *csvParser) parse(b *block) (Batch, error) {
	p.block, p.n, p.skipped = b, 0, 0
	for i := range p.columns {
		p.columns[i].reset(b.rows)
	}
	if err := p.scan.scan(b.buf, pad, len(b.buf)-pad); err != nil {
		return Batch{}, err
	}
	batch := Batch{Rows: p.n, Skipped: p.skipped, Columns: make([]column.Column, len(p.columns))}
	for i := range p.columns {
		batch.Columns[i] = p.columns[i].column(p.n)
	}
	return batch, nil
}

// row takes the fields of a row over.
func (p *csvParser) row(at, fields int, bad error) error {
	if bad == nil && fields != p.fields {
		bad = fmt.Errorf("%d fields, want %d", fields, p.fields)
	}
	var misfit error // of a row that is not bad
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
		p.columns[i].back(p.n)
	}
	p.skipped++
	return nil
}

// value sets the value of a column in the row that begins at an offset. What the type of the column
// does not have makes a bad row, or an error.
func (p *csvParser) value(c *wanted, at int) (bad, err error) {
	b := p.block.buf
	if c.field < 0 {
		c.null(p.n)
		return nil, nil
	}
	s := p.scan.spans[c.slot]
	if !s.quoted && string(b[s.lo:s.hi]) == p.null {
		c.null(p.n)
		return nil, nil
	}
	if s.doubled {
		p.unquote = append(append(p.unquote[:0], b[:pad]...), bytes.ReplaceAll(b[s.lo:s.hi], []byte(`""`), []byte(`"`))...)
		b, s.lo, s.hi = p.unquote, pad, len(p.unquote)
	}
	if c.set(p.n, b, s.lo, s.hi) {
		return nil, nil
	}
	return c.misfit(p.file, p.block.lineOf(at), p.n, b[s.lo:s.hi], classifyText(b[s.lo:s.hi]))
}

// misfit is what a value of some kind means that the type of a column does not have: null where the
// type is fixed, a bad row, a Widening, or an error.
func (c *wanted) misfit(file string, line, row int, value []byte, of kind) (bad, err error) {
	k := c.seen | of
	reason, skips := c.form.conflict(c.name, k, of)
	if c.fixed && !skips {
		if c.form != Forced || !c.setWhole(row, value) {
			c.null(row)
		}
		return nil, nil
	}
	to := c.form.typ(k)
	if reason == "" && to == c.typ {
		reason, skips = "is beyond the range of "+to.String(), true
	}
	if reason == "" {
		return nil, &Widening{File: file, Line: line, Column: c.index, Name: c.name, Value: string(value), From: c.typ, To: to, of: of}
	}
	problem := fmt.Errorf("column %s: %.40q %s", c.name, value, reason)
	if skips {
		return problem, nil
	}
	return nil, &RowError{File: file, Line: line, Err: problem}
}

// classifyText is classify of text that has nothing before it.
func classifyText(s []byte) kind {
	b := append(make([]byte, pad, pad+len(s)), s...)
	return classify(b, pad, len(b))
}
