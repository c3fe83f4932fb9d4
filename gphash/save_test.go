package gphash

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/core"
)

// strs creates an index of byte strings.
func strs(t testing.TB, o Options) *Strings {
	t.Helper()
	if o.Size == 0 {
		o.Size = 16 << 20
	}
	x, err := CreateStrings(filepath.Join(memoryDir(t), "pool"), openCPU(t), o)
	must(t, err)
	t.Cleanup(func() { must(t, x.Close()) })
	return x
}

// fixed creates an index of byte strings of one length.
func fixed(t testing.TB, key, value int) *Index {
	t.Helper()
	x, err := Create(filepath.Join(memoryDir(t), "pool"), openCPU(t), Options{KeySize: key, ValueSize: value, Size: 8 << 20})
	must(t, err)
	t.Cleanup(func() { must(t, x.Close()) })
	return x
}

// saver is implemented by Index and Strings.
type saver interface {
	Save(context.Context, io.Writer) (int, error)
	Load(context.Context, io.Reader) (int, error)
	Len() int
}

func saved(t testing.TB, x saver) []byte {
	t.Helper()
	var b bytes.Buffer
	if n, err := x.Save(ctx, &b); n != x.Len() || err != nil {
		t.Fatalf("%d of %d pairs saved: %v", n, x.Len(), err)
	}
	return b.Bytes()
}

// Saved byte strings can be loaded into another pool with other options. Load stops at the end of
// the stream.
func TestSaveStrings(t *testing.T) {
	m := model{}
	for i := range 3000 {
		m[strings.Repeat(string(rune('a'+i%26)), 1+i%97)+fmt.Sprint(i)] = strings.Repeat("v", i*i%301)
	}
	m[strings.Repeat("k", maxLongKey)], m["empty"], m["long"] = "of a long key", "", strings.Repeat("x", maxValue)
	x := strs(t, Options{Capacity: 100})
	for k, v := range m {
		_, err := x.Put(ctx, BytesOf(k), BytesOf(v))
		must(t, err)
	}
	file := saved(t, x)
	y := strs(t, Options{Slots: 4, Hashes: 4, Hash: Fast, Resize: Stop})
	_, err := y.Put(ctx, BytesOf("long", "other"), BytesOf("before", "stays"))
	must(t, err)
	from := bytes.NewReader(append(slices.Clone(file), "behind"...))
	if n, err := y.Load(ctx, from); n != len(m) || err != nil {
		t.Fatalf("%d pairs of %d: %v", n, len(m), err)
	}
	if tail, _ := io.ReadAll(from); string(tail) != "behind" {
		t.Errorf("Load leaves %q", tail)
	}
	m["other"] = "stays"
	m.equalStrings(t, y)
	must(t, y.Check(ctx))
}

// The format of saved streams does not change.
func TestSavedBytes(t *testing.T) {
	x := strs(t, Options{})
	_, err := x.Put(ctx, BytesOf("key"), BytesOf("a value"))
	must(t, err)
	const want = "5745465454414231" + "0073007300000000" + "9b118edf" + "01000000" + "03000000" + "07000000" + "6b6579" + "612076616c7565" + "fa23be6c" + "00000000" + "0100000000000000" + "7ac85c62"
	if got := hex.EncodeToString(saved(t, x)); got != want {
		t.Errorf("the stream is %s, want %s", got, want)
	}
}

// Index and Strings load pairs of the other type if the lengths fit. Frames with other lengths are
// refused.
func TestLoadOfOtherLengths(t *testing.T) {
	x := fixed(t, 8, 16)
	for i := range 100 {
		_, err := x.Put(ctx, fmt.Appendf(nil, "%08d", i), fmt.Appendf(nil, "%016d", i*i))
		must(t, err)
	}
	file := saved(t, x)
	y := strs(t, Options{ValueSize: 16})
	if n, err := y.Load(ctx, bytes.NewReader(file)); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	z := fixed(t, 8, 16)
	if n, err := z.Load(ctx, bytes.NewReader(saved(t, y))); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	value := make([]byte, 16)
	if hits, err := z.Get(ctx, []byte("00000099"), value, nil); hits != 1 || err != nil || string(value) != "0000000000009801" {
		t.Error(hits, err, string(value))
	}
	_, err := y.Put(ctx, BytesOf("short"), BytesOf("0123456789abcdef"))
	must(t, err)
	for name, c := range map[string]struct {
		into saver
		file []byte
	}{
		"the value has 16 bytes, not 17": {fixed(t, 8, 17), file},
		"the key has 8 bytes, not 9":     {fixed(t, 9, 16), file},
		"the value has 16 bytes, not 3":  {strs(t, Options{ValueSize: 3}), file},
		"the key has 5 bytes, not 8":     {fixed(t, 8, 16), saved(t, y)},
		"the key has 8 bytes, not 2":     {strs(t, Options{KeySize: 2}), file},
	} {
		n, err := c.into.Load(ctx, bytes.NewReader(c.file))
		if n != 0 || c.into.Len() != 0 || !errors.Is(err, weft.ErrFormat) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %d pairs, %v", name, n, err)
		}
	}
	dev := openCPU(t)
	ints, err := CreateMap[uint64, uint64](filepath.Join(memoryDir(t), "pool"), dev, Options{Size: 8 << 20})
	must(t, err)
	defer ints.Close()
	if n, err := ints.Load(ctx, bytes.NewReader(file)); n != 0 || !errors.Is(err, weft.ErrFormat) || !strings.Contains(err.Error(), "byte strings") {
		t.Errorf("a map of integers: %d, %v", n, err)
	}
}

