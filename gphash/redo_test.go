package gphash

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// fixedPools are the smallPools with lengths that planter supports.
var fixedPools = []Options{{KeySize: 8, ValueSize: 20}, {KeySize: 24, ValueSize: 8}}

// postImage is a key and its value after a batch; value is nil if the key is absent.
type postImage struct{ key, value []byte }

// planter publishes batches without applying them.
type planter struct {
	*engine
	slots map[string]planted // by key: slot after the planted batches
}

type planted struct {
	slotRef
	control
}

// plant publishes a batch after the batch last, or in an empty log if last is nil.
func (p *planter) plant(last *redoBatch, images ...postImage) *redoBatch {
	b := p.redo.firstBatch(uint64(len(images)), 0)
	if last != nil {
		b.at, b.sequence = p.redo.end(last), last.sequence+1
	}
	var records []uint64
	for _, im := range images {
		it := p.item(im.key)
		at := p.slot(&it)
		becomes := at.next(tomb, 0)
		if im.value != nil {
			block, err := p.values.regionOf(it.hash, p.bits()).alloc(0)
			if err != nil {
				panic(err)
			}
			p.values.write(block, it.hash, im.value)
			becomes = at.next(full, block)
		}
		p.slots[string(im.key)] = planted{at.slotRef, becomes}
		records = append(records, p.table.control(at.slotRef), uint64(becomes), it.tag)
	}
	p.mem.Write(b.records(), device.Bytes(records))
	p.redo.publish(b, digestsOf(0, records))
	return b
}

// slot returns the slot of a key. For a new key it reserves a slot.
func (p *planter) slot(it *item) planted {
	if s, ok := p.slots[string(it.key)]; ok {
		return s
	}
	at, c, ok := p.find(it)
	if !ok {
		ch := keyChange{item: *it}
		ch.at, ch.oldControl, _ = p.vacantSlot(it)
		(&images{writer: p.newWriter(nil, false)}).claimSlot(&ch)
		at, c = ch.at, ch.oldControl
	}
	return planted{at, c}
}

func planting(x *Index) *planter { return &planter{x.engine, map[string]planted{}} }

// logged returns an image with keys 0 to 19 and two batches in its log. applied includes these.
func logged(t testing.TB, o Options) (im *image, applied model) {
	o.Capacity, o.AtomicBatch = 20, 8
	im = filled(t, openCPU(t), o, 20)
	im.markUnclean(t)
	p := planting(im.mustOpen(t, OpenOptions{}))
	key := func(i int) []byte { return denseKey(o.KeySize, i) }
	value := func(i int, version uint64) []byte { return valueOf(o.ValueSize, key(i), version) }
	first := p.plant(nil, postImage{key(1), value(1, 7)}, postImage{key: key(2)}, postImage{key(40), value(40, 7)})
	p.plant(first, postImage{key(40), value(40, 8)}, postImage{key: key(3)})
	im.save()
	applied = maps.Clone(im.want)
	for i, version := range map[int]uint64{1: 7, 40: 8} {
		applied[string(key(i))] = string(value(i, version))
	}
	delete(applied, string(key(2)))
	delete(applied, string(key(3)))
	return im, applied
}

// Published batches are applied in their order, any number of times. A pool with such batches
// cannot be opened for reading only.
func TestReplay(t *testing.T) {
	for _, o := range fixedPools {
		im, applied := logged(t, o)
		l := im.table(t).redo
		sum := l.mem.Load(l.first + headSum)
		p, err := pool.OpenMemory(im.memory())
		must(t, err)
		e, err := newEngine(p, im.dev.(device.Host))
		must(t, err)
		for range 3 {
			x, report, err := im.open(OpenOptions{Verify: true})
			must(t, err)
			if report.Replayed != 2 || report.Torn || report.Damaged != 0 || report.Keys != uint64(len(applied)) {
				t.Fatalf("%+v", report)
			}
			applied.equal(t, x)
			must(t, x.Check(ctx))
			l.mem.Store(l.first+headSum, sum) // as if the log had not been emptied
			if err := x.Check(ctx); !errors.Is(err, op.ErrCorrupt) {
				t.Errorf("Check with batches in the log: %v", err)
			}
		}
		if err := e.replay(&Report{}, false); err != nil {
			t.Error(err)
		}
		x, report, err := im.open(OpenOptions{})
		must(t, err)
		if report.Replayed != 0 {
			t.Errorf("%+v", report)
		}
		applied.equal(t, x)
	}
}

