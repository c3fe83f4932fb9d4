package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/weftgo/weft/column"
)

// maxDepth bounds what is nested in a value.
const maxDepth = 1000

// jsonScanner goes over JSON text, and finds out whether it is some.
type jsonScanner struct {
	b  []byte
	at int
}

var errJSON = errors.New("no JSON object")

func (s *jsonScanner) wrong(want string) error {
	rest := bytes.TrimRight(s.b[min(s.at, len(s.b)):], "\r\n")
	if len(rest) == 0 {
		return fmt.Errorf("%w: the line ends, want %s", errJSON, want)
	}
	return fmt.Errorf("%w: %q, want %s", errJSON, rest[:min(len(rest), 10)], want)
}

// peek is the next byte that is no space; 0 at the end.
func (s *jsonScanner) peek() byte {
	for ; s.at < len(s.b); s.at++ {
		switch c := s.b[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// value goes over a value, and says where it lies and what it is: '"' (without its quotes), '0', 't', 'f', 'n', '{' or '['.
func (s *jsonScanner) value(depth int) (f span, of byte, err error) {
	c := s.peek()
	f.lo = s.at
	of = c
	switch {
	case c == '"':
		f, err = s.text()
		return f, of, err
	case c == '-' || c-'0' < 10:
		of = '0'
		err = s.number()
	case c == 't':
		err = s.word("true")
	case c == 'f':
		err = s.word("false")
	case c == 'n':
		err = s.word("null")
	case c == '{' || c == '[':
		if depth >= maxDepth {
			return f, of, fmt.Errorf("%w: more than %d values in each other", errJSON, maxDepth)
		}
		err = s.nested(c, depth, nil)
	default:
		err = s.wrong("a value")
	}
	f.hi = s.at
	return f, of, err
}

func (s *jsonScanner) word(w string) error {
	if !bytes.HasPrefix(s.b[s.at:], []byte(w)) {
		return s.wrong(w)
	}
	s.at += len(w)
	return nil
}

func (s *jsonScanner) digits() bool {
	first := s.at
	for s.at < len(s.b) && s.b[s.at]-'0' < 10 {
		s.at++
	}
	return s.at > first
}

func (s *jsonScanner) is(c byte) bool { return s.at < len(s.b) && s.b[s.at] == c }

func (s *jsonScanner) number() error {
	if s.is('-') {
		s.at++
	}
	if s.is('0') {
		s.at++
	} else if !s.digits() {
		return s.wrong("a digit")
	}
	if s.is('.') {
		s.at++
		if !s.digits() {
			return s.wrong("a digit")
		}
	}
	if s.is('e') || s.is('E') {
		s.at++
		if s.is('+') || s.is('-') {
			s.at++
		}
		if !s.digits() {
			return s.wrong("a digit")
		}
	}
	return nil
}

// text goes over a string. The span is doubled if something in it is escaped.
func (s *jsonScanner) text() (f span, err error) {
	s.at++
	f = span{lo: s.at, quoted: true}
	for s.at < len(s.b) {
		switch c := s.b[s.at]; {
		case c == '"':
			f.hi = s.at
			s.at++
			return f, nil
		case c == '\\':
			f.doubled = true
			if s.at++; s.at >= len(s.b) {
				return f, s.wrong("what is escaped")
			}
			switch s.b[s.at] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				s.at++
			case 'u':
				if _, ok := hex4(s.b[s.at+1:]); !ok {
					return f, s.wrong("four hexadecimal digits")
				}
				s.at += 5
			default:
				return f, s.wrong("what may be escaped")
			}
		case c < ' ':
			return f, s.wrong("no control characters in a string")
		default:
			s.at++
		}
	}
	return f, s.wrong("a quote")
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	v, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(v), err == nil && b[0] != '+'
}

// unescape appends what a string stands for. Halves of surrogate pairs are U+FFFD, as encoding/json has it.
func unescape(to, b []byte) []byte {
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			to = append(to, b[i])
			continue
		}
		i++
		switch b[i] {
		case 'b':
			to = append(to, '\b')
		case 'f':
			to = append(to, '\f')
		case 'n':
			to = append(to, '\n')
		case 'r':
			to = append(to, '\r')
		case 't':
			to = append(to, '\t')
		case 'u':
			r, _ := hex4(b[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				var low rune
				if i+6 < len(b) && b[i+1] == '\\' && b[i+2] == 'u' {
					low, _ = hex4(b[i+3:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			to = utf8.AppendRune(to, r)
		default:
			to = append(to, b[i])
		}
	}
	return to
}

// nested goes over an object or an array. member is told of each member of an object, if it is not nil.
func (s *jsonScanner) nested(open byte, depth int, member func(key, value span, of byte)) error {
	end := open + 2 // of { and [
	s.at++
	if s.peek() == end {
		s.at++
		return nil
	}
	for {
		var key span
		if open == '{' {
			if s.peek() != '"' {
				return s.wrong("a name in quotes")
			}
			var err error
			if key, err = s.text(); err != nil {
				return err
			}
			if s.peek() != ':' {
				return s.wrong("a colon")
			}
			s.at++
		}
		value, of, err := s.value(depth + 1)
		if err != nil {
			return err
		}
		if member != nil {
			member(key, value, of)
		}
		switch s.peek() {
		case ',':
			s.at++
		case end:
			s.at++
			return nil
		default:
			return s.wrong("a comma or " + string(rune(end)))
		}
	}
}

// object goes over a line that is one object; false if there is nothing on it.
func (s *jsonScanner) object(member func(key, value span, of byte)) (bool, error) {
	switch s.peek() {
	case 0:
		if s.at == len(s.b) {
			return false, nil
		}
	case '{':
		if err := s.nested('{', 0, member); err != nil {
			return true, err
		}
		if s.peek(); s.at < len(s.b) {
			return true, s.wrong("nothing after the object")
		}
		return true, nil
	}
	return true, s.wrong("an object on each line")
}

// kindOf is what a value looks like. Strings are text, whatever they hold; so are objects and arrays,
// as they are written.
func kindOf(b []byte, of byte) kind {
	switch of {
	case 'n':
		return kindNull
	case 't', 'f':
		return kindBool
	case '0':
		return max(classifyText(b), kindInt)
	}
	return kindText
}

// sampleJSON finds names and kinds of members in the first block.
func (s *textSource) sampleJSON() error {
	known := map[string]int{}
	for number, row := range s.first.objects() {
		line := s.first.buf[row.lo:row.hi]
		scan := jsonScanner{b: line}
		var fresh []Field
		var looks []kinds
		_, err := scan.object(func(key, value span, of byte) {
			name := string(unescape(nil, line[key.lo:key.hi]))
			if _, ok := known[name]; !ok {
				known[name] = len(s.names) + len(fresh)
				fresh = append(fresh, Field{Name: name})
			}
			for len(looks) <= known[name] {
				looks = append(looks, 0)
			}
			looks[known[name]].add(kindOf(line[value.lo:value.hi], of))
		})
		if row.bad != nil {
			err = row.bad
		}
		if err != nil && !s.opts.SkipBad {
			return &RowError{File: display(s.in.name), Line: number, Err: err}
		}
		if err != nil {
			for _, f := range fresh {
				delete(known, f.Name)
			}
			continue
		}
		s.names = append(s.names, fresh...)
		for len(s.looks) < len(s.names) {
			s.looks = append(s.looks, 0)
		}
		for i, k := range looks {
			s.looks[i] |= k
		}
	}
	if len(s.names) == 0 {
		return fmt.Errorf("%s: no objects with members in the first lines", display(s.in.name))
	}
	return s.finish()
}

// jsonParser makes batches of blocks of JSON lines. Columns that an object does not have are null.
type jsonParser struct {
	file    string
	skipBad bool
	columns []wanted
	index   map[string]int
	values  []jsonValue
	buf     []byte
}

type jsonValue struct {
	span
	of byte // 0: not there
}

func newJSONParser(file string, o *Options, columns []wanted) *jsonParser {
	p := &jsonParser{file: file, skipBad: o.SkipBad, columns: append([]wanted(nil), columns...), index: map[string]int{}, values: make([]jsonValue, len(columns))}
	for i, c := range columns {
		p.index[c.name] = i
	}
	return p
}

func (p *jsonParser) parse(b *block) (Batch, error) {
	for i := range p.columns {
		p.columns[i].reset(b.rows)
	}
	batch := Batch{Columns: make([]column.Column, len(p.columns))}
	for line, row := range b.objects() {
		text := b.buf[row.lo:row.hi]
		bad, err := row.bad, error(nil)
		if bad == nil {
			bad, err = p.row(text, line, batch.Rows)
		}
		switch {
		case err != nil:
			return Batch{}, err
		case bad == errBlank:
		case bad == nil:
			batch.Rows++
		case p.skipBad:
			batch.Skipped += b.lines(row.lo, row.hi)
			for i := range p.columns {
				p.columns[i].back(batch.Rows)
			}
		default:
			return Batch{}, &RowError{File: p.file, Line: line, Err: bad}
		}
	}
	for i := range p.columns {
		batch.Columns[i] = p.columns[i].column(batch.Rows)
	}
	return batch, nil
}

var errBlank = errors.New("nothing on the line")

// row takes the members of a line over.
func (p *jsonParser) row(text []byte, line, row int) (bad, err error) {
	clear(p.values)
	scan := jsonScanner{b: text}
	there, bad := scan.object(func(key, value span, of byte) {
		name := text[key.lo:key.hi]
		if key.doubled {
			p.buf = unescape(p.buf[:0], name)
			name = p.buf
		}
		if i, ok := p.index[string(name)]; ok {
			p.values[i] = jsonValue{value, of} // the last of a name counts
		}
	})
	if bad != nil {
		return bad, nil
	}
	if !there {
		return errBlank, nil
	}
	for i := range p.columns {
		if bad, err = p.value(&p.columns[i], p.values[i], text, line, row); bad != nil || err != nil {
			return bad, err
		}
	}
	return nil, nil
}

// value sets a value, or says why the column cannot have it.
func (p *jsonParser) value(c *wanted, v jsonValue, text []byte, line, row int) (bad, err error) {
	if v.of == 0 || v.of == 'n' {
		c.null(row)
		return nil, nil
	}
	raw := text[v.lo:v.hi]
	of := kindOf(raw, v.of)
	// Numbers are read with pad bytes before them.
	p.buf = binary.LittleEndian.AppendUint64(p.buf[:0], 0)
	if v.doubled {
		p.buf = unescape(p.buf, raw)
	} else {
		p.buf = append(p.buf, raw...)
	}
	fits := c.typ == column.Bytes || c.typ == column.Bool && of == kindBool || c.typ != column.Bool && v.of == '0'
	if fits && c.set(row, p.buf, pad, len(p.buf)) {
		return nil, nil
	}
	return c.misfit(p.file, line, raw, of)
}
