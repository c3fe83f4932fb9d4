package distinct

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// pad is the number of bytes that must be readable after a piece, so that eight bytes can be loaded
// at any of its offsets.
const pad = 8

// span is an item: n bytes from offset off in a piece.
type span struct{ off, n int }

// Splitter defines the items of a stream. [Lines], [Words] and the results of [Records] implement
// it.
type Splitter interface {
	// String returns the splitter's form that [ParseSplitter] parses.
	String() string

	// whole returns the length of the whole items at the start of b, regardless of the bytes that
	// may follow b. The caller asserts that no item ends before the offset from.
	whole(b []byte, from int) int
	// cut returns the smallest offset not below at that is not inside an item, or len(b).
	cut(b []byte, at int) int
	// split stores the items of b from offset pos, until spans is full or b ends. It returns their
	// number and the offset to continue at. b must end with a whole item, and pad bytes after it
	// must be readable.
	split(b []byte, pos int, spans []span) (n, next int)
}

// The splitters without parameters.
var (
	// Lines end with \n, which is not part of the item. A \r is part of the item, unless a lone \r
	// ends the first line of the stream. Then \r and \r\n end lines, too. The last line needs no
	// line end. Empty lines are items.
	Lines Splitter = lines{}
	// Words are sequences of bytes other than ASCII white space: space, \t, \n, \v, \f and \r.
	Words Splitter = words{}
)

// MaxRecord is the maximum size of a record in bytes.
const MaxRecord = 1 << 30

// Records returns a splitter into records of size bytes, 1 to [MaxRecord]. The last record of a
// stream may be shorter.
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

// spaces sets the top bit of each byte of the result that is white space in x. No sum carries into
// the next byte, because all operands are below 0x80.
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
