package gphash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// putRows, deleteRows, getRows and allRows call the methods of an index with any lengths.
func putRows(x *Index, keys, values Bytes) (int, error) {
	if x.engine.records() {
		return (&Strings{x.core, x.engine}).Put(ctx, keys, values)
	}
	return x.Put(ctx, keys.Data, values.Data)
}

func deleteRows(x *Index, keys Bytes) (int, error) {
	if x.engine.records() {
		return (&Strings{x.core, x.engine}).Delete(ctx, keys, nil)
	}
	return x.Delete(ctx, keys.Data, nil)
}

func getRows(x *Index, keys Bytes, values [][]byte, found []bool) (hits int, err error) {
	if x.engine.records() {
		var got Bytes
		hits, err = (&Strings{x.core, x.engine}).Get(ctx, keys, &got, found)
		for i := range values {
			values[i] = got.Row(i)
		}
		return hits, err
	}
	got := make([]byte, keys.Len()*x.ValueSize())
	hits, err = x.Get(ctx, keys.Data, got, found)
	for i := range values {
		values[i] = row(got, i, x.engine.valueSize)
	}
	return hits, err
}

func allRows(x *Index) iter.Seq2[[]byte, []byte] {
	if x.engine.records() {
		return (&Strings{x.core, x.engine}).All(ctx)
	}
	return x.All(ctx)
}

// Each record fits the size of its class and leaves at most an eighth of it unused. The same holds
// for a class and its units.
func TestClasses(t *testing.T) {
	for _, unit := range []uint64{smallUnit, imageUnit, recordUnit} {
		classes := recordClasses(unit)
		v := &values{unitLayout: unitLayout{unit: unit}, classes: classes}
		for words := uint64(2); words <= newHeader(maxLongKey, maxValue).words(); words++ {
			class, ok := v.class(8, int(words-2)*pm.Word)
			if words > maxRunUnits*unit {
				if ok {
					t.Fatalf("units of %d words: one of %d words has class %d", unit, words, class)
				}
				continue
			}
			l := &classes[class]
			if !ok || l.words < words || l.words-words > l.words/8 || class > 0 && classes[class-1].words >= words {
				t.Fatalf("%d words have class %d, of %d", words, class, l.words)
			}
			left := l.unit - l.perUnit*l.words
			if l.unit%unit != 0 || l.unit > maxRunUnits*unit || l.unit < maxRunUnits*unit && left > l.unit/8 {
				t.Fatalf("records of %d words leave %d of %d", l.words, left, l.unit)
			}
		}
	}
	if left := recordClasses(recordUnit); left[len(left)-1].perUnit < minRunRecords {
		t.Errorf("%d records of the largest class lie in %d words", left[len(left)-1].perUnit, left[len(left)-1].unit)
	}
	for _, n := range [][2]int{{1, 0}, {maxLongKey, maxValue}, {7, 8}} {
		if h := newHeader(n[0], n[1]) | math.MaxUint32; h.keyLen() != n[0] || h.valueLen() != n[1] || h>>62 != 0 {
			t.Errorf("lengths %v are %d and %d", n, h.keyLen(), h.valueLen())
		}
	}
}

// hostileHeaders are headers that a file may contain.
var hostileHeaders = []struct {
	name  string
	spoil func(h header) header
}{
	{"zero", func(header) header { return 0 }},
	{"all ones", func(header) header { return ^header(0) }},
	{"no key", func(h header) header { return newHeader(0, h.valueLen()) | h&math.MaxUint32 }},
	{"a key longer than any", func(h header) header { return newHeader(1<<keyBits-1, h.valueLen()) | h&math.MaxUint32 }},
	{"a key that has the value", func(h header) header { return newHeader(h.keyLen()+h.valueLen(), 0) | h&math.MaxUint32 }},
	{"a longer key", func(h header) header { return newHeader(h.keyLen()+1, h.valueLen()) | h&math.MaxUint32 }},
	{"a value of its unit's size", func(h header) header { return newHeader(h.keyLen(), imageUnit*pm.Word) | h&math.MaxUint32 }},
	{"a value as long as any", func(h header) header { return newHeader(h.keyLen(), maxValue) | h&math.MaxUint32 }},
	{"a value longer than any", func(h header) header { return newHeader(h.keyLen(), 1<<(32-keyBits)-1) | h&math.MaxUint32 }},
	{"a value of another class", func(h header) header { return newHeader(h.keyLen(), h.valueLen()+64) | h&math.MaxUint32 }},
	{"a shorter value", func(h header) header { return newHeader(h.keyLen(), max(h.valueLen()-9, 0)) | h&math.MaxUint32 }},
	{"another checksum", func(h header) header { return h ^ 1<<31 }},
}

