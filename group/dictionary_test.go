package group

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/intern"
	"github.com/weftgo/weft/internal/rowkey"
)

// Strings of all lengths around maxRecent have distinct numbers, even if they differ only in zeros
// at their end. This holds for every form of a column and across batches. Null has number 0.
func TestDictionary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := func(few int) []byte {
		b := make([]byte, rng.IntN(maxRecent+4))
		for i := range b {
			b[i] = byte(rng.IntN(few))
		}
		return b
	}
	forms := map[string]func(texts [][]byte) column.Column{
		"strings": func(texts [][]byte) column.Column {
			var s []string
			for _, b := range texts {
				s = append(s, string(b))
			}
			return column.OfStrings(s)
		},
		"offsets of 32 bits": func(texts [][]byte) column.Column { return offsetsOf[int32](t, texts) },
		"offsets of 64 bits": func(texts [][]byte) column.Column { return offsetsOf[int64](t, texts) },
	}
	for name, form := range forms {
		for _, cores := range []int{1, 3} {
			for _, few := range []int{2, 200} { // most texts repeat, or few
				t.Run(fmt.Sprintf("%s, %d cores, %d", name, cores, few), func(t *testing.T) {
					dev := open(t, cores)
					table, err := intern.New(dev, nil)
					must(t, err)
					defer table.Close()
					d := &dictionary{table: table, cores: cores}
					want := make(map[string]uint32)
					for _, n := range []int{1, 0, 70_000, 20_000} {
						texts := make([][]byte, n)
						for i := range texts {
							texts[i] = text(few)
						}
						c := form(texts)
						if n == 20_000 {
							c = someNulls(rng, c)
						}
						checkNumbers(t, d, c, texts, want)
					}
				})
			}
		}
	}
}

// checkNumbers compares the numbers of texts with the map want, and adds new numbers to it.
func checkNumbers(t *testing.T, d *dictionary, c column.Column, texts [][]byte, want map[string]uint32) {
	t.Helper()
	ids, done, err := d.assignNumbers(t.Context(), open(t, 2), c)
	if err != nil || done != len(texts) {
		t.Fatalf("%d of %d rows: %v", done, len(texts), err)
	}
	for i, b := range texts {
		number, known := want[string(b)]
		switch {
		case c.Null(i):
			number = 0
		case !known:
			number = ids[i]
			want[string(b)] = number
		}
		if ids[i] != number || number > 0 && !bytes.Equal(d.table.At(number-1), b) {
			t.Fatalf("row %d, %q, has number %d, want %d", i, b, ids[i], number)
		}
	}
}

// offsetsOf returns a column in Arrow's layout, with no bytes after its last values.
func offsetsOf[O int32 | int64](t *testing.T, texts [][]byte) column.Column {
	offsets, data := make([]O, 1), bytes.Join(texts, nil)
	for _, b := range texts {
		offsets = append(offsets, offsets[len(offsets)-1]+O(len(b)))
	}
	c, err := column.OfOffsets(offsets, data[:len(data):len(data)])
	must(t, err)
	return c
}

// Memory bounds the caches, on any number of cores.
func TestDictionaryMemory(t *testing.T) {
	const n = 70 * directRows
	rng := rand.New(rand.NewPCG(3, 4))
	keys := []column.Column{random(rng, column.Bytes, n, 100), random(rng, column.Bytes, n, 100)}
	for memory, want := range map[int64]int{0: 64, MinMemory: 2, MinMemory * 16: 42} {
		g := create(t, open(t, 64), nil, &Options{Memory: memory})
		must(t, g.Add(t.Context(), keys, nil))
		for i, d := range g.interner.dictionaries {
			if d.cores != want || len(d.recent) == 0 || len(d.recent) > want {
				t.Errorf("Memory %d: %d of %d cores remember strings of column %d, want %d",
					memory, len(d.recent), d.cores, i, want)
			}
		}
	}
}

// Bytes after the end of a column are not read, because another goroutine may write them.
func TestBytesAfterColumn(t *testing.T) {
	data := []byte("abcabcd and what comes after them")
	small, err := column.OfOffsets([]int32{0, 3, 7}, data[:7])
	must(t, err)
	large, err := column.OfOffsets([]int64{0, 3, 7}, data[:7])
	must(t, err)
	wide, err := column.OfWidth(4, data[:8])
	must(t, err)
	for i, c := range []column.Column{small, large, wide} {
		var texts [2][]byte
		rowkey.Texts(c, 0, texts[:])
		if want := []string{"abcd", "abcd", "bcd "}[i]; string(texts[1]) != want || cap(texts[1]) != 4 {
			t.Errorf("%q: %d bytes may be read", texts[1], cap(texts[1]))
		}
	}
}

// A short string consists of its bytes and its length, independent of the bytes after it.
func TestShortened(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for n := range maxRecent + 1 {
		for _, after := range []int{0, 1, 30} {
			b := make([]byte, n+after)
			for i := range b {
				b[i] = byte(1 + rng.IntN(255))
			}
			var bytes [maxRecent]byte
			copy(bytes[:], b[:n])
			want := recentString{binary.LittleEndian.Uint64(bytes[:]), binary.LittleEndian.Uint64(bytes[8:]), uint32(n + 1), 0}
			if s := newRecentString(b[:n]); s != want {
				t.Errorf("%q before %q is %x, want %x", b[:n], b[n:], s, want)
			}
		}
	}
}

// A cached string matches no other string, even one in the same place that differs only in zeros.
func TestRecentLengths(t *testing.T) {
	tried := 0
	for i := uint32(1); tried < 10; i++ {
		b := binary.LittleEndian.AppendUint32(nil, i)
		short, long := newRecentString(b), newRecentString(append(b, 0))
		if short.place()|1 != long.place()|1 {
			continue
		}
		tried++
		recent := new([recentStrings]recentString)
		short.number = 7
		short.insert(recent)
		if a, b := short.find(recent), long.find(recent); a != 7 || b != 0 {
			t.Fatalf("%x has number %d, and with a zero more %d", i, a, b)
		}
	}
}
