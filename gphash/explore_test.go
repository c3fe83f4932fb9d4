package gphash

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pm/pmtest"
)

var crashStates = flag.Int("crash-states", 150_000, "images of crashes that tests look at, about")

// serialized is the reason to skip tests of domains under the race detector.
const serialized = "threads of a domain take turns"

// smallShape describes a table of a few buckets, in which all keys of a program collide. A size of
// 0 is a variable length.
type smallShape struct {
	keySize, valueSize, slots, hashes, levels int
	top                                       uint
	threads, batches, ops, keys               int
}

// smallUnit is the allocation unit of test pools, in words.
const smallUnit = 64

// shapes are the tables of programs. With one or two buckets per level all keys collide.
var shapes = []smallShape{
	{keySize: 8, valueSize: 8, slots: 4, hashes: 2, levels: 2, top: 1, threads: 2, batches: 2, ops: 4, keys: 6},
	{keySize: 4, valueSize: 4, slots: 8, hashes: 1, levels: 1, top: 0, threads: 3, batches: 2, ops: 3, keys: 6},
	{keySize: 20, valueSize: 24, slots: 2, hashes: 2, levels: 3, top: 2, threads: 2, batches: 2, ops: 4, keys: 6},
	{keySize: 16, valueSize: 130, slots: 2, hashes: 2, levels: 1, top: 2, threads: 1, batches: 4, ops: 8, keys: 9},
	{slots: 4, hashes: 2, levels: 2, top: 1, threads: 2, batches: 2, ops: 4, keys: 6},
	{slots: 2, hashes: 2, levels: 1, top: 2, threads: 1, batches: 4, ops: 8, keys: 9},
	{keySize: 11, slots: 2, hashes: 2, levels: 2, top: 1, threads: 3, batches: 2, ops: 3, keys: 6},
	{valueSize: 9, slots: 4, hashes: 2, levels: 1, top: 1, threads: 1, batches: 3, ops: 6, keys: 8},
}

func (s *smallShape) records() bool { return s.keySize == 0 || s.valueSize == 0 }

// key returns key i. With variable lengths, several keys have the same length.
func (s *smallShape) key(i int) []byte {
	size := s.keySize
	if size == 0 {
		size = 4 + i*i%19
	}
	key := make([]byte, size)
	binary.LittleEndian.PutUint32(key, uint32(i)*0x9e3779b9)
	return key
}

func (s *smallShape) value(rng *rand.Rand) []byte {
	size := s.valueSize
	if size == 0 {
		size = rng.IntN(4) * rng.IntN(20)
	}
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	return value
}

// trial is a program on a domain, with the states that a crash may leave.
type trial struct {
	shape     smallShape
	rng       *rand.Rand
	d         *pmtest.Domain
	images    *pmtest.Images // images that a crash may leave
	mem       *pm.Memory
	table     *table
	seed      [2]uint64
	keys      [][]byte
	possible  [][][]byte // by key: possible values after a crash; nil if absent
	nImages   int        // number of images checked
	maxImages int        // maximum number of images at one point
	failed    string
	spare     *table
	// reopenImage opens the table that a crash has left. With resume it continues unfinished work,
	// too.
	reopenImage func(resume bool) (*table, *Report)
	// revert reverts a random part of the stores of recovery.
	revert func(rng *rand.Rand, since int)
	// checkContents checks that the contents are possible and returns the number of keys.
	checkContents func(t *table) (there int)
}

func newTrial(shape smallShape, seed uint64) *trial {
	rng := rand.New(rand.NewPCG(seed, 7))
	tr := &trial{shape: shape, rng: rng, seed: [2]uint64{rng.Uint64(), rng.Uint64()}, maxImages: 64}
	const words = 64 * smallUnit
	tr.d = pmtest.New(words, shape.threads)
	tr.images = &tr.d.Images
	tr.mem = pm.New(make([]byte, words*pm.Word), tr.d)
	tr.table = tr.open()
	tr.spare = tr.open()
	tr.reopenImage, tr.checkContents = tr.recover, tr.checkPossible
	tr.revert = func(rng *rand.Rand, since int) { tr.images.RevertRandom(rng, since) }
	for i := range shape.keys {
		tr.keys = append(tr.keys, shape.key(i))
		tr.possible = append(tr.possible, [][]byte{nil})
	}
	return tr
}