// Headers of records are checked even without Verify: no memory outside the pool is read, and no
// other key is lost.
func TestHostileHeaders(t *testing.T) {
	dev := openCPU(t)
	for _, o := range smallPools {
		if o.KeySize > 0 && o.ValueSize > 0 {
			continue
		}
		o.Capacity = 20
		im := filled(t, dev, o, 20)
		tb := im.table(t)
		for _, d := range hostileHeaders {
			for k := range im.want {
				it := tb.item([]byte(k))
				_, c, _ := tb.find(&it)
				h, _ := tb.values.record(c.block())
				tb.mem.Store(c.block(), uint64(d.spoil(h)))
				// Open does not check checksums here
				if x, _, err := im.open(OpenOptions{}); err == nil {
					for range allRows(x) {
					}
					x.engine.get(&it, []byte{})
				} else if !errors.Is(err, op.ErrCorrupt) {
					t.Fatalf("%s: %v", d.name, err)
				}
				if d.spoil(h) != h && !im.allowsDamage(t, map[string]bool{k: true}) {
					t.Errorf("%s: not found", d.name)
				}
				im.restore()
			}
		}
	}
}

// If records with valid checksums contradict each other, in one unit or in several, a repair drops
// records until the rest is consistent.
func TestHostileRecords(t *testing.T) {
	dev := openCPU(t)
	for seed := range uint64(300) {
		im := filled(t, dev, Options{Capacity: 20}, 20)
		tb, rng := im.table(t), rand.New(rand.NewPCG(seed, 4))
		for k := range im.want {
			if rng.IntN(2) == 0 {
				continue
			}
			it := tb.item([]byte(k))
			at, c, ok := tb.find(&it)
			if !ok {
				continue // another record overlaps it
			}
			value := make([]byte, rng.IntN(40)*rng.IntN(20))
			words := newHeader(len(k), len(value)).words()
			block := tb.values.first + rng.Uint64N(tb.mem.Words()-words-tb.values.first)
			if rng.IntN(2) == 0 { // the record begins at a possible place
				size := classSize(classOf(words))
				block = tb.values.first + (block-tb.values.first)/size*size
			}
			tb.values.writeRecord(block, &it, value)
			tb.mem.Store(tb.control(at), uint64(c.next(full, block)))
		}
		x, report, err := im.open(OpenOptions{Repair: true})
		must(t, err)
		must(t, x.Check(ctx))
		im.want = model{}
		for k, v := range allRows(x) {
			im.want[string(k)] = string(v)
		}
		im.put(t, x, 100, 110, 0)
		im.checkWhole(t, x)
		if seed == 0 {
			t.Logf("%d keys are left, %d given up: %q", report.Keys, report.Damaged, report.Damage)
		}
	}
}

