package table

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/weftgo/weft/column"
)

const maxDepth = 1000

type jsonScanner struct {
	b  []byte
	at int
}

var errJSON = errors.New("not a JSON object")

func (s *jsonScanner) wrong(want string) error {
	rest := bytes.TrimRight(s.b[min(s.at, len(s.b)):], "\r\n")
	if len(rest) == 0 {
		return fmt.Errorf("%w: the line ends, want %s", errJSON, want)
	}
	return fmt.Errorf("%w: %q, want %s", errJSON, rest[:min(len(rest), 10)], want)
}

// peek skips spaces and returns the next byte, or 0 at the end.
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

// value scans a value. It returns the span, without quotes, and the kind: '"', '0', 't', 'f', 'n',
// '{' or '['.
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
			return f, of, fmt.Errorf("%w: more than %d nested values", errJSON, maxDepth)
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

// text scans a string. doubled is set in the span if the string contains an escape.
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
				return f, s.wrong("an escaped character")
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
				return f, s.wrong("a character that can be escaped")
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

// unescape appends the string b to a slice and replaces its escapes. Half of a surrogate pair
// becomes U+FFFD, as in encoding/json.
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

// nested scans an object or an array. If member is not nil, nested calls it for each element.
func (s *jsonScanner) nested(open byte, depth int, member func(key, value span, of byte)) error {
	end := open + 2 // closing bracket: } or ]
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

// object scans a line that contains one object. It returns false if the line is empty.
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

// kindOf returns the kind of a value. A string is text even if it looks like a number, except NaN
// and infinities, which are not JSON numbers. Objects and arrays are text.
func kindOf(b []byte, of byte) kind {
	switch of {
	case 'n':
		return kindNull
	case 't', 'f':
		return kindBool
	case '0':
		return classifyText(b)
	case '"':
		if _, word := parseWord(b); word {
			return kindWord
		}
	}
	return kindText
}

// members lists the names of object members, in the order of appearance, and the kinds of their
// values.
type members struct {
	names []string
	looks []kinds
	index map[string]int
}

func (m *members) add(name []byte, of kinds) {
	i, ok := m.index[string(name)]
	if !ok {
		if m.index == nil {
			m.index = map[string]int{}
		}
		i = len(m.names)
		m.index[string(name)] = i
		m.names, m.looks = append(m.names, string(name)), append(m.looks, 0)
	}
	m.looks[i] |= of
}

func (s *textSource) membersOf(b *block) (*members, error) {
	type value struct {
		lo, hi int // the name is names[lo:hi]
		of     kind
	}
	m := &members{}
	var values []value
	var names []byte
	for number, row := range b.objects() {
		line := b.buf[row.lo:row.hi]
		values, names = values[:0], names[:0]
		scan := jsonScanner{b: line}
		_, err := scan.object(func(key, v span, of byte) {
			lo := len(names)
			names = unescape(names, line[key.lo:key.hi])
			values = append(values, value{lo, len(names), kindOf(line[v.lo:v.hi], of)})
		})
		if row.bad != nil {
			err = row.bad
		}
		if err != nil && !s.opts.SkipBad {
			return nil, &RowError{File: display(s.in.name), Line: number, Err: err}
		}
		if err != nil {
			continue
		}
		for _, v := range values {
			m.add(names[v.lo:v.hi], v.of)
		}
	}
	return m, nil
}

// addMembers adds members to the fields of the file.
func (s *textSource) addMembers(m *members) {
	if s.index == nil {
		s.index = map[string]int{}
	}
	for i, name := range m.names {
		at, ok := s.index[name]
		if !ok {
			at = len(s.names)
			s.index[name] = at
			s.names, s.looks = append(s.names, Field{Name: name}), append(s.looks, 0)
		}
		s.looks[at] |= m.looks[i]
	}
}

// member implements source. It adds the member to the fields, because JSON rows that have not been
// read may contain any member.
func (s *textSource) member(name string) int {
	if s.format != JSON || s.whole {
		return -1
	}
	s.addMembers(&members{names: []string{name}, looks: []kinds{0}})
	return s.index[name]
}

// sampleJSON finds the members in the first block. If it has none, sampleJSON reads the whole file.
func (s *textSource) sampleJSON(ctx context.Context) error {
	m, err := s.membersOf(s.first)
	if err != nil {
		return err
	}
	s.addMembers(m)
	if len(s.names) == 0 {
		if _, err := s.complete(ctx); err != nil {
			return err
		}
	}
	if len(s.names) == 0 {
		return fmt.Errorf("%s: no objects with members in the first lines", display(s.in.name))
	}
	return nil
}

type memberParser struct{ *textSource }

func (p memberParser) parse(b *block) (Batch, error) {
	m, err := p.membersOf(b)
	return Batch{members: m}, err
}

// complete implements source. It reads the whole file to find all members.
func (s *textSource) complete(ctx context.Context) (bool, error) {
	if s.format != JSON || s.whole || !s.rereadable() {
		return false, nil
	}
	r, err := s.in.openText(ctx)
	if err != nil {
		return false, err
	}
	defer r.Close()
	for batch, err := range parallel(ctx, s.blocks(r, s.opts.BlockSize), s.opts.Workers, func() parser { return memberParser{s} }) {
		if err != nil {
			if ctx.Err() == nil {
				err = s.in.failed(err)
			}
			return false, err
		}
		s.addMembers(batch.members)
	}
	s.whole = true
	return true, nil
}

// jsonParser converts blocks of JSON objects to batches. A missing member is null.
type jsonParser struct {
	file    string
	skipBad bool
	all     bool // an unknown member is an error
	columns []wanted
	index   map[string]int // slot of each member; -1 if it is known but not requested
	values  []jsonValue    // value in each slot
	unknown string         // name of the first unknown member in a row
	buf     []byte
}

type jsonValue struct {
	span
	of byte // 0 if the member is missing
}

func newJSONParser(
	file string,
	o *Options,
	columns []wanted,
	fields []Field,
	all bool,
) *jsonParser {
	p := &jsonParser{
		file:    file,
		skipBad: o.SkipBad,
		all:     all,
		columns: append([]wanted(nil), columns...),
		index:   map[string]int{},
	}
	if all {
		for _, f := range fields {
			p.index[f.Name] = -1
		}
	}
	of := slots(p.columns)
	for field, slot := range of {
		p.index[fields[field].Name] = slot
	}
	p.values = make([]jsonValue, len(of))
	return p
}

func (p *jsonParser) parse(b *block) (Batch, error) {
	rows := b.rows
	if b.marks != nil {
		rows = len(b.marks)
	}
	for i := range p.columns {
		p.columns[i].reset(rows)
	}
	batch := Batch{}
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
				p.columns[i].truncate(batch.Rows)
			}
		default:
			return Batch{}, &RowError{File: p.file, Line: line, Err: bad}
		}
	}
	batch.setColumns(p.columns)
	return batch, nil
}

