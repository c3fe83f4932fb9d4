package gphash

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// equalStrings fails unless an index holds exactly the pairs of the model.
func (m model) equalStrings(t testing.TB, x *Strings) {
	t.Helper()
	got, n := model{}, 0
	for k, v := range x.All(ctx) {
		got[string(k)] = string(v)
		n++
	}
	if n != len(m) || !maps.Equal(got, m) {
		t.Fatalf("the index has %d pairs, %d of them different, they should be %d", n, len(got), len(m))
	}
	if x.Len() != len(m) {
		t.Fatalf("Len %d, want %d", x.Len(), len(m))
	}
}

// stringSource generates byte strings of varying or fixed length.
type stringSource struct {
	rng       *rand.Rand
	key, size int // lengths of keys and values; 0 if they vary
	keys      uint64
	got       Bytes // reused for the results of Get
}

// randomKey returns one of l.keys keys. Each key has another length.
func (l *stringSource) randomKey() []byte {
	n := l.rng.Uint64N(l.keys)
	size := l.key
	if size == 0 {
		size = 2 + int(n*n%97)
		if n%1000 == 7 {
			size = maxLongKey
		}
	}
	key := make([]byte, size)
	key[0], key[1] = byte(n), byte(n>>8)
	return key
}

func (l *stringSource) randomValue() []byte {
	size := l.size
	if size == 0 {
		switch size = l.rng.IntN(200); l.rng.IntN(500) {
		case 0:
			size = maxValue
		case 1, 2, 3:
			size = l.rng.IntN(8000)
		}
	}
	return randomBytes(l.rng, size)
}

func (l *stringSource) rows(n int, row func() []byte) (b Bytes) {
	for range n {
		b.Append(row())
	}
	return b
}

// onDevices runs a test of byte strings on the CPU and on a simulated GPU. On the GPU the amount of
// data is divided by scale.
func onDevices(t *testing.T, test func(t *testing.T, dev device.Device, scale int)) {
	t.Run("cpu", func(t *testing.T) { test(t, openCPU(t), 1) })
	t.Run("simulated", func(t *testing.T) { test(t, simulated(t), 8) })
}

// simulated opens a simulated GPU. All cores of the host write records for it.
func simulated(t *testing.T) device.Device {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	was := minParallelOps
	minParallelOps = 64
	t.Cleanup(func() { minParallelOps = was })
	return devicetest.OpenSim(t, nil)
}

// An index of byte strings accepts batches of any kind while it grows. It has the same contents
// after it has been closed and opened again, on either device.
func TestStrings(t *testing.T) {
	smallParts(t)
	type shape struct{ key, value, levels, slots, hashes int }
	shapes := []shape{{0, 0, 2, 8, 2}, {0, 12, 1, 16, 2}, {8, 0, 2, 8, 2}, {30, 0, 4, 4, 2}, {0, 0, 2, 2, 2}}
	if conformance.Raced {
		shapes = shapes[:2] // the other shapes use the same code
	}
	for i, size := range shapes {
		for _, resize := range []Resize{Beside, Stop} {
			o := Options{KeySize: size.key, ValueSize: size.value, Levels: size.levels, Slots: size.slots, Hashes: size.hashes, Resize: resize}
			t.Run(fmt.Sprint(size, resize), func(t *testing.T) { stringsOn(t, openCPU(t), openCPU(t), o, 2**thorough, 300) })
		}
		t.Run(fmt.Sprint(size, " atomic"), func(t *testing.T) {
			o := Options{KeySize: size.key, ValueSize: size.value, Levels: size.levels, Slots: size.slots, Hashes: size.hashes, Resize: Resize(i % 2), AtomicBatch: 1000}
			stringsOn(t, openCPU(t), openCPU(t), o, 2, 300)
		})
		for j, o := range []Options{{}, {Mirror: true}, {Cache: .4}, {AtomicBatch: 250}, {AtomicBatch: 250, AtomicTail: 400}} {
			if (i+j)%5 > 1 {
				continue
			}
			o.KeySize, o.ValueSize, o.Levels, o.Slots, o.Hashes, o.Resize = size.key, size.value, size.levels, size.slots, size.hashes, Resize((i+j)%2)
			if o.Hash = SipHash; i == 4 {
				o.Hash = Fast
			}
			t.Run(fmt.Sprint(size, " simulated ", j), func(t *testing.T) { stringsOn(t, simulated(t), openCPU(t), o, 2, 60) })
		}
	}
}