// Keys with the same hash have separate records, since the tag does not distinguish the keys.
func TestCollidingStrings(t *testing.T) {
	o := Options{Hash: Fast, Seed: [2]uint64{3, 5}}
	x, want := filledStrings(t, openCPU(t), o), model{}
	colliding := func(lo, hi uint64) (keys, values Bytes) {
		for i := lo; i < hi; i++ {
			first := hash.Uint64(i, 9)
			key := binary.LittleEndian.AppendUint64(nil, first)
			keys.Append(binary.LittleEndian.AppendUint64(key, 77^hash.Uint64(o.Seed[0]^16^first, o.Seed[1])))
			values.Append(fmt.Appendf(nil, "value %d", i))
		}
		return keys, values
	}
	keys, values := colliding(0, 12)
	for i := range keys.Len() {
		if h := x.engine.hash(keys.Row(i)); h != x.engine.hash(keys.Row(0)) {
			t.Fatal("the keys do not collide")
		}
		want[string(keys.Row(i))] = string(values.Row(i))
	}
	n, err := x.Put(ctx, keys, values)
	must(t, err)
	if n != 12 {
		t.Errorf("%d of 12 keys are new", n)
	}
	deleted, _ := colliding(3, 6)
	n, err = x.Delete(ctx, deleted, nil)
	must(t, err)
	if n != 3 {
		t.Errorf("%d of 3 keys are deleted", n)
	}
	for i := range deleted.Len() {
		delete(want, string(deleted.Row(i)))
	}
	var got Bytes
	absent, _ := colliding(0, 20)
	found := make([]bool, absent.Len())
	n, err = x.Get(ctx, absent, &got, found)
	must(t, err)
	for i := range found {
		if v, ok := want[string(absent.Row(i))]; ok != found[i] || v != string(got.Row(i)) {
			t.Errorf("key %d: found %v, %q, want %q", i, found[i], got.Row(i), v)
		}
	}
	if hits, err := x.Contains(ctx, absent, nil); err != nil || hits != n || n != 9 {
		t.Errorf("%d are found, %d are there: %v", n, hits, err)
	}
	want.equalStrings(t, x)
	must(t, x.Compact(ctx)) // must move each record for the right slot
	must(t, x.Check(ctx))
	want.equalStrings(t, x)
}

// A replaced or deleted record belongs to no key, even if a damaged control word refers to it.
func TestFreeRecords(t *testing.T) {
	im, err := formatted(t, openCPU(t), Options{Capacity: 20}, nil)
	must(t, err)
	x := im.mustOpen(t, OpenOptions{})
	tb := x.engine.table
	im.put(t, x, 0, 1, 0)
	it := tb.item(denseKey(0, 0))
	_, was, _ := tb.find(&it)
	im.put(t, x, 0, 1, 1)
	x.engine.recycle()
	at, c, _ := tb.find(&it)
	tb.mem.Store(tb.control(at), uint64(c.next(full, was.block())))
	if _, _, err := im.open(OpenOptions{Verify: true}); !errors.Is(err, op.ErrCorrupt) {
		t.Errorf("a key with the record that it had: %v", err)
	}
}

// No memory beyond the end of the pool is read, whatever lengths a header has.
func TestRecordsAtTheEnd(t *testing.T) {
	im, err := formatted(t, openCPU(t), Options{Capacity: 20}, nil)
	must(t, err)
	v := im.table(t).values
	for _, h := range []header{newHeader(8, 0), newHeader(1, 8), newHeader(1<<keyBits-1, 0), newHeader(1, 1<<(32-keyBits)-1), ^header(0)} {
		for back := uint64(1); back < h.words(); back = min(2*back, h.words()) {
			block := v.end() - back
			v.mem.Store(block, uint64(h))
			if _, ok := v.record(block); ok || v.hasKey(block, make([]byte, h.keyLen())) || len(v.appendValue(block, nil)) > 0 {
				t.Errorf("a record of %d words lies in the last %d", h.words(), back)
			}
		}
	}
	for _, block := range []uint64{0, v.first - 1, v.end(), 1<<blockBits - 1} {
		if _, ok := v.record(block); ok {
			t.Errorf("a record lies at word %#x", block)
		}
	}
}

// Records with lengths that the pool does not allow are damage, even if their checksums are valid.
func TestLengthsOfRecords(t *testing.T) {
	for _, c := range []struct {
		o          Options
		key, value int
	}{{Options{}, 0, 5}, {Options{}, maxLongKey + 1, 0}, {Options{KeySize: 13}, 12, 5}, {Options{ValueSize: 9}, 12, 10}} {
		c.o.Capacity = 20
		c.o.Size = pool.DataStart + 64*pool.Page
		im, err := formatted(t, openCPU(t), c.o, nil)
		must(t, err)
		x := im.mustOpen(t, OpenOptions{})
		it := x.engine.item(make([]byte, c.key))
		w := x.engine.newWriter(x.engine.values.regionOf(0, 0), true)
		if o := w.change(op.Put, &it, make([]byte, c.value), nil, nil); !o.ok {
			t.Fatal(o.err)
		}
		if _, _, err := im.open(OpenOptions{}); !errors.Is(err, op.ErrCorrupt) {
			t.Errorf("%+v, a key of %d bytes and a value of %d: %v", c.o, c.key, c.value, err)
		}
	}
}
