package distinct

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/weftgo/weft/internal/arena"
)

// benchText returns the file that WEFT_BENCH_TEXT names, or words with the frequencies of natural
// text.
func benchText(b *testing.B) []byte {
	if name := os.Getenv("WEFT_BENCH_TEXT"); name != "" {
		s, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	return text(rand.New(rand.NewPCG(11, 12)), 1_000_000, 64<<20)
}

func BenchmarkWords(b *testing.B) {
	s := benchText(b)
	b.Run("counter", func(b *testing.B) {
		b.SetBytes(int64(len(s)))
		for b.Loop() {
			c := open(b, Words, nil, arena.NewHasher())
			if err := c.Read(b.Context(), bytes.NewReader(s)); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(c.groups.Len()), "distinct")
			b.ReportMetric(float64(c.Totals().Items), "items")
		}
	})
	b.Run("go map", func(b *testing.B) {
		b.SetBytes(int64(len(s)))
		for b.Loop() {
			m := make(map[string]*int)
			in := bufio.NewScanner(bytes.NewReader(s))
			in.Buffer(nil, len(s))
			in.Split(bufio.ScanWords)
			for in.Scan() {
				if n := m[string(in.Bytes())]; n != nil {
					*n++
				} else {
					n := 1
					m[in.Text()] = &n
				}
			}
			if in.Err() != nil {
				b.Fatal(in.Err())
			}
		}
	})
}

func BenchmarkRecords(b *testing.B) {
	s := make([]byte, 64<<20)
	rng := rand.New(rand.NewPCG(13, 14))
	for i := range s {
		s[i] = byte(rng.Uint32())
		if i%8 >= 3 { // 16 M values
			s[i] = 0
		}
	}
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		c := open(b, records(8), nil, arena.NewHasher())
		if err := c.Read(b.Context(), bytes.NewReader(s)); err != nil {
			b.Fatal(err)
		}
	}
}