func stringsOn(t *testing.T, dev, other device.Device, o Options, rounds, n int) {
	if conformance.Raced {
		rounds = min(rounds, 3)
	}
	path := filepath.Join(memoryDir(t), "pool")
	o.Capacity, o.Size = 64, 24<<20
	x, err := CreateStrings(path, dev, o)
	must(t, err)
	l, want := &stringSource{rand.New(rand.NewPCG(1, uint64(o.KeySize))), o.KeySize, o.ValueSize, uint64(20 * n), Bytes{}}, model{}
	for i := range rounds {
		// one of these batches is large enough for all cores
		stringBatches(t, l, x, want, n+i%3*n*4)
		must(t, x.LoadCache(ctx))
		must(t, x.Check(ctx))
	}
	want.equalStrings(t, x)
	must(t, x.Close())
	for _, dev := range []device.Device{other, dev} {
		x, report, err := OpenStrings(ctx, path, dev, OpenOptions{Verify: true, Resize: o.Resize, AtomicTail: o.AtomicTail, Mirror: o.Mirror, Cache: o.Cache})
		must(t, err)
		if report.Damaged+report.Unfinished != 0 || report.Keys != uint64(len(want)) || x.KeySize() != o.KeySize || x.ValueSize() != o.ValueSize {
			t.Errorf("report %+v", report)
		}
		want.equalStrings(t, x)
		stringBatches(t, l, x, want, 2*n)
		want.equalStrings(t, x)
		must(t, x.Check(ctx))
		if dev != other {
			must(t, x.Clear(ctx))
			model{}.equalStrings(t, x)
			must(t, x.Check(ctx))
		}
		must(t, x.Close())
	}
}

// stringBatches runs one batch of each kind on an index and on its model.
func stringBatches(t testing.TB, l *stringSource, x *Strings, want model, n int) {
	t.Helper()
	keys, values := l.rows(n, l.randomKey), l.rows(n, l.randomValue)
	key := func(i int) string { return string(keys.Row(i)) }
	before := len(want)
	for i := range n {
		want[key(i)] = string(values.Row(i))
	}
	inserted, err := x.Put(ctx, keys, values)
	must(t, err)
	if inserted != len(want)-before {
		t.Fatalf("Put inserted %d, want %d", inserted, len(want)-before)
	}

	keys, values = l.rows(n, l.randomKey), l.rows(n, l.randomValue)
	ok := make([]bool, n)
	_, err = x.PutNew(ctx, keys, values, ok)
	must(t, err)
	for i := range n {
		if _, there := want[key(i)]; there == ok[i] {
			t.Fatalf("PutNew %d: %v", i, ok[i])
		} else if !there {
			want[key(i)] = string(values.Row(i))
		}
	}

	keys = l.rows(n/2, l.randomKey)
	_, err = x.Delete(ctx, keys, ok[:n/2])
	must(t, err)
	for i := range n / 2 {
		if _, there := want[key(i)]; there != ok[i] {
			t.Fatalf("Delete %d: %v", i, ok[i])
		}
		delete(want, key(i))
	}

	keys = l.rows(n, l.randomKey)
	for i := range l.got.Offsets[:cap(l.got.Offsets)] {
		l.got.Offsets[:cap(l.got.Offsets)][i] = 1 << 40 // reused memory may have any contents
	}
	got := l.got
	got.Reset()
	got.Append([]byte("before"))
	hits, err := x.Get(ctx, keys, &got, ok)
	must(t, err)
	same, err := x.Contains(ctx, keys, nil)
	must(t, err)
	if got.Len() != n+1 || string(got.Row(0)) != "before" || same != hits {
		t.Fatalf("Get has made %d rows, the first %q; %d hits, Contains %d", got.Len(), got.Row(0), hits, same)
	}
	for i := range n {
		v, there := want[key(i)]
		if there {
			hits--
		}
		if ok[i] != there || v != string(got.Row(i+1)) {
			t.Fatalf("Get %d: %v", i, ok[i])
		}
	}
	if hits != 0 {
		t.Fatalf("Get counts %d hits too many", hits)
	}

	keys, values = l.rows(n, l.randomKey), l.rows(n, l.randomValue)
	kinds := make([]weft.OpKind, n)
	for i := range kinds {
		kinds[i] = [...]weft.OpKind{weft.OpGet, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpUpdate}[l.rng.IntN(5)]
	}
	l.got = got
	got.Reset()
	must(t, x.Apply(ctx, kinds, keys, values, &got, ok))
	for i, k := range kinds {
		v, there := want[key(i)]
		expect := ""
		switch {
		case k == weft.OpDelete:
			delete(want, key(i))
		case k == weft.OpPut:
			want[key(i)], there = string(values.Row(i)), !there
		case k == weft.OpPutNew && !there:
			want[key(i)], there = string(values.Row(i)), true
		case k == weft.OpUpdate && there:
			want[key(i)] = string(values.Row(i))
		case there:
			expect, there = v, k == weft.OpGet
		}
		if ok[i] != there || string(got.Row(i)) != expect {
			t.Fatalf("Apply %d, %v: %v", i, k, ok[i])
		}
	}
}

