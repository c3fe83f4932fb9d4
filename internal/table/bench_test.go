package table

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
)

// BenchmarkCSV parses a block of seven columns on one core.
func BenchmarkCSV(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, pad)
	for i := 0; len(text) < 8<<20; i++ {
		text = fmt.Appendf(text, "%d,%s,%d,%.2f,2026-%02d-%02d,user%06d,some note here\n", i*37, []string{"DE", "FR", "US"}[rng.IntN(3)],
			rng.IntN(1000), rng.Float64()*1000, 1+rng.IntN(12), 1+rng.IntN(28), rng.IntN(200_000))
	}
	text = append(text, make([]byte, pad)...)
	blk := &block{buf: text, line: 1, rows: bytes.Count(text, []byte{'\n'})}
	for name, columns := range map[string][]wanted{
		"none":    nil,
		"ints":    {{builder: builder{typ: column.Int64}, field: 0}, {builder: builder{typ: column.Int64}, field: 2}},
		"float":   {{builder: builder{typ: column.Float64}, field: 3}},
		"texts":   {{builder: builder{typ: column.Bytes}, field: 1}, {builder: builder{typ: column.Bytes}, field: 5}},
		"grouped": {{builder: builder{typ: column.Bytes}, field: 1}, {builder: builder{typ: column.Int64}, field: 2}, {builder: builder{typ: column.Float64}, field: 3}, {builder: builder{typ: column.Int64}, field: 0}},
	} {
		b.Run(name, func(b *testing.B) {
			p := newCSVParser("a", ',', 7, &Options{}, columns)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := p.parse(blk); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCut finds the ends of rows, quoted or not, on one core.
func BenchmarkCut(b *testing.B) {
	for name, row := range map[string]string{
		"plain": "%d,DE,%d,user%06d,some note here\n", "quoted": "\"%d\",\"DE\",\"%d\",\"user%06d\",\"some note here\"\n",
		"crlf": "%d,DE,%d,user%06d,some note here\r\n",
	} {
		var text []byte
		for i := 0; len(text) < 8<<20; i++ {
			text = fmt.Appendf(text, row, i*37, i%1000, i%77777)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				c := csvCutter{sep: ','}
				c.whole(text, false)
			}
		})
	}
}

// BenchmarkCutJSON finds the objects of an array on one core.
func BenchmarkCutJSON(b *testing.B) {
	text := []byte("[\n")
	for i := 0; len(text) < 8<<20; i++ {
		text = fmt.Appendf(text, "{\n  \"id\": %d,\n  \"country\": \"DE\",\n  \"price\": %d.5,\n  \"user\": \"user%06d\"\n},\n", i*37, i%1000, i%77777)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c := jsonCutter{}
		c.whole(text, false)
	}
}
