package compress

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// Text converts text to UTF-8. It transcodes UTF-16 with a byte order mark, and removes the byte
// order mark of UTF-8. It returns an error for UTF-32, for Latin text in UTF-16 without a mark, and
// for incomplete characters of UTF-16. Other bytes are unchanged.
func Text(b *bufio.Reader) (*bufio.Reader, error) {
	head, err := b.Peek(64)
	if err != nil && err != io.EOF {
		return nil, err
	}
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		_, err := b.Discard(3)
		return b, err
	case bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(head, []byte("\x00\x00\xfe\xff")):
		return nil, errors.New("UTF-32, which is not supported; use iconv -f UTF-32 -t UTF-8 FILE | weft … -")
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return b, unmarked(head)
	}
	if _, err := b.Discard(2); err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(&utf16Reader{b: b, order: order, at: 2}, 1<<16), nil
}

// unmarked returns an error if every other byte is zero, as in Latin text in UTF-16.
func unmarked(head []byte) error {
	var zeros [2]int
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	half := len(head) / 2
	for odd, of := range []string{"UTF-16BE", "UTF-16LE"} {
		if half > 1 && zeros[odd] >= half && zeros[1-odd] == 0 {
			return fmt.Errorf("every other byte is zero: %s without a byte order mark? iconv -f %s -t UTF-8 FILE | weft … -", of, of)
		}
	}
	return nil
}

type utf16Reader struct {
	b     *bufio.Reader
	order binary.ByteOrder
	at    int64 // offset in b
	text  []byte
}

func (r *utf16Reader) Read(p []byte) (int, error) {
	for len(r.text) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.text)
	r.text = r.text[n:]
	return n, nil
}

// fill transcodes the buffered bytes of b, but at least one character.
func (r *utf16Reader) fill() error {
	half, err := r.b.Peek(2)
	switch {
	case err == io.EOF && len(half) == 1:
		return fmt.Errorf("UTF-16: half a character at the end, byte %d", r.at)
	case err != nil:
		return err
	}
	in, _ := r.b.Peek(r.b.Buffered()) // buffered bytes
	r.text = r.text[:0]
	n := 0
	for n+1 < len(in) {
		c, size := rune(r.order.Uint16(in[n:])), 2
		if utf16.IsSurrogate(c) {
			if n+3 >= len(in) && n == 0 {
				if in, err = r.b.Peek(4); err != nil && err != io.EOF {
					return err
				}
			}
			if n+3 >= len(in) && n > 0 {
				break
			}
			low := rune(0)
			if n+3 < len(in) {
				low = rune(r.order.Uint16(in[n+2:]))
			}
			if c = utf16.DecodeRune(c, low); c == utf8.RuneError && n == 0 {
				return fmt.Errorf("UTF-16: half of a surrogate pair at byte %d", r.at)
			} else if c == utf8.RuneError {
				break // return the preceding text first
			}
			size = 4
		}
		r.text = utf8.AppendRune(r.text, c)
		n += size
	}
	r.at += int64(n)
	_, err = r.b.Discard(n)
	return err
}