// A record is refused unless its word is the control word of a slot.
func TestRecordsOfNoSlot(t *testing.T) {
	for _, o := range fixedPools {
		o.Capacity, o.AtomicBatch = 20, 8
		im := filled(t, openCPU(t), o, 20)
		im.markUnclean(t)
		x := im.mustOpen(t, OpenOptions{})
		bottom := x.engine.live[len(x.engine.live)-1]
		end := bottom.base + x.engine.bucketWords<<bottom.bits
		for _, at := range []uint64{0, bottom.base - 1, bottom.base + x.engine.slots, end - 1, end, x.engine.mem.Words(), 1 << 63} {
			l := x.engine.redo
			record := []uint64{at, uint64(control(0).next(tomb, 0)), 7}
			b := l.firstBatch(1, 0)
			l.mem.Write(b.records(), device.Bytes(record))
			l.publish(b, digestsOf(0, record))
			if _, _, err := im.open(OpenOptions{}); !errors.Is(err, op.ErrCorrupt) || !strings.Contains(err.Error(), "no slot begins") {
				t.Errorf("word %#x: %v", at, err)
			}
			l.truncate()
		}
		im.checkWhole(t, im.mustOpen(t, OpenOptions{Verify: true}))
	}
}

// Applying a batch repeatedly does not change its sums.
func TestReplayOfSums(t *testing.T) {
	im := filled(t, openCPU(t), Options{KeySize: 8, ValueSize: 8, Capacity: 20, AtomicBatch: 8}, 20)
	im.markUnclean(t)
	x := im.mustOpen(t, OpenOptions{})
	key, n := denseKey(8, 1), 5
	sum := binary.LittleEndian.Uint64([]byte(im.want[string(key)]))
	input := make([]uint64, n)
	for i := range input {
		input[i] = uint64(i + 1)
		sum += input[i]
	}
	_, failed, err := x.engine.Change(ctx, nil, &batch.Batch{N: n, Kind: op.Sum, Columns: batch.Columns{
		batch.Keys: batch.Input(bytes.Repeat(key, n)).WithWidth(8), batch.Vals: batch.Input(input),
	}})
	if err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	im.want[string(key)] = string(binary.LittleEndian.AppendUint64(nil, sum))
	im.checkWhole(t, x)
	l := x.engine.redo
	b := redoBatch{at: l.first, sequence: l.mem.Load(l.first + headSequence), count: 1}
	r := l.record(&b, 0)
	for range 2 {
		l.mem.Store(l.first+headSum, l.checksum(&b, digestsOf(0, r[:])))
		x, report, err := im.open(OpenOptions{Verify: true})
		must(t, err)
		if report.Replayed != 1 {
			t.Fatalf("%+v", report)
		}
		im.checkWhole(t, x)
	}
}

func TestReplayReadOnly(t *testing.T) {
	dev, dir := openCPU(t), t.TempDir()
	x, err := Create(filepath.Join(dir, "live"), dev, Options{KeySize: 8, ValueSize: 8, Size: 16 << 20, AtomicBatch: 10})
	must(t, err)
	_, err = x.Put(ctx, denseKey(8, 1), make([]byte, 8))
	must(t, err)
	planting(x).plant(nil, postImage{denseKey(8, 2), make([]byte, 8)})
	content, err := os.ReadFile(filepath.Join(dir, "live"))
	must(t, err)
	must(t, x.Close())
	killed := filepath.Join(dir, "killed")
	must(t, os.WriteFile(killed, content, 0o600))
	if _, _, err := Open(ctx, killed, dev, OpenOptions{ReadOnly: true}); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "1 batches of the redo log") {
		t.Errorf("read-only: %v", err)
	}
	x, report, err := Open(ctx, killed, dev, OpenOptions{})
	must(t, err)
	if report.Replayed != 1 || x.Len() != 2 {
		t.Errorf("%+v, %d keys", report, x.Len())
	}
	must(t, x.Close())
	x, _, err = Open(ctx, killed, dev, OpenOptions{ReadOnly: true})
	must(t, err)
	must(t, x.Close())
}

