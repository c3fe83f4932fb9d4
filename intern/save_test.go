package intern

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
)

// saved returns streams of small tables: of byte strings, of rows of each encoding, and of none.
func saved(t testing.TB) (files [][]byte) {
	dev := devicetest.Open(t)
	save := func(fill func(*Table) error) {
		table := open(t, dev, 0, nil)
		if err := fill(table); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := table.Save(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		files = append(files, b.Bytes())
	}
	rowsOf := func(cols ...column.Column) func(*Table) error {
		return func(table *Table) error { return errOf(table.Rows(t.Context(), cols, make([]uint32, 3))) }
	}
	valid := column.OfBools([]bool{true, false, true})
	save(func(*Table) error { return nil })
	save(func(table *Table) error {
		return errOf(table.Strings(t.Context(), []string{"", "a", "long enough"}, make([]uint32, 3)))
	})
	save(rowsOf(column.Of([]int64{1, 2, 3}).WithValid(valid)))
	save(rowsOf(column.Of([]float64{1, 2, 3}), column.Of([]bool{true, false, true}).WithValid(valid)))
	save(rowsOf(column.OfStrings([]string{"x", "", "xyz"}).WithValid(valid), column.OfStrings([]string{"", "é", "xyz"}), column.Of([]int8{1, 2, 3})))
	return files
}

// Any flipped bit and any missing byte is detected, and so are faults with a valid checksum.
func TestDamage(t *testing.T) {
	dev := devicetest.Open(t)
	refused := func(file []byte, what string) {
		t.Helper()
		table, err := Load(t.Context(), dev, bytes.NewReader(file), nil)
		if table != nil || !errors.Is(err, op.ErrFormat) || !strings.HasPrefix(err.Error(), "intern: Load: ") {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for _, file := range saved(t) {
		for i := range file {
			refused(file[:i], "cut short")
			for bit := range 8 {
				b := slices.Clone(file)
				b[i] ^= 1 << bit
				refused(b, "a flipped bit")
			}
		}
	}
	frame := func(n uint32, size uint64, rest string) string {
		b := binary.LittleEndian.AppendUint32(nil, n)
		return string(withCRC(append(binary.LittleEndian.AppendUint64(b, size), rest...)))
	}
	head := func(kind, columns byte, types string) string {
		return string(withCRC([]byte(magic+string([]byte{kind, 0, 0, 0, columns, 0, 0, 0})))) + string(withCRC([]byte(types)))
	}
	two := frame(2, 4, "\x02\x00\x00\x00\x02\x00\x00\x00abab")
	for what, file := range map[string]string{
		"a key comes twice":     head(1, 0, "") + two + frame(0, 2, ""),
		"another total":         head(1, 0, "") + frame(1, 2, "ab") + frame(0, 2, ""),
		"lengths that differ":   head(1, 0, "") + frame(2, 4, "\x02\x00\x00\x00\x01\x00\x00\x00abc") + frame(0, 2, ""),
		"a frame of many keys":  head(1, 0, "") + frame(frameKeys+1, 4, ""),
		"a frame of many bytes": head(1, 0, "") + frame(2, frameBytes+1, ""),
		"keys of no kind":       head(0, 0, "") + frame(1, 2, "ab") + frame(0, 1, ""),
		"no such kind":          head(3, 0, "") + frame(0, 0, ""),
		"strings with columns":  head(1, 1, "\x01") + frame(0, 0, ""),
		"rows without columns":  head(2, 0, "") + frame(0, 0, ""),
		"no such type":          head(2, 1, "\x0d") + frame(0, 0, ""),
		"a column without type": head(2, 1, "\x00") + frame(0, 0, ""),
		"a short row":           head(2, 1, "\x02") + frame(1, 2, "\x00\x01") + frame(0, 1, ""),
		"a null that has value": head(2, 1, "\x01") + frame(1, 2, "\x01\x01") + frame(0, 1, ""),
		"a bool of 2":           head(2, 1, "\x0b") + frame(1, 2, "\x00\x02") + frame(0, 1, ""),
	} {
		refused([]byte(file), what)
	}
}

func withCRC(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, seal.Castagnoli))
}

// A stream that claims large sizes costs no more memory than its content.
func TestClaims(t *testing.T) {
	dev := devicetest.Open(t)
	file := string(withCRC([]byte(magic+"\x01\x00\x00\x00\x00\x00\x00\x00"))) + "\x00\x00\x00\x00" + "\x01\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\x7f" + "abc"
	var before, behind runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Load(t.Context(), dev, strings.NewReader(file), nil)
	runtime.ReadMemStats(&behind)
	if !errors.Is(err, op.ErrFormat) || behind.TotalAlloc-before.TotalAlloc > 8<<20 {
		t.Errorf("%v, and %d bytes", err, behind.TotalAlloc-before.TotalAlloc)
	}
}

// A key may exceed a frame. The loaded table has a limit of memory.
func TestLoadLargeKeys(t *testing.T) {
	dev := devicetest.Open(t)
	table, m := open(t, dev, 0, nil), newModel()
	batch := []string{"a", strings.Repeat("x", frameBytes+5), "b", strings.Repeat("y", frameBytes-1), "cc"}
	m.add(batch)
	if _, err := table.Strings(t.Context(), batch, make([]uint32, len(batch))); err != nil {
		t.Fatal(err)
	}
	loaded := reload(t, dev, table)
	defer loaded.Close()
	m.check(t, loaded)
	var file bytes.Buffer
	if _, err := table.Save(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), dev, &file, &Options{MaxBytes: frameBytes}); !errors.Is(err, op.ErrFull) {
		t.Error(err)
	}
}

