package distinct

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// pad is the number of bytes that must be readable after the end of a piece,
// so that eight bytes can be loaded at any of its offsets.
const pad = 8

// span is an item: n bytes from offset off of a piece.
type span struct{ off, n int }

// Splitter defines the items of a stream. Its values are [Lines], [Words] and the results of
// [Records].
type Splitter interface {
	// String is the form that [ParseSplitter] reads.
	String() string

	// whole returns the number of bytes at the front of b that form whole items even if more bytes
	// follow b. Nothing before offset from ends an item.
	whole(b []byte, from int) int
	// cut returns the first offset from at on where b can be cut without cutting an item, or
	// len(b).
	cut(b []byte, at int) int
	// split stores the items of b, from offset pos on, until spans is full or b ends. It returns
	// their number and the next offset. b ends with a whole item and has pad readable bytes after
	// it.
	split(b []byte, pos int, spans []span) (n, next int)
}

// The splitters without parameters.
var (
	// Lines end with \n, which is not part of them. \r is part of them, unless a lone \r ends the
	// first line: then \r and \r\n end lines, too. The last line needs no end. Empty lines are
	// items.
	Lines Splitter = lines{}
	// Words are runs of bytes other than ASCII white space: space, \t, \n,
	// \v, \f and \r.
	Words Splitter = words{}
)

// MaxRecord is the size of the largest records, in bytes.
const MaxRecord = 1 << 30

// Records returns the splitter into records of size bytes, 1 to [MaxRecord]. A shorter rest at the
// end of a stream is an item, too.
func Records(size int) (Splitter, error) {
	if size < 1 || size > MaxRecord {
		return nil, fmt.Errorf("records of %d bytes: want 1 to %d", size, MaxRecord)
	}
	return records(size), nil
}

// ParseSplitter parses "line", "word" or "bytes:N".
func ParseSplitter(s string) (Splitter, error) {
	switch s {
	case "line":
		return Lines, nil
	case "word":
		return Words, nil
	}
	if size, ok := strings.CutPrefix(s, "bytes:"); ok {
		n, err := strconv.Atoi(size)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number of bytes", size)
		}
		return Records(n)
	}
	return nil, fmt.Errorf("%q: want line, word or bytes:N", s)
}

type lines struct{}

func (lines) String() string { return "line" }

func (lines) whole(b []byte, from int) int {
	if i := bytes.LastIndexByte(b[from:], '\n'); i >= 0 {
		return from + i + 1
	}
	return 0
}

func (lines) cut(b []byte, at int) int {
	if i := bytes.IndexByte(b[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(b)
}

func (lines) split(b []byte, pos int, spans []span) (int, int) {
	n := 0
	for n < len(spans) && pos < len(b) {
		end := bytes.IndexByte(b[pos:], '\n')
		if end < 0 {
			end = len(b) - pos
		}
		spans[n] = span{pos, end}
		n++
		pos += end + 1
	}
	return n, pos
}

type words struct{}

func (words) String() string { return "word" }

func isSpace(c byte) bool { return c == ' ' || c-'\t' < 5 }

// spaces sets the top bit of each byte of the result where x has white space.
// No sum carries into the next byte, since its operands are below 0x80.
func spaces(x uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	low := x &^ tops
	fromTab := low + (0x80-'\t')*ones
	pastCR := low + (0x80-('\r'+1))*ones
	notSpace := (low ^ ' '*ones) + 0x7f*ones
	return (fromTab&^pastCR | ^notSpace) &^ x & tops
}

func (words) whole(b []byte, from int) int {
	for i := len(b); i > from; i-- {
		if isSpace(b[i-1]) {
			return i
		}
	}
	return 0
}

func (words) cut(b []byte, at int) int {
	for ; at < len(b); at++ {
		if isSpace(b[at]) {
			return at + 1
		}
	}
	return at
}

func (words) split(b []byte, pos int, spans []span) (int, int) {
	padded := b[:len(b)+pad]
	n := 0
	for n < len(spans) {
		for pos < len(b) && isSpace(b[pos]) {
			pos++
		}
		if pos >= len(b) {
			break
		}
		end := pos
		for {
			if m := spaces(binary.LittleEndian.Uint64(padded[end:])); m != 0 {
				end += bits.TrailingZeros64(m) / 8
				break
			}
			end += 8
			if end >= len(b) {
				break
			}
		}
		// Bytes after b belong to the padding or to another range.
		end = min(end, len(b))
		spans[n] = span{pos, end - pos}
		n++
		pos = end + 1
	}
	return n, min(pos, len(b))
}

type records int

func (r records) String() string { return "bytes:" + strconv.Itoa(int(r)) }

func (r records) whole(b []byte, _ int) int { return len(b) - len(b)%int(r) }

func (r records) cut(b []byte, at int) int {
	return min((at+int(r)-1)/int(r)*int(r), len(b))
}

func (r records) split(b []byte, pos int, spans []span) (int, int) {
	n := 0
	for n < len(spans) && pos < len(b) {
		size := min(int(r), len(b)-pos)
		spans[n] = span{pos, size}
		n++
		pos += size
	}
	return n, pos
}
