package intern

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/arena"
	"github.com/weftgo/weft/internal/op"
)

// fataler is implemented by tests and by properties.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// open makes a table. If bits is not 0, its hashes have bits bits.
func open(t testing.TB, dev device.Device, bits int, opts *Options) *Table {
	t.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	o.OffHeap = rand.IntN(2) == 0
	table, err := newTable(dev, &o, weak(bits))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	return table
}

// weak returns a hasher under which most long items collide.
func weak(bits int) arena.Hasher {
	h := arena.NewHasher()
	if strong := h.Hash; bits > 0 {
		h.Hash = func(item []byte) uint64 { return strong(item) & (1<<bits - 1) }
	}
	return h
}

// model is the expected behavior of a table.
type model struct {
	ids  map[string]uint32
	keys []string
}

func newModel() *model { return &model{ids: make(map[string]uint32)} }

func (m *model) add(s []string) (ids []uint32, added int) {
	before := len(m.keys)
	for _, k := range s {
		id, ok := m.ids[k]
		if !ok {
			id = uint32(len(m.keys))
			m.ids[k] = id
			m.keys = append(m.keys, k)
		}
		ids = append(ids, id)
	}
	return ids, len(m.keys) - before
}

// check compares a table with the model of the same keys.
func (m *model) check(t fataler, table *Table) {
	t.Helper()
	if table.Len() != len(m.keys) {
		t.Fatalf("%d keys, want %d", table.Len(), len(m.keys))
	}
	all := table.Keys(0, table.Len())
	ids, gathered := make([]uint32, len(m.keys)+1), make([][]byte, len(m.keys)+1)
	for i := range ids {
		ids[i] = uint32(len(m.keys) - i) // the first has no key
	}
	if table.Gather(ids, gathered); gathered[0] != nil {
		t.Fatalf("an id without a key has %q", gathered[0])
	}
	for i, want := range m.keys {
		if got := gathered[len(m.keys)-i]; string(got) != want {
			t.Fatalf("key %d is %.40q among others, want %.40q", i, got, want)
		}
	}
	for id, want := range m.keys {
		if got := string(table.At(uint32(id))); got != want || string(all.Bytes(id)) != want {
			t.Fatalf("key %d is %.40q, and %.40q in a column, want %.40q", id, got, all.Bytes(id), want)
		}
	}
}

var ctx = context.Background()

// addAs adds strings in one of the forms of a batch.
func addAs(table *Table, form int, s []string, ids []uint32) (int, error) {
	switch form {
	case 0:
		return table.Strings(ctx, s, ids)
	case 1:
		return table.Bytes(ctx, slicesOf(s), ids)
	default:
		return table.Column(ctx, columnOf(form, s), ids)
	}
}

func findAs(table *Table, form int, s []string, ids []uint32, found []bool) (int, error) {
	switch form {
	case 0:
		return table.FindStrings(ctx, s, ids, found)
	case 1:
		return table.FindBytes(ctx, slicesOf(s), ids, found)
	default:
		return table.FindColumn(ctx, columnOf(form, s), ids, found)
	}
}

func slicesOf(s []string) (b [][]byte) {
	for _, k := range s {
		b = append(b, []byte(k))
	}
	return b
}

// columnOf returns strings as a column: with 32-bit or 64-bit offsets, or with one width.
func columnOf(form int, s []string) column.Column {
	data, small, large := []byte("before"), []int32{6}, []int64{6}
	same := len(s) > 0 && len(s[0]) > 0
	for _, k := range s {
		data = append(data, k...)
		small, large = append(small, int32(len(data))), append(large, int64(len(data)))
		same = same && len(k) == len(s[0])
	}
	switch {
	case form == 4 && same:
		return must(column.OfWidth(len(s[0]), data[6:]))
	case form == 3:
		return must(column.OfOffsets(large, data))
	}
	return must(column.OfOffsets(small, data))
}

const forms = 5

// A table agrees with a Go map, in all forms of batches, with or without hash collisions.
func TestStrings(t *testing.T) {
	dev := devicetest.Open(t)
	alphabet := []string{"", "\x00", "\x00\x00", "a", "1234567", "12345678", "12345679", "é\xff\xfe", strings.Repeat("long ", 100),
		strings.Repeat("long ", 100) + "er", strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20) + "y"}
	for i := range 60 {
		alphabet = append(alphabet, fmt.Sprint(i), fmt.Sprintf("number %d of many", i), fmt.Sprintf("sixteen bytes%3d", i))
	}
	rapid.Check(t, func(t *rapid.T) {
		table, err := newTable(dev, &Options{OffHeap: rapid.Bool().Draw(t, "off heap")},
			weak(rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "bits")))
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		m := newModel()
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			batch := rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 200).Draw(t, "batch")
			form := rapid.IntRange(0, forms-1).Draw(t, "form")
			ids, found := make([]uint32, len(batch)), make([]bool, len(batch))
			hits, err := findAs(table, form, batch, ids, found)
			m.checkFound(t, batch, ids, found, hits, err)
			added, err := addAs(table, form, batch, ids)
			want, fresh := m.add(batch)
			if err != nil || added != fresh {
				t.Fatalf("%d added, %v, want %d", added, err, fresh)
			}
			for i := range ids {
				if ids[i] != want[i] {
					t.Fatalf("row %d: id %d, want %d", i, ids[i], want[i])
				}
			}
		}
		m.check(t, table)
		loaded := reload(t, dev, table)
		defer loaded.Close()
		m.check(t, loaded)
	})
}

