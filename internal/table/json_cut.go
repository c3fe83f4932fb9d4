package table

import (
	"bytes"
	"fmt"
	"iter"
)

// nestedJSON reports whether JSON is not one object per line: an array, or objects that span lines.
// It decides by the first bytes. Reading such JSON is slower.
func nestedJSON(head []byte, whole bool) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	end := lineEnd(head, 0)
	switch {
	case len(head) == 0:
		return false
	case head[0] != '{':
		return head[0] == '['
	case end < 0 && whole:
		end = len(head)
	case end < 0:
		return true
	}
	s := jsonScanner{b: head[:end]}
	_, err := s.object(nil)
	s.peek()
	return err != nil && (s.at >= end || s.b[s.at] == '{')
}

// jsonCutter finds objects in arrays, and objects that span lines. Each object is a mark.
//
// A bad object may lack its closing bracket. If the error is at a brace that begins a line or
// follows a comma, the object ends there. Otherwise it ends with its closing brace. If its brackets
// do not match, it ends at the next brace or at the line end.
type jsonCutter struct {
	pos   int
	marks []mark

	array bool // inside an array
	// next byte expected in an array: ',' after a value, '{' after a comma, 0 at the start
	want       byte
	recovering bool // after an error, commas and brackets may be missing
	spent      int  // bytes scanned without success, minus the bytes read since
}

const (
	// maxRecovery bounds the search for the end of a bad object. The bound applies to consecutive
	// bad objects together.
	maxRecovery = 64 << 10
	// jsonToken exceeds the length of all tokens, except strings and numbers.
	jsonToken = 8
)

func (c *jsonCutter) next() []mark {
	marks := c.marks
	c.pos, c.marks = 0, nil
	if marks == nil {
		marks = []mark{} // an empty list, because nil would mean lines
	}
	return marks
}

func (c *jsonCutter) drop([]byte) int { return 0 }

// read records that b[:to] has been read.
func (c *jsonCutter) read(to int) {
	c.spent = max(c.spent-(to-c.pos), 0)
	c.pos = to
}

func (c *jsonCutter) whole(b []byte, last bool) int {
	s := jsonScanner{b: b}
	for {
		s.at = c.pos
		of := s.peek()
		c.read(s.at)
		if s.at == len(b) {
			if last && c.array && !c.recovering {
				c.array = false
				c.marks = append(c.marks, mark{len(b) - 1, len(b), fmt.Errorf("%w: the text ends, want ]", errJSON)})
			}
			return c.pos
		}
		var err error
		switch {
		case of == '{' && (c.recovering || !c.array || c.want != ','):
			lo := s.at
			if err = s.nested('{', 0, nil); err == nil {
				c.marks = append(c.marks, mark{lo, s.at, nil})
				c.want = ','
			}
		case of == '[' && (c.recovering || !c.array):
			c.array, c.want = true, 0
			s.at++
		case of == ',' && (c.recovering || c.array && c.want == ','):
			c.want = '{'
			s.at++
		case of == ']' && (c.recovering || c.array && c.want != '{'):
			c.array = false
			s.at++
		default:
			err = s.wrong("an object")
			if c.array && c.want == ',' {
				err = s.wrong("a comma or ]")
			}
		}
		switch {
		case err == nil:
			c.read(s.at)
		case !last && len(b)-s.at < jsonToken || !c.skip(b, s.at, last, err): // needs more text
			return c.pos
		}
	}
}

// skip skips bad text that begins at c.pos. at is the offset of the error. It returns false if it
// needs more text.
func (c *jsonCutter) skip(b []byte, at int, last bool, bad error) bool {
	end := at
	before := bytes.TrimRight(b[c.pos:at], " \t\r\n")
	begins := at < len(b) && b[at] == '{' && len(before) > 0 && (before[len(before)-1] == ',' || lineEnds(b[c.pos+len(before):at]) > 0)
	if !begins {
		closed := false
		if b[c.pos] == '{' {
			limit := at + maxRecovery - c.spent
			end, closed = closingBracket(b[:min(limit, len(b))], c.pos)
			if !closed && end == len(b) && !last {
				return false
			}
		}
		if !closed {
			stop := bytes.IndexAny(b[min(at+1, len(b)):], "{\r\n")
			if stop < 0 && !last {
				return false
			}
			c.spent += max(end-at, 0)
			end = len(b)
			if stop >= 0 {
				end = at + 1 + stop
			}
		}
	}
	c.recovering, c.want = true, ','
	c.marks = append(c.marks, mark{c.pos, c.pos + len(bytes.TrimRight(b[c.pos:end], " \t\r\n")), bad})
	c.read(end)
	return true
}

// closingBracket returns the offset after the bracket that closes the bracket at b[at]. If brackets
// do not match, or a string contains a line end, it returns the offset of the error and false.
func closingBracket(b []byte, at int) (end int, closed bool) {
	var open []byte
	for ; at < len(b); at++ {
		switch c := b[at]; c {
		case '{', '[':
			open = append(open, c+2)
		case '}', ']':
			if open[len(open)-1] != c {
				return at, false
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return at + 1, true
			}
		case '"':
			for at++; at < len(b) && b[at] != '"'; at++ {
				switch b[at] {
				case '\\':
					at++
				case '\n', '\r':
					return at, false
				}
			}
		}
	}
	return len(b), false
}

// objects yields the rows of a JSON block with their line numbers. Rows are the marks, or the lines
// if marks is nil. Offsets refer to buf.
func (b *block) objects() iter.Seq2[int, mark] {
	return func(yield func(int, mark) bool) {
		line, at := b.line, pad
		for _, m := range b.marks {
			m.lo, m.hi = m.lo+pad, m.hi+pad
			line += lineEnds(b.buf[at:m.lo])
			at = m.lo
			if !yield(line, m) {
				return
			}
		}
		if b.marks != nil {
			return
		}
		for text := range bytes.Lines(b.text()) {
			if !yield(line, mark{lo: at, hi: at + len(text)}) {
				return
			}
			at += len(text)
			line++
		}
	}
}