func filledStrings(t *testing.T, dev device.Device, o Options) *Strings {
	t.Helper()
	if o.Size == 0 {
		o.Size = 16 << 20
	}
	x, err := CreateStrings(filepath.Join(memoryDir(t), "pool"), dev, o)
	must(t, err)
	t.Cleanup(func() { must(t, x.Close()) })
	return x
}

// An invalid batch returns an error that names the problem, and changes nothing.
func TestStringsRefuse(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device, _ int) { stringsRefuse(t, dev) })
}

func stringsRefuse(t *testing.T, dev device.Device) {
	for name, c := range map[string]struct {
		o            Options
		keys, values Bytes
		want         string
	}{
		"empty key":      {Options{}, BytesOf("a", "b", ""), BytesOf("1", "2", "3"), "key 2 has 0 bytes, not 1 to 4096"},
		"long key":       {Options{}, BytesOf("a", strings.Repeat("k", maxLongKey+1)), BytesOf("1", "2"), "key 1 has 4097 bytes, not 1 to 4096"},
		"long value":     {Options{}, BytesOf("a", "b"), BytesOf("1", strings.Repeat("v", maxValue+1)), "value 1 has 65537 bytes, not 0 to 65536"},
		"huge value":     {Options{}, BytesOf("a"), BytesOf(strings.Repeat("v", 1<<20+1)), "value 0 has 1048577 bytes, not 0 to 65536"},
		"fixed key":      {Options{KeySize: 2}, BytesOf("ab", "b"), BytesOf("1", "2"), "key 1 has 1 bytes, not 2"},
		"fixed value":    {Options{ValueSize: 1}, BytesOf("a", "b"), BytesOf("1", ""), "value 1 has 0 bytes, not 1"},
		"offsets":        {Options{}, Bytes{[]uint64{0, 2, 1}, []byte("ab")}, BytesOf("1", "2"), "key 1 lies at 2 to 1 of 2 bytes"},
		"offsets beyond": {Options{}, Bytes{[]uint64{0, 1, 1 << 63}, []byte("ab")}, BytesOf("1", "2"), "key 1 lies at 1 to 9223372036854775808 of 2 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			x := filledStrings(t, dev, c.o)
			if _, err := x.Put(ctx, c.keys, c.values); !errors.Is(err, device.ErrInvalid) || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if x.Len() != 0 {
				t.Errorf("%d keys have been put", x.Len())
			}
		})
	}
	x := filledStrings(t, dev, Options{})
	if err := x.Apply(ctx, []weft.OpKind{weft.OpGet, weft.OpSum}, BytesOf("a", "b"), BytesOf("", ""), nil, nil); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Apply of a sum: %v", err)
	}
	for name, f := range map[string]func(){
		"values": func() { x.Put(ctx, BytesOf("a", "b"), BytesOf("1")) },
		"flags":  func() { x.Delete(ctx, BytesOf("a", "b"), make([]bool, 1)) },
		"kinds":  func() { x.Apply(ctx, []weft.OpKind{weft.OpPut}, BytesOf("a", "b"), BytesOf("1", "2"), nil, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s that do not match: no panic", name)
				}
			}()
			f()
		}()
	}
}

// Keys and values may have all allowed lengths, including empty values, and batches may have no
// rows.
func TestStringLengths(t *testing.T) { onDevices(t, stringLengths) }