// checkFound compares the results of a lookup with the model.
func (m *model) checkFound(t fataler, batch []string, ids []uint32, checkFound []bool, hits int, err error) {
	t.Helper()
	want := 0
	for i, k := range batch {
		id, ok := m.ids[k]
		if ok {
			want++
		}
		if ids[i] != id || checkFound[i] != ok {
			t.Fatalf("row %d: %d, %v, want %d, %v", i, ids[i], checkFound[i], id, ok)
		}
	}
	if err != nil || hits != want {
		t.Fatalf("%d found, %v, want %d", hits, err, want)
	}
}

// Batches of several chunks and ranges, with and without collisions, get ids in order.
func TestManyRows(t *testing.T) {
	dev := devicetest.Open(t)
	for _, bits := range []int{0, 12} {
		table, m := open(t, dev, bits, nil), newModel()
		table.chunk = 3*grain + 5
		rng := rand.New(rand.NewPCG(1, 2))
		for _, n := range []int{50_000, 1, 20_000} {
			batch := make([]string, n)
			for i := range batch {
				batch[i] = fmt.Sprintf("%*d", 1+i%20, rng.IntN(n))
			}
			ids := make([]uint32, n)
			added, err := table.Strings(t.Context(), batch, ids)
			want, fresh := m.add(batch)
			if err != nil || added != fresh {
				t.Fatalf("%d added, %v, want %d", added, err, fresh)
			}
			for i := range ids {
				if ids[i] != want[i] {
					t.Fatalf("%d bits: row %d, %q: id %d, want %d", bits, i, batch[i], ids[i], want[i])
				}
			}
			found := make([]bool, n)
			hits, err := table.FindStrings(t.Context(), batch, ids, found)
			m.checkFound(t, batch, ids, found, hits, err)
		}
		if bits > 0 && len(table.extras) < 10_000 {
			t.Errorf("%d items collide: the test shows nothing", len(table.extras))
		}
		m.check(t, table)
	}
}

func TestRows(t *testing.T) {
	table := open(t, devicetest.Open(t), 0, nil)
	nan := math.NaN()
	a := column.Of([]float64{0, math.Copysign(0, -1), nan, math.Float64frombits(math.Float64bits(nan) ^ 1<<63), 1, 1, 1})
	b := column.OfStrings([]string{"x", "x", "", "", "", "", ""}).WithValid(column.OfBools([]bool{true, true, true, true, false, true, false}))
	ids := make([]uint32, 7)
	added, err := table.Rows(t.Context(), []column.Column{a, b}, ids)
	if fmt.Sprint(ids, added, err) != "[0 0 1 1 2 3 2] 4 <nil>" {
		t.Fatal(ids, added, err)
	}
	cols := table.Columns(1, 4)
	got := ""
	for i := range 3 {
		got += fmt.Sprintf("%v %v;", cols[0].Any(i), cols[1].Any(i))
	}
	if got != "NaN ;1 <nil>;1 ;" {
		t.Error(got)
	}
	found := make([]bool, 2)
	hits, err := table.FindRows(t.Context(), []column.Column{column.Of([]float64{1, 2}), column.OfStrings([]string{"", "x"})}, ids[:2], found)
	if fmt.Sprint(hits, err, ids[:2], found) != "1 <nil> [3 0] [true false]" {
		t.Error(hits, err, ids[:2], found)
	}
	for name, err := range map[string]error{
		"other types": errOf(table.Rows(t.Context(), []column.Column{b, a}, ids)),
		"fewer":       errOf(table.Rows(t.Context(), []column.Column{a}, ids)),
		"strings":     errOf(table.Strings(t.Context(), []string{"x"}, ids[:1])),
		"find":        errOf(table.FindStrings(t.Context(), []string{"x"}, ids[:1], nil)),
		"no columns":  errOf(open(t, devicetest.Open(t), 0, nil).Rows(t.Context(), nil, nil)),
		"null":        errOf(table.Column(t.Context(), b, ids)),
		"numbers":     errOf(table.Column(t.Context(), a, ids)),
	} {
		var p *op.PartialError
		if !errors.Is(err, device.ErrInvalid) || !errors.As(err, &p) || p.Done != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if table.Len() != 4 {
		t.Errorf("%d keys", table.Len())
	}
}

func errOf(_ int, err error) error { return err }
