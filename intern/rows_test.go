package intern

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// text returns a row as text, which is the same for rows that are the same key.
func text(cols []column.Column, i int) string {
	s := ""
	for _, c := range cols {
		switch v := c.Any(i).(type) {
		case float64:
			s += fmt.Sprintf("%v,", v+0) // -0 + 0 is 0
		case string:
			s += fmt.Sprintf("%q,", v)
		default:
			s += fmt.Sprintf("%v,", v)
		}
	}
	return s
}

func texts(cols []column.Column, n int) (s []string) {
	for i := range n {
		s = append(s, text(cols, i))
	}
	return s
}

// shapes holds columns for all kinds of tables: rows that are words, with null in the word or not,
// rows of one width, and rows of any width.
var shapes = map[string]func(rng *rand.Rand, n, domain int) []column.Column{
	"int64": func(rng *rand.Rand, n, domain int) []column.Column {
		return []column.Column{numbers[int64](rng, n, domain, false)}
	},
	"int64 with nulls": func(rng *rand.Rand, n, domain int) []column.Column {
		return []column.Column{numbers[int64](rng, n, domain, true)}
	},
	"float64 with nulls": func(rng *rand.Rand, n, domain int) []column.Column {
		special := []float64{0, math.Copysign(0, -1), math.NaN(), math.Float64frombits(0xfff8000000000123), math.Inf(-1)}
		values := make([]float64, n)
		for i := range values {
			if k := rng.IntN(domain); k < len(special) {
				values[i] = special[k]
			} else {
				values[i] = float64(k)
			}
		}
		return []column.Column{withNulls(rng, column.Of(values))}
	},
	"words": func(rng *rand.Rand, n, domain int) []column.Column {
		return []column.Column{numbers[int32](rng, n, domain, true), numbers[uint16](rng, n, 3, false), numbers[int8](rng, n, 3, true)}
	},
	"one width": func(rng *rand.Rand, n, domain int) []column.Column {
		return []column.Column{numbers[int64](rng, n, domain, true), numbers[int32](rng, n, 3, true)}
	},
	"strings": func(rng *rand.Rand, n, domain int) []column.Column {
		return []column.Column{withNulls(rng, column.OfStrings(stringsOf(rng, n, domain)))}
	},
	"strings of one width": func(rng *rand.Rand, n, domain int) []column.Column {
		data := make([]byte, 0, 9*n)
		for range n {
			data = fmt.Appendf(data, "%09d", rng.IntN(domain))
		}
		return []column.Column{withNulls(rng, must(column.OfWidth(9, data)))}
	},
	"mixed": func(rng *rand.Rand, n, domain int) []column.Column {
		return []column.Column{column.OfStrings(stringsOf(rng, n, domain)), numbers[int16](rng, n, 3, true), withNulls(rng, column.OfStrings(stringsOf(rng, n, 4)))}
	},
}

func numbers[T column.Fixed](rng *rand.Rand, n, domain int, nulls bool) column.Column {
	raw := make([]byte, 8*n)
	c := column.Of(make([]T, n))
	out := c.Raw()
	for i := range n {
		raw[0], raw[1], raw[2] = byte(rng.IntN(domain)), byte(rng.IntN(domain)>>8), byte(rng.IntN(domain)>>16)
		copy(out[i*c.Width():(i+1)*c.Width()], raw[:3])
	}
	if nulls {
		c = withNulls(rng, c)
	}
	return c
}

func withNulls(rng *rand.Rand, c column.Column) column.Column {
	valid := make([]bool, c.Len())
	often := rng.IntN(4)
	for i := range valid {
		valid[i] = rng.IntN(4) >= often
	}
	return c.WithValid(column.OfBools(valid))
}

func stringsOf(rng *rand.Rand, n, domain int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprintf("%*d", rng.IntN(20), rng.IntN(domain))[1:]
	}
	return s
}

// checkRows adds and finds rows, and compares the results with the model.
func checkRows(t fataler, table *Table, m *model, cols []column.Column) {
	t.Helper()
	n := cols[0].Len()
	batch, ids, found := texts(cols, n), make([]uint32, n), make([]bool, n)
	hits, err := table.FindRows(ctx, cols, ids, found)
	m.checkFound(t, batch, ids, found, hits, err)
	added, err := table.Rows(ctx, cols, ids)
	want, fresh := m.add(batch)
	if err != nil || added != fresh {
		t.Fatalf("%d added, %v, want %d", added, err, fresh)
	}
	for i := range ids {
		if ids[i] != want[i] {
			t.Fatalf("row %d, %s: id %d, want %d", i, batch[i], ids[i], want[i])
		}
	}
}

// agreeRows compares the keys of a table of rows with the model.
func (m *model) agreeRows(t fataler, table *Table) {
	t.Helper()
	if table.Len() != len(m.keys) {
		t.Fatalf("%d keys, want %d", table.Len(), len(m.keys))
	}
	lo := len(m.keys) / 3
	for i, got := range texts(table.Columns(lo, len(m.keys)), len(m.keys)-lo) {
		if got != m.keys[lo+i] {
			t.Fatalf("key %d is %s, want %s", lo+i, got, m.keys[lo+i])
		}
	}
}

// Rows of any types get ids in the order of first appearance, and can be saved and loaded. Chunks
// and batches end anywhere, with and without collisions.
func TestRowsOfAllShapes(t *testing.T) {
	dev := devicetest.Open(t)
	for name, shape := range shapes {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			table, err := newTable(dev, &Options{OffHeap: rapid.Bool().Draw(t, "off heap")},
				weak(rapid.SampledFrom([]int{0, 2}).Draw(t, "bits")))
			if err != nil {
				t.Fatal(err)
			}
			defer table.Close()
			table.chunk = rapid.SampledFrom([]int{1, 3, 10, chunkRows}).Draw(t, "chunk")
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			m := newModel()
			for range 3 {
				checkRows(t, table, m, shape(rng, rapid.IntRange(1, 60).Draw(t, "rows"), rapid.SampledFrom([]int{1, 5, 70}).Draw(t, "domain")))
			}
			m.agreeRows(t, table)
			loaded := reload(t, dev, table)
			defer loaded.Close()
			m.agreeRows(t, loaded)
			checkRows(t, loaded, m, shape(rng, 20, 100))
		}))
	}
}

// Batches that are distributed to parts.
func TestManyRowsOfAllShapes(t *testing.T) {
	dev := devicetest.Open(t)
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			table, m := open(t, dev, 0, nil), newModel()
			table.chunk = 17_000
			rng := rand.New(rand.NewPCG(5, 6))
			for _, n := range []int{5, 25_000, 100, 15_000} {
				checkRows(t, table, m, shape(rng, n, 1<<16))
			}
			m.agreeRows(t, table)
		})
	}
}

// reload saves a table and loads the stream.
func reload(t fataler, dev device.Device, table *Table) *Table {
	t.Helper()
	var file bytes.Buffer
	n, err := table.Save(ctx, &file)
	if err != nil || n != table.Len() {
		t.Fatalf("%d keys saved, %v, of %d", n, err, table.Len())
	}
	file.WriteString("more")
	loaded, err := Load(ctx, dev, &file, &Options{OffHeap: rand.IntN(2) == 0})
	if err != nil {
		t.Fatal(err)
	}
	if file.String() != "more" {
		t.Fatalf("%d bytes are left", file.Len())
	}
	return loaded
}