// A closed pool has an empty log. Batches from an older page are damage.
func TestNoReplayOfClosed(t *testing.T) {
	for _, o := range fixedPools {
		im, _ := logged(t, o)
		l := im.table(t).redo
		log := l.mem.Bytes()[l.first*pm.Word:][:pool.Page]
		old := bytes.Clone(log)
		o.Capacity, o.AtomicBatch = 20, 8
		im = filled(t, openCPU(t), o, 20)
		copy(im.bytes[l.first*pm.Word:], old)
		if _, _, err := im.open(OpenOptions{}); !errors.Is(err, op.ErrCorrupt) || !strings.Contains(err.Error(), "was closed") {
			t.Errorf("%v", err)
		}
		x, report, err := im.open(OpenOptions{Repair: true})
		if err != nil || report.Damaged != 1 || report.Replayed != 0 {
			t.Errorf("repair: %v, %+v", err, report)
		}
		im.checkWhole(t, x)
	}
}

// An unpublished batch has no effect, and is reported once.
func TestTorn(t *testing.T) {
	im, _ := logged(t, fixedPools[0])
	l := im.table(t).redo
	l.mem.Store(l.first+headSum, unpublished)
	for _, torn := range []bool{true, false} {
		x, report, err := im.open(OpenOptions{Verify: true})
		must(t, err)
		if report.Torn != torn || report.Replayed != 0 {
			t.Errorf("%+v", report)
		}
		im.checkWhole(t, x)
	}
}

// If any bit of the log flips, published batches are corrupt. A repair drops the damaged batch and
// all later ones. Flips outside the batches do not matter.
func TestRedoFlips(t *testing.T) {
	for _, o := range fixedPools {
		im, applied := logged(t, o)
		l := im.table(t).redo
		all, err := l.published()
		must(t, err)
		covered := map[uint64]bool{l.end(all[1]) + headSum: true}
		for _, b := range all {
			for w := range headWords + b.count*recordWords {
				covered[b.at+w] = true
			}
		}
		for w := l.first; w < l.end(all[1])+headWords; w++ {
			for bit := w % uint64(*flips); bit < 64; bit += uint64(*flips) {
				im.bytes[w*pm.Word+bit/8] ^= 1 << (bit % 8)
				x, report, err := im.open(OpenOptions{Verify: true})
				if errors.Is(err, op.ErrCorrupt) != covered[w] {
					t.Fatalf("bit %d of word %d: %v", bit, w-l.first, err)
				}
				if covered[w] {
					if x, report, err = im.open(OpenOptions{Repair: true}); err != nil || report.Damaged != 1 {
						t.Fatalf("repair: %v, %+v", err, report)
					}
				} else {
					applied.equal(t, x)
				}
				if damaged := int(report.Replayed); covered[w] && (w < all[1].at && damaged != 0 || w >= all[1].at && damaged == 0) {
					t.Fatalf("word %d: %d batches replayed", w-l.first, damaged)
				}
				must(t, x.Check(ctx))
				must(t, x.Close())
				im.restore()
			}
		}
	}
}

// FuzzRedo overwrites words of a log with batches in it. Keys outside the batches stay unchanged,
// and the pool opens, possibly with a repair.
func FuzzRedo(f *testing.F) {
	im, _ := logged(f, fixedPools[1])
	named := map[string]bool{}
	for _, i := range []int{1, 2, 3, 40, 41} {
		named[string(denseKey(24, i))] = true
	}
	patch := func(words ...uint64) (b []byte) {
		for i := 0; i < len(words); i += 2 {
			b = binary.LittleEndian.AppendUint64(append(b, byte(words[i])), words[i+1])
		}
		return b
	}
	f.Add(patch(headSum, 1))
	f.Add(patch(headCount, ^uint64(0), headLength, 1<<40))
	f.Add(patch(headSum, 0, headWords, 77))
	f.Fuzz(func(t *testing.T, patches []byte) {
		defer im.restore()
		l := im.table(t).redo
		for ; len(patches) >= 9; patches = patches[9:] {
			l.mem.Store(l.first+uint64(patches[0])%(l.last-l.first), binary.LittleEndian.Uint64(patches[1:]))
		}
		x, _, err := im.open(OpenOptions{Verify: true})
		if errors.Is(err, op.ErrCorrupt) {
			x, _, err = im.open(OpenOptions{Repair: true})
		}
		must(t, err)
		must(t, x.Check(ctx))
		value := make([]byte, 8)
		for k, v := range im.want {
			if hits, err := x.Get(ctx, []byte(k), value, nil); !named[k] && (err != nil || hits != 1 || string(value) != v) {
				t.Fatalf("key %x is %x, not %x, %v", k, value, v, err)
			}
		}
	})
}