// Any stream is an error, or becomes a table that can be saved and loaded with the same keys.
func FuzzLoad(f *testing.F) {
	for _, file := range saved(f) {
		f.Add(file)
	}
	dev, err := cpu.Open(nil)
	if err != nil {
		f.Fatal(err)
	}
	defer dev.Close()
	f.Fuzz(func(t *testing.T, file []byte) {
		table, err := Load(ctx, dev, bytes.NewReader(file), nil)
		if err != nil {
			if !errors.Is(err, op.ErrFormat) {
				t.Fatal(err)
			}
			// With valid checksums, the checks after them run, too.
			if table, err = Load(ctx, dev, bytes.NewReader(resealed(file)), nil); err != nil {
				return
			}
		}
		defer table.Close()
		loaded := reload(t, dev, table)
		defer loaded.Close()
		if loaded.Len() != table.Len() {
			t.Fatalf("%d keys, and %d when loaded again", table.Len(), loaded.Len())
		}
		for id := range uint32(table.Len()) {
			if !bytes.Equal(table.At(id), loaded.At(id)) {
				t.Fatalf("key %d is %x, and %x when loaded again", id, table.At(id), loaded.At(id))
			}
		}
	})
}

// resealed returns a stream with its checksums recomputed, as far as its structure is valid.
func resealed(file []byte) (out []byte) {
	take := func(n uint64) []byte {
		n = min(n, uint64(len(file)))
		b := file[:n]
		file = file[n:]
		return b
	}
	part := func(b []byte) {
		out = append(out, withCRC(slices.Clone(b))...)
		take(4)
	}
	head := take(headerBytes)
	part(head)
	if len(head) == headerBytes {
		part(take(uint64(binary.LittleEndian.Uint32(head[12:]))))
	}
	for len(file) >= 12 {
		b := slices.Clone(take(12))
		if n := uint64(binary.LittleEndian.Uint32(b)); n > 0 {
			size := binary.LittleEndian.Uint64(b[4:])
			if n > 1 {
				b = append(b, take(4*n)...)
			}
			b = append(b, take(size)...)
		}
		part(b)
	}
	return out
}