// open returns the table before recovery. It reuses the memory of a previous table.
func (tr *trial) open() *table {
	if tr.spare != nil {
		v := tr.spare.values
		for i := range v.space.owner {
			v.space.owner[i].extent.Store(nil)
		}
		v.space.high = len(v.space.owner)
		for i := range v.regions {
			v.regions[i] = region{values: v}
		}
		return tr.spare
	}
	s := tr.shape
	t := &table{
		layout: newLayout(uint64(s.keySize), uint64(s.valueSize), uint64(s.slots)),
		hasher: hasher{SipHash, tr.seed},
		mem:    tr.mem, hashes: s.hashes,
	}
	t.values = newValues(tr.mem, 0, smallUnit, t.fixedValueSize())
	t.values.regions = t.values.regions[:max(s.threads, 1)]
	for i := range s.levels {
		l := level{bits: tr.shape.top - uint(i)}
		first, _ := t.values.space.allocLevel(t.unitsOf(l))
		l.base = first * smallUnit
		t.live = append(t.live, l)
	}
	return t
}

func serial(n, _ int, body func(lo, hi int)) { body(0, n) }

// recover opens the table and repairs it.
func (tr *trial) recover(bool) (*table, *Report) {
	t := tr.open()
	in := inspection{table: t, cleanUp: true, verify: true}
	if err := in.run(context.Background(), serial); err != nil {
		tr.fail("%v", err)
	}
	t.values.distributeUnits(0)
	return t, &in.Report
}

func (tr *trial) fail(format string, args ...any) {
	if tr.failed == "" {
		tr.failed = fmt.Sprintf(format, args...)
	}
}

// checkImage opens the image of a crash. Every key must have a possible value, and further work
// must find the pool intact.
func (tr *trial) checkImage() {
	if tr.failed != "" {
		return
	}
	tr.nImages++
	before := tr.images.NumStores()
	if tr.rng.IntN(4) == 0 { // a crash interrupts recovery, too
		tr.reopenImage(false)
		tr.revert(tr.rng, before)
	}
	t, report := tr.reopenImage(true)
	if tr.failed != "" {
		return
	}
	if report.Damaged > 0 {
		tr.fail("damaged: %v", report.Damage)
		return
	}
	nKeys := tr.checkContents(t)
	if uint64(nKeys) != report.Keys {
		tr.fail("%d keys are found, recovery counts %d", nKeys, report.Keys)
	}
	if tr.rng.IntN(8) == 0 {
		tr.putAnother(t)
	}
}

// checkPossible checks that every key has a possible value and returns the number of existing keys.
func (tr *trial) checkPossible(t *table) (nKeys int) {
	value := make([]byte, tr.shape.valueSize)
	for i, key := range tr.keys {
		it := t.item(key)
		got, ok := t.get(&it, value)
		if ok {
			nKeys++
		}
		fine := false
		for _, allowed := range tr.possible[i] {
			fine = fine || (allowed != nil) == ok && (!ok || bytes.Equal(allowed, got))
		}
		if !fine {
			tr.fail("key %d: found %v, %x; it may be %x", i, ok, got, tr.possible[i])
		}
	}
	return nKeys
}

// putAnother puts a new key and checks that no other key changes.
func (tr *trial) putAnother(t *table) {
	w := writer{table: t, region: t.values.regionOf(0, 0)}
	it := t.item(tr.shape.key(1000))
	value := tr.shape.value(tr.rng)
	o := w.change(op.Put, &it, value, nil, nil)
	got, ok := t.get(&it, make([]byte, len(value)))
	if o.err == nil && (!ok || !bytes.Equal(got, value)) {
		tr.fail("a key that was put behind recovery is %x", got)
	}
	tr.checkContents(t)
}

// run runs the program: in each batch every thread changes separate keys. Possible crashes are
// checked after every store.
func (tr *trial) run() {
	s := tr.shape
	tr.d.Step = func() { tr.d.Crash(tr.rng, tr.maxImages, tr.checkImage) }
	for range s.batches {
		tr.table.values.recycle()
		if s.records() {
			if _, err := (&engine{table: tr.table}).freeRuns(1+tr.rng.IntN(2), 4); err != nil {
				tr.fail("gather: %v", err)
			}
		}
		threads := make([]func(), s.threads)
		for i := range threads {
			threads[i] = func() { tr.thread(i) }
		}
		tr.d.Run(tr.rng, threads...)
	}
}

