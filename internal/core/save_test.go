package core_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Named types are recorded as their underlying types.
type (
	id    uint64
	score float32
)

type shape struct {
	name   string
	kind   core.Kind
	widths batch.Widths
	types  core.Types
	same   string // name of the shape with equal streams, unless that is this shape
}

func mapShape[K op.Key, V op.Value](name, same string) shape {
	return shape{name, core.Map, batch.MapWidths[K, V](), core.MapTypes[K, V](), same}
}

func shapes() []shape {
	return []shape{
		mapShape[uint32, uint32]("map uint32 uint32", ""),
		mapShape[uint32, int32]("map uint32 int32", ""),
		mapShape[int32, float32]("map int32 float32", ""),
		mapShape[uint32, float64]("map uint32 float64", ""),
		mapShape[uint64, uint64]("map uint64 uint64", ""),
		mapShape[int64, float64]("map int64 float64", ""),
		mapShape[uint64, float32]("map uint64 float32", ""),
		mapShape[id, score]("map id score", "map uint64 float32"),
		mapShape[uint, uint]("map uint uint", "map uint64 uint64"),
		mapShape[int, float64]("map int float64", "map int64 float64"),
		{"ordered map uint64 float32", core.OrderedMap, batch.MapWidths[uint64, float32](), core.MapTypes[uint64, float32](), "map uint64 float32"},
		{"multimap uint32 uint32", core.MultiMap, batch.MapWidths[uint32, uint32](), core.MapTypes[uint32, uint32](), ""},
		{"set uint32", core.Set, batch.SetWidths[uint32](), core.SetTypes[uint32](), ""},
		{"set int32", core.Set, batch.SetWidths[int32](), core.SetTypes[int32](), ""},
		{"set int64", core.Set, batch.SetWidths[int64](), core.SetTypes[int64](), ""},
	}
}

func (s shape) open(t testing.TB) *core.Table {
	table, _ := newToy(openCPU(t), s.kind, s.widths, s.types)
	return table
}

// readFull puts n pairs into a table, with keys from 1 on and ten times the key as value.
func (s shape) readFull(t testing.TB, table *core.Table, n int) {
	t.Helper()
	keys, vals := make([]byte, n*s.widths.Key), make([]byte, n*s.widths.Val)
	for i := range n {
		setNumber(keys, s.widths.Key, i, uint64(i+1))
		setNumber(vals, s.widths.Val, i, uint64(10*(i+1)))
	}
	b := &batch.Batch{N: n, Kind: op.PutNew, Columns: batch.Columns{batch.Keys: batch.Input(keys).WithWidth(s.widths.Key)}}
	if s.widths.Val > 0 {
		b.Columns[batch.Vals] = batch.Input(vals).WithWidth(s.widths.Val)
	}
	if got, err := table.Change(t.Context(), "Put", b); got != n || err != nil {
		t.Fatal(got, err)
	}
}

func (s shape) fileKind(t testing.TB, n int) []byte {
	t.Helper()
	table := s.open(t)
	s.readFull(t, table, n)
	var b bytes.Buffer
	if got, err := table.Save(t.Context(), nil, &b); got != n || err != nil {
		t.Fatal(got, err)
	}
	return b.Bytes()
}

