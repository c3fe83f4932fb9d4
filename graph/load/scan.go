package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strconv"
)

const (
	// maxLine is the maximum length of a line with one edge. maxRow is the maximum length of a line
	// with all edges of a vertex.
	maxLine = 1 << 20
	maxRow  = 1 << 30
	// headSize is the number of bytes used to detect the format.
	headSize = 64 << 10
	// linesPerCheck is the number of lines between two checks of the context.
	linesPerCheck = 4096
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// scanner reads lines and counts them.
type scanner struct {
	ctx      context.Context
	r        io.Reader
	buf      []byte
	from, to int // part of buf that has not been returned
	line     int // number of the last line returned
	maxLen   int // maximum length of a line
	end      byte
	err      error
	ended    bool
}

func newScanner(ctx context.Context, r io.Reader) *scanner {
	s := &scanner{ctx: ctx, r: r, buf: make([]byte, headSize), maxLen: maxLine, end: '\n'}
	for s.to < len(s.buf) && !s.ended {
		s.fill()
	}
	if bytes.HasPrefix(s.buf[:s.to], byteOrderMark) {
		s.from = len(byteOrderMark)
	}
	if i := bytes.IndexAny(s.peek(), "\r\n"); i >= 0 && s.peek()[i] == '\r' && !bytes.HasPrefix(s.peek()[i+1:], []byte("\n")) {
		s.end = '\r' // the line end that old spreadsheets write
	}
	return s
}

// peek returns the beginning of the file, before the first line is read.
func (s *scanner) peek() []byte { return s.buf[s.from:s.to] }

// fill reads bytes into the free part of buf, which must not be empty.
func (s *scanner) fill() {
	for range 100 { // readers may return neither bytes nor an error
		n, err := s.r.Read(s.buf[s.to:])
		s.to += n
		if err != nil {
			s.ended = true
			if err != io.EOF {
				s.err = err
			}
		}
		if n > 0 || err != nil {
			return
		}
	}
	s.ended, s.err = true, io.ErrNoProgress
}

// next returns the next line without its end. The line is valid until the next call. next returns
// false at the end of the file or after an error, which is in s.err.
func (s *scanner) next() ([]byte, bool) {
	scanned := 0
	for {
		if i := bytes.IndexByte(s.buf[s.from+scanned:s.to], s.end); i >= 0 {
			line := s.buf[s.from : s.from+scanned+i]
			s.from += scanned + i + 1
			return s.accept(line)
		}
		scanned = s.to - s.from
		if s.ended {
			break
		}
		if scanned > s.maxLen { // refuse the line before allocating more memory
			return s.accept(s.buf[s.from:s.to])
		}
		s.growBuffer()
		s.fill()
	}
	if scanned == 0 || s.err != nil {
		if s.err != nil && !errors.Is(s.err, s.ctx.Err()) {
			s.line++
		}
		return nil, false
	}
	line := s.buf[s.from:s.to]
	s.from = s.to
	return s.accept(line)
}

// growBuffer makes free space in buf: it moves the unreturned part to the beginning, and doubles a
// full buffer.
func (s *scanner) growBuffer() {
	if s.from > 0 {
		s.to = copy(s.buf, s.buf[s.from:s.to])
		s.from = 0
	}
	if s.to == len(s.buf) {
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
}

func (s *scanner) accept(line []byte) ([]byte, bool) {
	s.line++
	if s.line%linesPerCheck == 0 && s.ctx.Err() != nil {
		s.err = s.ctx.Err()
		return nil, false
	}
	if len(line) > s.maxLen {
		s.err = malformed("the line is longer than %d bytes", s.maxLen)
		return nil, false
	}
	if s.end == '\n' {
		line = bytes.TrimSuffix(line, []byte("\r"))
	}
	if bytes.IndexByte(line, '\r'+'\n'-s.end) >= 0 {
		s.err = malformed("lines end in several ways: a carriage return alone, and line feeds")
		return nil, false
	}
	return line, true
}

// nextData returns the next line that is not empty and does not begin with a comment character.
func (s *scanner) nextData(comments string) ([]byte, bool) {
	for {
		line, ok := s.next()
		if !ok {
			return nil, false
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && bytes.IndexByte([]byte(comments), line[0]) < 0 {
			return line, true
		}
	}
}

// word splits the first word off a line.
func word(line []byte) (first, rest []byte) {
	i := 0
	for i < len(line) && isSpace(line[i]) {
		i++
	}
	j := i
	for j < len(line) && !isSpace(line[j]) {
		j++
	}
	return line[i:j], line[j:]
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' }

// words splits a line into words. It reuses the memory of into.
func words(line []byte, into [][]byte) [][]byte {
	into = into[:0]
	for {
		var w []byte
		if w, line = word(line); len(w) == 0 {
			return into
		}
		into = append(into, w)
	}
}

// number parses a decimal number without a sign.
func number(word []byte) (n uint64, ok bool) {
	for _, c := range word {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = 10*n + d
	}
	return n, len(word) > 0
}

// count parses a count. Its error contains the given name of the counted things.
func count(word []byte, of string) (int, error) {
	n, ok := number(word)
	if !ok || n > math.MaxInt64 {
		return 0, malformed("%.40q is not a number of %s", word, of)
	}
	return int(n), nil
}

// maxExact is the largest integer up to which float64 stores all integers exactly.
const maxExact = 1 << 53

// weight parses a decimal number. It returns an error if float64 cannot represent an integer
// exactly, or if a value overflows or underflows.
func weight(word []byte) (float64, error) {
	digits, negative := bytes.CutPrefix(word, []byte("-"))
	if n, ok := number(digits); ok && n <= maxExact {
		if negative {
			return -float64(n), nil
		}
		return float64(n), nil
	}
	x, err := strconv.ParseFloat(string(word), 64)
	switch {
	// 0x1p4 and Inf are not weights either.
	case err != nil && !errors.Is(err, strconv.ErrRange), math.IsNaN(x), bytes.ContainsAny(word,
		"_xXiI"):
		return 0, malformed("weight %.40q is not a number", word)
	case math.IsInf(x, 0), math.Abs(x) >= maxExact && isInteger(word), x == 0 && !isZero(word):
		return 0, malformed("weight %.40q cannot be stored exactly as a 64-bit float", word)
	}
	return x, nil
}

// isZero reports whether a number is written as 0, and not merely too small for float64.
func isZero(word []byte) bool {
	mantissa, _, _ := bytes.Cut(bytes.ToLower(word), []byte("e"))
	return !bytes.ContainsAny(mantissa, "123456789")
}

// isInteger reports whether a number is written as an integer.
func isInteger(word []byte) bool { return !bytes.ContainsAny(word, ".eExXpP") }
