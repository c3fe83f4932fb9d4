package distinct

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/internal/arena"
)

func TestSpaces(t *testing.T) {
	for c := range 256 {
		for i := range 8 {
			for _, rest := range []uint64{0, ^uint64(0), 0x2020202020202020, 0x8989898989898989} {
				x := rest&^(0xff<<(8*i)) | uint64(c)<<(8*i)
				got := spaces(x)>>(8*i)&0xff == 0x80
				if want := strings.IndexByte(" \t\n\v\f\r", byte(c)) >= 0; got != want || isSpace(byte(c)) != want {
					t.Fatalf("byte %#x at %d of %#x: spaces %v, isSpace %v, want %v", c, i, x, got, isSpace(byte(c)), want)
				}
				if spaces(x)&^0x8080808080808080 != 0 {
					t.Fatalf("spaces(%#x) = %#x", x, spaces(x))
				}
			}
		}
	}
}

func TestParseSplitter(t *testing.T) {
	for _, s := range []string{"line", "word", "bytes:1", "bytes:16", "bytes:1073741824"} {
		by, err := ParseSplitter(s)
		if err != nil {
			t.Error(err)
		} else if by.String() != s {
			t.Errorf("%q reads as %q", s, by)
		}
	}
	for _, s := range []string{"", "lines", "bytes", "bytes:", "bytes:0", "bytes:-1", "bytes:x", "bytes:1073741825", "bytes:99999999999999999999"} {
		if by, err := ParseSplitter(s); err == nil {
			t.Errorf("%q reads as %q", s, by)
		}
	}
}

// splitAll returns the items of data, split in ranges of about step bytes.
func splitAll(by Splitter, data []byte, step int) (items []string) {
	padded := slices.Concat(data, []byte("\nx \n\t  y"))
	data = padded[:len(data)]
	spans := make([]span, 3)
	for lo := 0; lo < len(data); {
		hi := by.cut(data, min(lo+step, len(data)))
		for pos := lo; pos < hi; {
			n, next := by.split(data[:hi], pos, spans)
			for _, s := range spans[:n] {
				items = append(items, string(data[s.off:s.off+s.n]))
			}
			pos = next
		}
		lo = hi
	}
	return items
}

// However a stream is divided into pieces and ranges, its items are the same as with naive
// splitting.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("the cat\r\nthe dog\n\n"), uint8(0), uint16(3), uint8(4))
	f.Add([]byte("exactly8 exactly8\t1234567 123456789"), uint8(1), uint16(1), uint8(1))
	f.Add([]byte{0, 9, 10, 11, 12, 13, 14, 32, 0x80, 0x89, 0xa0, 0xff}, uint8(1), uint16(2), uint8(3))
	f.Add(bytes.Repeat([]byte("ab"), 50), uint8(7), uint16(5), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, kind uint8, size uint16, step uint8) {
		by := []Splitter{Lines, Words, records(max(int(kind), 1))}[kind%3]
		p := pieces{by: by, size: 1 + int(size), full: make(chan piece), empty: make(chan []byte, 2)}
		p.empty <- nil
		p.empty <- nil
		go p.run(context.Background(), bytes.NewReader(data))
		var got []string
		read := 0
		for x := range p.full {
			if x.err == io.EOF {
				break
			}
			if x.err != nil {
				t.Fatal(x.err)
			}
			got = append(got, splitAll(by, x.data, 1+int(step))...)
			read += len(x.data)
			p.empty <- x.data
		}
		if read != len(data) {
			t.Errorf("pieces have %d bytes of %d", read, len(data))
		}
		if want := naiveSplit(by, string(data)); !slices.Equal(got, want) {
			t.Errorf("by %v: got %q, want %q", by, got, want)
		}
	})
}

// The words and keys of items are the same as in package arena.
func TestKeys(t *testing.T) {
	h := arena.NewHasher()
	for _, item := range []string{"", "\x00", "a", "a\x00", "ab", "abc", "1234", "1234567", "12345678"} {
		padded := []byte(item + "garbage!")
		s := span{0, len(item)}
		if got := key(&h, padded, s); got != h.Key([]byte(item)) {
			t.Errorf("%q has another key", item)
		}
		if len(item) <= arena.MaxShort && pack(padded, s) != arena.Pack([]byte(item)) {
			t.Errorf("%q has another word", item)
		}
	}
}