func stringLengths(t *testing.T, dev device.Device, scale int) {
	x, want := filledStrings(t, dev, Options{Capacity: 5000, Size: 48 << 20}), model{}
	var keys, values Bytes
	for n := 1; n <= maxLongKey; n += 1 + n/600*(scale-1) { // all lengths up to 600 bytes, at least
		keys.Append(bytes.Repeat([]byte{'k'}, n))
		values.Append(bytes.Repeat([]byte{byte(n)}, n%9))
	}
	keys.Append(bytes.Repeat([]byte{'l'}, maxLongKey))
	values.Append(nil)
	for i := range keys.Len() {
		want[string(keys.Row(i))] = string(values.Row(i))
	}
	n, err := x.Put(ctx, keys, values)
	must(t, err)
	if n != keys.Len() {
		t.Errorf("%d keys are new", n)
	}
	keys.Reset()
	values.Reset()
	for i := range 40 {
		keys.Append([]byte{byte(i)})
		values.Append(make([]byte, maxValue-i*i*41))
		want[string(keys.Row(i))] = string(values.Row(i))
	}
	_, err = x.Put(ctx, keys, values)
	must(t, err)
	want.equalStrings(t, x)
	for _, none := range []Bytes{{}, {Offsets: []uint64{0}}, BytesOf[string]()} {
		var got Bytes
		n, err := x.Put(ctx, none, none)
		hits, err2 := x.Get(ctx, none, &got, nil)
		if n != 0 || err != nil || hits != 0 || err2 != nil || got.Len() != 0 {
			t.Errorf("no rows: %d, %v, %d, %v, %d rows", n, err, hits, err2, got.Len())
		}
	}
	must(t, x.Check(ctx))
}

// A pool of byte strings cannot be opened as an index of fixed lengths, and vice versa.
func TestStringsAreNoIndex(t *testing.T) {
	dev, dir := openCPU(t), t.TempDir()
	for _, o := range []Options{{KeySize: 8, ValueSize: 8}, {KeySize: 129}, {ValueSize: maxValue + 1}, {KeySize: -1}} {
		if _, err := CreateStrings(filepath.Join(dir, "none"), dev, o); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Create(filepath.Join(dir, "none"), dev, Options{KeySize: 8}); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("an Index without ValueSize: %v", err)
	}
	variable, fixed := filepath.Join(dir, "variable"), filepath.Join(dir, "fixed")
	x, err := CreateStrings(variable, dev, Options{Size: 16 << 20})
	must(t, err)
	must(t, x.Close())
	y, err := Create(fixed, dev, Options{KeySize: 8, ValueSize: 8, Size: 16 << 20})
	must(t, err)
	must(t, y.Close())
	if _, _, err := Open(ctx, variable, dev, OpenOptions{}); !errors.Is(err, weft.ErrFormat) || !strings.Contains(err.Error(), "OpenStrings opens") {
		t.Errorf("Open of strings: %v", err)
	}
	if _, _, err := OpenStrings(ctx, fixed, dev, OpenOptions{}); !errors.Is(err, weft.ErrFormat) {
		t.Errorf("OpenStrings of an index: %v", err)
	}
	if _, _, err := OpenMap[uint64, uint64](ctx, variable, dev, OpenOptions{}); !errors.Is(err, weft.ErrFormat) {
		t.Errorf("OpenMap of strings: %v", err)
	}
}

// If a batch finds no space, it still returns the results of operations that succeeded.
func TestStringsFull(t *testing.T) { onDevices(t, stringsFull) }

func stringsFull(t *testing.T, dev device.Device, _ int) {
	x := filledStrings(t, dev, Options{})
	value := make([]byte, maxValue)
	n, full := 0, error(nil)
	for ; full == nil && n < 1000; n++ {
		_, full = x.Put(ctx, BytesOf(fmt.Sprint(n)), BytesOf(value))
	}
	if !errors.Is(full, weft.ErrFull) || x.Len() != n-1 || n < 100 {
		t.Fatalf("%v after %d keys, of which %d are there", full, n, x.Len())
	}
	var got Bytes
	ok := make([]bool, 3)
	kinds := []weft.OpKind{weft.OpGet, weft.OpPut, weft.OpGet}
	err := x.Apply(ctx, kinds, BytesOf("0", "new", "1"), BytesOf("", string(value), ""), &got, ok)
	if !errors.Is(err, weft.ErrFull) || !slices.Equal(ok, []bool{true, false, true}) || got.Len() != 3 ||
		!bytes.Equal(got.Row(0), value) || len(got.Row(1)) != 0 || !bytes.Equal(got.Row(2), value) {
		t.Errorf("%v, %v, %d rows", err, ok, got.Len())
	}
	must(t, x.Check(ctx))
	if n, err := x.Delete(ctx, BytesOf("0", "1"), nil); n != 2 || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
	if n, err := x.Put(ctx, BytesOf("new", "newer"), BytesOf(value, value)); n != 2 || err != nil {
		t.Errorf("%d put where two have gone, %v", n, err)
	}
	must(t, x.Check(ctx))
}