var errBlank = errors.New("nothing on the line")

func (p *jsonParser) row(text []byte, line, row int) (bad, err error) {
	clear(p.values)
	unknown := false
	scan := jsonScanner{b: text}
	there, bad := scan.object(func(key, value span, of byte) {
		name := text[key.lo:key.hi]
		if key.doubled {
			p.buf = unescape(p.buf[:0], name)
			name = p.buf
		}
		switch i, ok := p.index[string(name)]; {
		case ok && i >= 0:
			p.values[i] = jsonValue{value, of} // the last member with a name wins
		case !ok && p.all && !unknown:
			unknown, p.unknown = true, string(name)
		}
	})
	if bad != nil {
		return bad, nil
	}
	if !there {
		return errBlank, nil
	}
	for i := range p.columns {
		bad, misfit := p.value(&p.columns[i], text, line, row)
		if bad != nil {
			return bad, nil
		}
		err = cmp.Or(err, misfit)
	}
	if unknown && err == nil {
		err = &UnknownMember{File: p.file, Line: line, Name: p.unknown}
	}
	return nil, err
}

// value sets the value of a column. See csvParser.value for the errors.
func (p *jsonParser) value(c *wanted, text []byte, line, row int) (bad, err error) {
	var v jsonValue
	if c.field >= 0 {
		v = p.values[c.slot]
	}
	if v.of == 0 || v.of == 'n' {
		c.null(row)
		return nil, nil
	}
	raw := text[v.lo:v.hi]
	// Number parsers require pad bytes before the value.
	p.buf = binary.LittleEndian.AppendUint64(p.buf[:0], 0)
	if v.doubled {
		p.buf = unescape(p.buf, raw)
	} else {
		p.buf = append(p.buf, raw...)
	}
	value := p.buf[pad:]
	if v.of == '"' && !c.strings.Load() {
		c.strings.Store(true)
	}
	switch {
	case v.of == '"' && c.form == Extreme && c.typ == column.Bytes: // may look like a number
		c.texts.add(value)
		return nil, nil
	case c.has(v.of, value) && c.set(row, p.buf, pad, len(p.buf)):
		return nil, nil
	}
	of, looks := kindOf(value, v.of), classifyText(value)
	if c.form == Forced {
		of = looks
	}
	bad, err = c.misfit(p.file, line, row, value, of)
	if bad != nil && v.of == '"' && looks&kindNumber != 0 && c.form == Number {
		bad = fmt.Errorf("%w but a string; use --number %s to read strings as numbers", bad, quoteFlag(c.name))
	}
	return bad, err
}

// has reports whether a JSON value is allowed in a column. A string is not a number, unless the
// column is forced to numbers. Keys that are compared with integers may be strings.
func (c *wanted) has(of byte, value []byte) bool {
	if of != '"' || c.typ == column.Bytes || c.fixed || c.form == Forced || c.form == Truth || c.form == Present {
		return true
	}
	_, word := parseWord(value)
	return word && c.typ == column.Float64
}