func content(t testing.TB, table *core.Table) string {
	t.Helper()
	var text strings.Builder
	err := table.Pages(t.Context(), "Pages", nil, func(p *core.Page) bool {
		fmt.Fprintf(&text, "%d %x %x;", p.N, p.Keys.Host, p.Vals.Host)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// A table must load the streams of tables with the same kind and types, and reject all others.
func TestLoadTakesItsOwn(t *testing.T) {
	for _, from := range shapes() {
		file := from.fileKind(t, 5)
		for _, to := range shapes() {
			table := to.open(t)
			n, err := table.Load(t.Context(), bytes.NewReader(file))
			same := from.name == to.name || from.same == to.name || to.same == from.name || to.same != "" && to.same == from.same
			switch {
			case same && (n != 5 || err != nil):
				t.Errorf("%s of %s: %d, %v", to.name, from.name, n, err)
			case !same && (n != 0 || !errors.Is(err, op.ErrFormat) || table.Len() != 0 || !strings.Contains(err.Error(), "this is "+map[bool]string{true: "an ", false: "a "}[to.kind == core.OrderedMap]+to.kind.String())):
				t.Errorf("%s of %s: %d, %v, want ErrFormat", to.name, from.name, n, err)
			}
			if same {
				like := to.open(t)
				to.readFull(t, like, 5)
				if got, want := content(t, table), content(t, like); got != want {
					t.Errorf("%s of %s holds %s, want %s", to.name, from.name, got, want)
				}
			}
		}
	}
}

// resealed returns a stream with one changed byte in its header and a correct checksum.
func resealed(file []byte, at int, to byte) []byte {
	file = slices.Clone(file)
	file[at] = to
	binary.LittleEndian.PutUint32(file[16:], crc32.Checksum(file[:16], crc32.MakeTable(crc32.Castagnoli)))
	return file
}

// Load must return ErrFormat after damage of any byte and after any truncation. If the checksum of
// damaged data is correct, Load must still fail, without allocating much memory.
func TestLoadOfDamage(t *testing.T) {
	s := mapShape[uint64, float32]("map uint64 float32", "")
	file := s.fileKind(t, 3)
	try := func(what string, b []byte) {
		t.Helper()
		table := s.open(t)
		n, err := table.Load(t.Context(), bytes.NewReader(b))
		if !errors.Is(err, op.ErrFormat) || n != table.Len() || n != 0 && n != 3 {
			t.Errorf("%s: %d pairs, Len = %d, %v", what, n, table.Len(), err)
		}
	}
	for at := range file {
		for bit := range 8 {
			broken := slices.Clone(file)
			broken[at] ^= 1 << bit
			try(fmt.Sprintf("bit %d of byte %d", bit, at), broken)
		}
		try(fmt.Sprintf("cut at byte %d", at), file[:at])
	}
	for at := range 13 {
		for to := range 256 {
			if file[at] != byte(to) {
				try(fmt.Sprintf("byte %d of the header is %d", at, to), resealed(file, at, byte(to)))
			}
		}
	}
	// The stream claims more pairs than it holds.
	more := slices.Clone(file)
	end := more[len(more)-16:]
	binary.LittleEndian.PutUint64(end[4:], 4)
	binary.LittleEndian.PutUint32(end[12:], crc32.Checksum(end[:12], crc32.MakeTable(crc32.Castagnoli)))
	try("a wrong number of pairs", more)
	try("nothing", nil)
	try("text", []byte(strings.Repeat("text ", 100)))
}

// A frame that claims to be huge must cost no memory.
func TestLoadTakesLittleMemory(t *testing.T) {
	s := mapShape[uint64, uint64]("map uint64 uint64", "")
	file := s.fileKind(t, 3)[:24]
	for _, n := range []uint32{1 << 18, 1<<18 + 1, 1 << 31, 1<<32 - 1} {
		binary.LittleEndian.PutUint32(file[20:], n)
		table := s.open(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := table.Load(t.Context(), bytes.NewReader(file)); !errors.Is(err, op.ErrFormat) {
			t.Errorf("a frame of %d pairs: %v", n, err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
			t.Errorf("a frame of %d pairs took %d bytes", n, got)
		}
	}
}

// Tables with more pairs than fit in a frame are saved in several.
func TestManyFrames(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	s := mapShape[uint32, uint32]("map uint32 uint32", "")
	const n = 3<<18 + 5
	file := s.fileKind(t, n)
	table := s.open(t)
	if got, err := table.Load(t.Context(), bytes.NewReader(file)); got != n || err != nil || table.Len() != n {
		t.Errorf("%d pairs of %d: %v", got, n, err)
	}
	if err := table.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// Version 1 of the format must not change. WEFT_GOLDEN=1 writes the file.
func TestGoldenFile(t *testing.T) {
	s := mapShape[int64, float32]("map int64 float32", "")
	const name = "testdata/version1.hex"
	file := s.fileKind(t, 3)
	if os.Getenv("WEFT_GOLDEN") != "" {
		if err := os.WriteFile(name, []byte(hex.Dump(file)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.Dump(file); got != string(want) {
		t.Errorf("the stream is\n%swant\n%s", got, want)
	}
}

// FuzzLoad requires Load to return for any input.
func FuzzLoad(f *testing.F) {
	for i, s := range shapes() {
		file := s.fileKind(f, 3)
		f.Add(uint8(i), file)
		f.Add(uint8(i), file[:len(file)/2])
		f.Add(uint8(i), resealed(file, 10, 64))
		f.Add(uint8(i+1), file)
	}
	f.Add(uint8(0), []byte("WEFTTAB1"))
	f.Fuzz(func(t *testing.T, which uint8, file []byte) {
		s := shapes()[int(which)%len(shapes())]
		table := s.open(t)
		n, err := table.Load(t.Context(), bytes.NewReader(file))
		if err != nil && !errors.Is(err, op.ErrFormat) {
			t.Errorf("%d, %v", n, err)
		}
		if err := table.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if err != nil {
			return
		}
		var again bytes.Buffer
		if m, err := table.Save(t.Context(), nil, &again); m != table.Len() || err != nil {
			t.Errorf("what was loaded is saved as %d pairs of %d: %v", m, table.Len(), err)
		}
	})
}

// A table that has room for a part of a stream must report the number of pairs processed, counted
// from the start of the stream. The error must name the method only once.
func TestLoadOverflow(t *testing.T) {
	s := mapShape[uint32, uint32]("map uint32 uint32", "")
	const frame = 1 << 18
	file := s.fileKind(t, frame+10)
	table, e := newToy(openCPU(t), s.kind, s.widths, s.types)
	e.room = frame + 3
	n, err := table.Load(t.Context(), bytes.NewReader(file))
	var p *op.PartialError
	if n != frame+3 || !errors.Is(err, op.ErrFull) || !errors.As(err, &p) || p.Done != frame+10 || p.Failed != 7 || len(p.Rows) != 7 || p.Rows[0] != frame+3 {
		t.Errorf("%d pairs: %v", n, err)
	}
	if !strings.HasPrefix(err.Error(), "toy: Load: 262154 operations tried, 7 failed: full") {
		t.Error(err)
	}
}