// An atomic batch without space for all of its records does nothing.
func TestStringsAtomicFull(t *testing.T) { onDevices(t, stringsAtomicFull) }

func stringsAtomicFull(t *testing.T, dev device.Device, _ int) {
	x, want := filledStrings(t, dev, Options{AtomicBatch: 4, Size: 8 << 20}), model{}
	value := strings.Repeat("v", maxValue/3)
	full := error(nil)
	for n := 0; full == nil && n < 1000; n += 4 {
		keys := BytesOf(fmt.Sprint(n), fmt.Sprint(n+1), fmt.Sprint(n+2), fmt.Sprint(n+3))
		ok := make([]bool, 4)
		if _, full = x.PutNew(ctx, keys, BytesOf(value, "short", value, value), ok); full != nil {
			if slices.Contains(ok, true) || n == 0 {
				t.Errorf("%v, behind %d keys", ok, n)
			}
			continue
		}
		for i := range 4 {
			want[string(keys.Row(i))] = map[bool]string{true: "short", false: value}[i == 1]
		}
	}
	if !errors.Is(full, weft.ErrFull) {
		t.Fatal(full)
	}
	want.equalStrings(t, x)
	must(t, x.Check(ctx))
	for i := range 4 { // each Put is a batch, and the next one can reuse the memory that it frees
		_, err := x.Delete(ctx, BytesOf(fmt.Sprint(i)), nil)
		must(t, err)
		delete(want, fmt.Sprint(i))
	}
	_, err := x.Put(ctx, BytesOf("a", "b", "c"), BytesOf(value, value, value))
	must(t, err)
	want["a"], want["b"], want["c"] = value, value, value
	want.equalStrings(t, x)
	must(t, x.Check(ctx))
}

// recordBytes returns the size of units with records, and the size of the records in use.
func recordBytes(v *values) (units, used uint64) {
	for i := range v.space.owner {
		if e := v.space.owner[i].extent.Load(); e != nil {
			units += v.unit * 8
			if e.unit == uint64(i) {
				used += (e.layout.perUnit - e.nFree) * e.layout.words * 8
			}
		}
	}
	return units, used
}

// Memory use depends only on the contents and on the values that one batch has replaced. The test
// replaces the values of the same keys by values of other lengths.
func TestStringMemoryIsBounded(t *testing.T) { onDevices(t, stringMemoryIsBounded) }

func stringMemoryIsBounded(t *testing.T, dev device.Device, scale int) {
	conformance.SkipRaced(t, oneCore)
	x := filledStrings(t, dev, Options{Capacity: 2000, Size: 40 << 20})
	rng, want := rand.New(rand.NewPCG(5, 5)), model{}
	maxUsed := uint64(0)
	for b := range 300 / scale {
		var keys, values Bytes
		bytes := 0 // size of existing records and of those that the last call replaced
		record := func(key string, value string) { bytes += len(key) + len(value) + 24 }
		size := 1 << rng.IntN(13)
		for i := range 400 / scale {
			keys.Append(fmt.Appendf(nil, "%d", i*5%2000))
			values.Append(make([]byte, size+rng.IntN(size)))
		}
		var err error
		if b%7 == 0 {
			_, err = x.Delete(ctx, keys, nil)
		} else {
			_, err = x.Put(ctx, keys, values)
		}
		must(t, err)
		for i := range keys.Len() {
			key := string(keys.Row(i))
			if v, ok := want[key]; ok {
				record(key, v)
			}
			if delete(want, key); b%7 > 0 {
				want[key] = string(values.Row(i))
			}
		}
		for k, v := range want {
			record(k, v)
		}
		units, used := recordBytes(x.engine.values)
		if maxUsed = max(maxUsed, units); used > uint64(bytes)*9/8 {
			t.Fatalf("batch %d: %d bytes are in use, of records of %d", b, used, bytes)
		}
	}
	must(t, x.Check(ctx))
	want.equalStrings(t, x)
	must(t, x.Compact(ctx))
	units, used := recordBytes(x.engine.values)
	if t.Logf("%d bytes of units at most; behind Compact %d, with records of %d", maxUsed, units, used); units > used+used/4+8<<20 {
		t.Errorf("Compact leaves %d bytes of units to records of %d", units, used)
	}
	must(t, x.Check(ctx))
	want.equalStrings(t, x)
}