// An index on a GPU is saved and loaded like any other.
func TestSaveOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 5, ValueSize: 7, Size: 8 << 20})
	must(t, err)
	defer x.Close()
	m := model{"12345": "seven..", "54321": ".......", "00000": "7654321"}
	for k, v := range m {
		_, err := x.Put(ctx, []byte(k), []byte(v))
		must(t, err)
	}
	y := strs(t, Options{})
	if n, err := y.Load(ctx, bytes.NewReader(saved(t, x))); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	m.equalStrings(t, y)
	must(t, x.Clear(ctx))
	if n, err := x.Load(ctx, bytes.NewReader(saved(t, y))); n != 3 || err != nil || x.Len() != 3 {
		t.Fatal(n, x.Len(), err)
	}
}

// A stream with any flipped bit, or of any truncated length, returns ErrFormat.
func TestLoadOfDamagedStrings(t *testing.T) {
	x := strs(t, Options{})
	_, err := x.Put(ctx, BytesOf("a", "key"), BytesOf("value", ""))
	must(t, err)
	file, y := saved(t, x), strs(t, Options{})
	try := func(name string, b []byte) {
		t.Helper()
		must(t, y.Clear(ctx))
		if n, err := y.Load(ctx, bytes.NewReader(b)); !errors.Is(err, weft.ErrFormat) || n != y.Len() || n != 0 && n != 2 {
			t.Errorf("%s: %d pairs, Len %d, %v", name, n, y.Len(), err)
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
}

// A stream that states huge lengths causes no large allocation.
func TestLoadOfHugeLengths(t *testing.T) {
	x := strs(t, Options{})
	file := saved(t, x)[:20]
	for _, length := range []uint32{1 << 20, 1<<24 + 1, 1 << 31, 1<<32 - 1} {
		frame := binary.LittleEndian.AppendUint32(slices.Clone(file), 1<<18)
		for range 2 << 18 {
			frame = binary.LittleEndian.AppendUint32(frame, length)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := x.Load(ctx, bytes.NewReader(frame)); !errors.Is(err, weft.ErrFormat) {
			t.Errorf("rows of %d bytes: %v", length, err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
			t.Errorf("rows of %d bytes took %d", length, got)
		}
	}
}

// A page that exceeds the maximum size of a frame is saved as several frames.
func TestSaveOfLargeRows(t *testing.T) {
	was := core.PageBytes
	core.PageBytes = 1 << 28
	defer func() { core.PageBytes = was }()
	x, m := strs(t, Options{Size: 68 << 20}), model{}
	for i := range 300 {
		k, v := fmt.Sprint(i), strings.Repeat(string(rune('a'+i%26)), maxValue)
		_, err := x.Put(ctx, BytesOf(k), BytesOf(v))
		must(t, err)
		m[k] = v
	}
	y := strs(t, Options{Size: 68 << 20})
	if n, err := y.Load(ctx, bytes.NewReader(saved(t, x))); n != len(m) || err != nil {
		t.Fatal(n, err)
	}
	m.equalStrings(t, y)
}

// A full pool keeps its contents, and Load returns the number of operations that ran.
func TestLoadIntoFullPool(t *testing.T) {
	x := strs(t, Options{Size: 68 << 20})
	var keys, values Bytes
	for i := range 400 {
		keys.Append(fmt.Append(nil, i))
		values.Append(make([]byte, maxValue))
	}
	_, err := x.Put(ctx, keys, values)
	must(t, err)
	y := strs(t, Options{Size: 8 << 20})
	n, err := y.Load(ctx, bytes.NewReader(saved(t, x)))
	var p *weft.PartialError
	if !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) || n != y.Len() || n == 0 || p.Failed == 0 || len(p.Rows) != p.Failed {
		t.Errorf("%d pairs, Len %d: %v", n, y.Len(), err)
	}
	must(t, y.Check(ctx))
}