func (tr *trial) thread(id int) {
	s := tr.shape
	w := tr.table.newWriter(&tr.table.values.regions[id], s.threads == 1)
	buf := make([]byte, s.valueSize)
	for range s.ops {
		key := tr.rng.IntN(s.keys/s.threads)*s.threads + id
		kind := [...]op.Kind{op.Put, op.Put, op.PutNew, op.Update, op.Delete, op.Get}[tr.rng.IntN(6)]
		value := s.value(tr.rng)
		old := tr.possible[key][0]
		next := old
		switch {
		case kind == op.Put, kind == op.PutNew && old == nil, kind == op.Update && old != nil:
			next = value
		case kind == op.Delete:
			next = nil
		}
		tr.possible[key] = [][]byte{old, next} // possible while the operation runs
		it := tr.table.item(tr.keys[key])
		o := w.change(kind, &it, value, buf, nil)
		if o.err != nil {
			next = old
		}
		tr.possible[key] = [][]byte{next}
		if o.hasValue && !bytes.Equal(o.value, old) {
			tr.fail("%v of key %d read %x, it was %x", kind, key, o.value, old)
		}
	}
}

// explore runs programs until about the given number of images has been checked, or one of them was
// wrong.
func explore(states int, change func(*trial)) (images int, failed string) {
	return pmtest.Explore(states, func(seed uint64) (int, string) {
		tr := newTrial(shapes[seed%uint64(len(shapes))], seed)
		if change != nil {
			change(tr)
		}
		tr.run()
		return tr.nImages, tr.failed
	})
}

// After a crash that loses unfenced stores, all acknowledged operations are done, no operation is
// half done, and the pool remains usable.
func TestCrashes(t *testing.T) {
	conformance.SkipRaced(t, serialized)
	images, failed := explore(*crashStates, nil)
	if failed != "" {
		t.Fatal(failed)
	}
	t.Logf("%d images of crashes", images)
}

// ofRecords restricts a mutant to shapes with records.
func ofRecords(change func(*trial)) func(*trial) {
	return func(tr *trial) {
		if tr.shape.records() {
			change(tr)
		}
	}
}

// The tests detect each mutant of the protocol.
func TestCrashMutants(t *testing.T) {
	conformance.SkipRaced(t, serialized)
	noFence := func(function string, number int) func(*trial) {
		return func(tr *trial) { tr.d.Mutant = pmtest.NoFence(function, number) }
	}
	for name, change := range map[string]func(*trial){
		"no fence behind the value":            noFence("gphash.(*writer).storeValue", 0),
		"no fence before publication":          noFence("gphash.(*table).publish", 0),
		"no fence behind publication":          noFence("gphash.(*table).publish", 1),
		"a key that has moved is written over": noFence("gphash.(*table).publish", 2),
		"no fence behind an update":            noFence("gphash.(*writer).update", 0),
		"no fence behind a delete":             noFence("gphash.(*writer).remove", 0),
		"no fence behind a record":             ofRecords(noFence("gphash.(*writer).storeValue", 0)),
		"no fence behind a record that moves":  noFence("gphash.(*engine).moveRecord", 0),
		"a record that has moved is free":      noFence("gphash.(*engine).moveRecord", 1),
		"a record moves with the checksum of its old place": func(tr *trial) {
			tr.d.Mutant = func(a *pmtest.Access) bool {
				if f, _ := pmtest.Site(); a.Kind == pmtest.Store && f == "gphash.(*engine).moveRecord" && !tr.table.isControl(a.At) {
					a.New ^= 1
				}
				return false
			}
		},
		"no state for what is being written": func(tr *trial) {
			tr.d.Mutant = func(a *pmtest.Access) bool {
				return a.Kind == pmtest.CompareAndSwap && tr.table.isControl(a.At) && control(a.New).state() == writing
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			images, failed := explore(3_000_000, change)
			if failed == "" {
				t.Fatalf("not found in %d images", images)
			}
			t.Logf("found after %d images: %.100s", images, failed)
		})
	}
}