// Records of any size can use memory that records of other sizes leave, small and large.
func TestGather(t *testing.T) { onDevices(t, freesRuns) }

func freesRuns(t *testing.T, dev device.Device, scale int) {
	conformance.SkipRaced(t, oneCore)
	smallParts(t)
	o, sizes := Options{Capacity: 60_000, Size: 24 << 20}, []int{10, 60_000, 300, 5000, 70, 20_000, 1500}
	if scale > 1 {
		o, sizes = Options{Capacity: 6000, Size: 12 << 20, Mirror: true}, []int{60_000, 1500, 20_000}
	}
	x, want := filledStrings(t, dev, o), model{}
	rng := rand.New(rand.NewPCG(6, 6))
	for round, n := range sizes {
		full := false
		for i := 0; !full; i++ {
			var keys, values Bytes
			for j := range 1 + 20_000/n {
				keys.Append(fmt.Appendf(nil, "%d of %d: %d", i, n, j))
				values.Append(bytes.Repeat([]byte{byte(i)}, n))
			}
			ok := make([]bool, keys.Len())
			_, err := x.PutNew(ctx, keys, values, ok)
			if full = errors.Is(err, weft.ErrFull); !full {
				must(t, err)
			}
			for j, is := range ok {
				if is {
					want[string(keys.Row(j))] = string(values.Row(j))
				}
			}
		}
		must(t, x.Check(ctx))
		want.equalStrings(t, x)
		live := 0
		for k, v := range want {
			live += len(k) + len(v) + 8
		}
		s, err := x.Stats(ctx)
		must(t, err)
		share := float64(live) / float64(s.PoolBytes-s.LevelBytes-4<<20)
		if t.Logf("round %d, values of %d bytes: the pool is full with %d keys, at %.2f", round, n, x.Len(), share); share < .75 {
			t.Errorf("values of %d bytes: the pool is full when %.2f of it are taken", n, share)
		}
		var deleted Bytes // nine of ten keys, at random
		for k := range want {
			if rng.IntN(10) > 0 {
				deleted.Append([]byte(k))
				delete(want, k)
			}
		}
		if _, err := x.Delete(ctx, deleted, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// Free units that are not contiguous are compacted for large records.
func TestGatherRuns(t *testing.T) { onDevices(t, freesLongRuns) }

func freesLongRuns(t *testing.T, dev device.Device, scale int) {
	o := Options{Capacity: 100_000 / scale}
	if scale > 1 {
		o.Size = 6 << 20
	}
	x, want := filledStrings(t, dev, o), model{}
	var keys, values Bytes
	for i := range 60_000 / scale {
		keys.Append(fmt.Appendf(nil, "%08d", i))
		values.Append(bytes.Repeat([]byte{byte(i)}, 112))
		want[string(keys.Row(i))] = string(values.Row(i))
	}
	_, err := x.Put(ctx, keys, values)
	must(t, err)
	var gone Bytes // all keys in every second unit
	v := x.engine.values
	for k := range want {
		it := x.engine.item([]byte(k))
		_, c, _ := x.engine.find(&it)
		if (c.block()-v.first)/v.unit%2 == 0 {
			gone.Append([]byte(k))
			delete(want, k)
		}
	}
	_, err = x.Delete(ctx, gone, nil)
	must(t, err)
	for i := range 60 / scale {
		large := BytesOf(bytes.Repeat([]byte{byte(i)}, 60_000))
		key := BytesOf(fmt.Sprint("large ", i))
		_, err := x.Put(ctx, key, large)
		must(t, err)
		want[string(key.Data)] = string(large.Data)
	}
	must(t, x.Check(ctx))
	want.equalStrings(t, x)
}