// A call with more operations than fit in the log is split into batches. A batch without capacity
// for all its keys leaves the old contents.
func TestAtomicBatches(t *testing.T) {
	forEachWidth(t, Options{Capacity: 100, Size: 8 * mebibyte, AtomicBatch: 9}, func(t *testing.T, im *image) {
		x := im.mustOpen(t, OpenOptions{})
		if n := x.engine.redo.capacity(); n < 9 || n > 400 {
			t.Fatalf("batches of %d", n)
		}
		im.put(t, x, 0, 1900, 0)
		im.put(t, x, 500, 1000, 1)
		var keys Bytes
		for i := range 700 {
			keys.Append(denseKey(int(x.engine.keySize), i))
			delete(im.want, string(keys.Row(i)))
		}
		n, err := deleteRows(x, keys)
		if err != nil || n != 700 {
			t.Fatal(n, err)
		}
		im.checkWhole(t, x)
		must(t, x.Close())
		x = im.mustOpen(t, OpenOptions{Verify: true})
		im.checkWhole(t, x)
		must(t, x.Clear(ctx))
		clear(im.want)
		im.checkWhole(t, x)
	})
}

func TestAtomicFull(t *testing.T) {
	for _, o := range []Options{
		// too few slots
		{KeySize: 8, ValueSize: 8, Size: pool.DataStart + 8*pool.Page},
		// too little memory for values
		{KeySize: 8, ValueSize: 3000, Capacity: 300, Size: pool.DataStart + 40*pool.Page},
	} {
		o.AtomicBatch = 8
		im, err := formatted(t, openCPU(t), o, nil)
		must(t, err)
		x := im.mustOpen(t, OpenOptions{})
		const n = 8
		ok := make([]bool, n)
		for at := 0; ; at += n {
			var keys, values []byte
			for i := at; i < at+n; i++ {
				keys, values = append(keys, denseKey(8, i)...), append(values, valueOf(o.ValueSize, denseKey(8, i), 0)...)
			}
			if added, err := x.PutNew(ctx, keys, values, ok); err != nil {
				if !errors.Is(err, weft.ErrFull) || added != 0 || at == 0 || !strings.Contains(err.Error(), "8 of 8") {
					t.Fatalf("%d added at %d: %v", added, at, err)
				}
				if bytes.Contains(batch.Optional(ok).Host, []byte{1}) {
					t.Error(ok)
				}
				break
			}
			for i := range n {
				im.want[string(row(keys, i, 8))] = string(row(values, i, uint64(o.ValueSize)))
			}
		}
		im.checkWhole(t, x)
		x, report, err := im.open(OpenOptions{})
		if err != nil || report.Unfinished != 0 {
			t.Errorf("slots are reserved for a batch that has been refused: %+v, %v", report, err)
		}
		for k := range im.want {
			if _, err := x.Delete(ctx, []byte(k), nil); err != nil {
				t.Fatal(err)
			}
		}
		if x.Len() != 0 {
			t.Error(x.Len())
		}
		must(t, x.Check(ctx))
	}
}

// AtomicBatch has a maximum. If a GPU refuses the options, Create leaves no file.
func TestAtomicOptions(t *testing.T) {
	o := Options{KeySize: 8, ValueSize: 8, Size: 16 << 20, AtomicBatch: maxAtomic + 1}
	if _, err := Create(filepath.Join(t.TempDir(), "pool"), openCPU(t), o); !errors.Is(err, weft.ErrOptions) {
		t.Error(err)
	}
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	path := filepath.Join(t.TempDir(), "pool")
	o.AtomicBatch, o.Cache = 10, 1.5
	_, err := Create(path, dev, o)
	if _, serr := os.Stat(path); !errors.Is(err, weft.ErrOptions) || !os.IsNotExist(serr) {
		t.Errorf("%v; %v", err, serr)
	}
}

// If an index has a log larger than the largest batch, its copy has a log for the largest batch.
func TestCopyOfLargestBatches(t *testing.T) {
	dev := openCPU(t)
	m, err := CreateMap[uint64, uint64](filepath.Join(memoryDir(t), "pool"), dev, Options{AtomicBatch: maxAtomic, AtomicTail: 1000})
	must(t, err)
	_, err = m.Put(ctx, []uint64{1, 2}, []uint64{3, 4})
	must(t, err)
	other, err := m.CopyTo(ctx, dev)
	must(t, err)
	if other.Len() != 2 {
		t.Error(other.Len())
	}
	must(t, other.Close())
	must(t, m.Close())
}
