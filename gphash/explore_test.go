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

// oneAtATime is why the race detector finds nothing with domains.
const oneAtATime = "threads of a domain take turns"

// small is a table of a few buckets, in which all keys of a program collide. Sizes of 0 are
// variable lengths.
type small struct {
	keySize, valueSize, slots, hashes, levels int
	top                                       uint
	threads, batches, ops, keys               int
}

// smallUnit is the allocation unit of test pools, in words.
const smallUnit = 64

// shapes are the tables of programs: with a bucket or two per level everything collides.
var shapes = []small{
	{keySize: 8, valueSize: 8, slots: 4, hashes: 2, levels: 2, top: 1, threads: 2, batches: 2, ops: 4, keys: 6},
	{keySize: 4, valueSize: 4, slots: 8, hashes: 1, levels: 1, top: 0, threads: 3, batches: 2, ops: 3, keys: 6},
	{keySize: 20, valueSize: 24, slots: 2, hashes: 2, levels: 3, top: 2, threads: 2, batches: 2, ops: 4, keys: 6},
	{keySize: 16, valueSize: 130, slots: 2, hashes: 2, levels: 1, top: 2, threads: 1, batches: 4, ops: 8, keys: 9},
	{slots: 4, hashes: 2, levels: 2, top: 1, threads: 2, batches: 2, ops: 4, keys: 6},
	{slots: 2, hashes: 2, levels: 1, top: 2, threads: 1, batches: 4, ops: 8, keys: 9},
	{keySize: 11, slots: 2, hashes: 2, levels: 2, top: 1, threads: 3, batches: 2, ops: 3, keys: 6},
	{valueSize: 9, slots: 4, hashes: 2, levels: 1, top: 1, threads: 1, batches: 3, ops: 6, keys: 8},
}

func (s *small) records() bool { return s.keySize == 0 || s.valueSize == 0 }

// key returns key i. With variable length, some keys have the same length.
func (s *small) key(i int) []byte {
	size := s.keySize
	if size == 0 {
		size = 4 + i*i%19
	}
	key := make([]byte, size)
	binary.LittleEndian.PutUint32(key, uint32(i)*0x9e3779b9)
	return key
}

// value returns a random value.
func (s *small) value(rng *rand.Rand) []byte {
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

// trial is a program on a domain, and the states that a crash may leave.
type trial struct {
	shape  small
	rng    *rand.Rand
	d      *pmtest.Domain
	images *pmtest.Images // images that a crash may leave
	mem    *pm.Memory
	table  *table
	seed   [2]uint64
	keys   [][]byte
	may    [][][]byte // by key: values that it may have after a crash; nil: absent
	seen   int        // images checked
	most   int        // max images at one point
	failed string
	spare  *table
	// find opens what a crash has left. With goOn it also continues unfinished work.
	find func(goOn bool) (*table, *Report)
	// cut reverts some of what recovery has stored since the image was made.
	cut func(rng *rand.Rand, since int)
	// judge checks that the contents are possible, and counts the keys.
	judge func(t *table) (there int)
}

func newTrial(shape small, seed uint64) *trial {
	rng := rand.New(rand.NewPCG(seed, 7))
	tr := &trial{shape: shape, rng: rng, seed: [2]uint64{rng.Uint64(), rng.Uint64()}, most: 64}
	const words = 64 * smallUnit
	tr.d = pmtest.New(words, shape.threads)
	tr.images = &tr.d.Images
	tr.mem = pm.New(make([]byte, words*pm.Word), tr.d)
	tr.table = tr.open()
	tr.spare = tr.open()
	tr.find, tr.judge = tr.recover, tr.compare
	tr.cut = func(rng *rand.Rand, since int) { tr.images.Lose(rng, since) }
	for i := range shape.keys {
		tr.keys = append(tr.keys, shape.key(i))
		tr.may = append(tr.may, [][]byte{nil})
	}
	return tr
}

// open returns the table as Open finds it, before recovery. It reuses the memory of a previous
// table.
func (tr *trial) open() *table {
	if tr.spare != nil {
		v := tr.spare.values
		for i := range v.space.owner {
			v.space.owner[i].values.Store(nil)
		}
		v.space.high = len(v.space.owner)
		for i := range v.parts {
			v.parts[i] = region{values: v}
		}
		return tr.spare
	}
	s := tr.shape
	t := &table{
		layout: newLayout(uint64(s.keySize), uint64(s.valueSize), uint64(s.slots)),
		hasher: hasher{SipHash, tr.seed},
		mem:    tr.mem, hashes: s.hashes,
	}
	t.values = newValues(tr.mem, 0, smallUnit, t.stored())
	t.values.parts = t.values.parts[:max(s.threads, 1)]
	for i := range s.levels {
		l := level{bits: tr.shape.top - uint(i)}
		first, _ := t.values.space.run(t.unitsOf(l))
		l.base = first * smallUnit
		t.live = append(t.live, l)
	}
	return t
}

func serial(n, _ int, body func(lo, hi int)) { body(0, n) }

// recover opens the table and mends it.
func (tr *trial) recover(bool) (*table, *Report) {
	t := tr.open()
	in := inspection{table: t, mend: true, verify: true}
	if err := in.run(context.Background(), serial); err != nil {
		tr.fail("%v", err)
	}
	t.values.share(0)
	return t, &in.Report
}

func (tr *trial) fail(format string, args ...any) {
	if tr.failed == "" {
		tr.failed = fmt.Sprintf(format, args...)
	}
}

// look opens the image of a crash. Every key must have a possible value, and further work must find
// the pool intact.
func (tr *trial) look() {
	if tr.failed != "" {
		return
	}
	tr.seen++
	stored := tr.images.Stored()
	if tr.rng.IntN(4) == 0 { // recovery is cut short, too
		tr.find(false)
		tr.cut(tr.rng, stored)
	}
	t, report := tr.find(true)
	if tr.failed != "" {
		return
	}
	if report.Damaged > 0 {
		tr.fail("damaged: %v", report.Damage)
		return
	}
	there := tr.judge(t)
	if uint64(there) != report.Keys {
		tr.fail("%d keys are found, recovery counts %d", there, report.Keys)
	}
	if tr.rng.IntN(8) == 0 {
		tr.goOn(t)
	}
}

// compare checks that every key has a possible value, and counts the keys that exist.
func (tr *trial) compare(t *table) (there int) {
	value := make([]byte, tr.shape.valueSize)
	for i, key := range tr.keys {
		it := t.item(key)
		got, ok := t.get(&it, value)
		if ok {
			there++
		}
		fine := false
		for _, may := range tr.may[i] {
			fine = fine || (may != nil) == ok && (!ok || bytes.Equal(may, got))
		}
		if !fine {
			tr.fail("key %d: found %v, %x; it may be %x", i, ok, got, tr.may[i])
		}
	}
	return there
}

// goOn puts a new key. No other key may change by that.
func (tr *trial) goOn(t *table) {
	w := writer{table: t, region: t.values.region(0, 0)}
	it := t.item(tr.shape.key(1000))
	value := tr.shape.value(tr.rng)
	o := w.change(op.Put, &it, value, nil, nil)
	got, ok := t.get(&it, make([]byte, len(value)))
	if o.full == nil && (!ok || !bytes.Equal(got, value)) {
		tr.fail("a key that was put behind recovery is %x", got)
	}
	tr.judge(t)
}

// run runs the program: in each batch every thread changes keys of its own. Possible crashes are
// checked after every store.
func (tr *trial) run() {
	s := tr.shape
	tr.d.Step = func() { tr.d.Crash(tr.rng, tr.most, tr.look) }
	for range s.batches {
		tr.table.values.recycle()
		if s.records() {
			if _, err := (&engine{table: tr.table}).gather(1+tr.rng.IntN(2), 4); err != nil {
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

// thread runs the operations of one thread. Each key belongs to one thread.
func (tr *trial) thread(me int) {
	s := tr.shape
	w := tr.table.newWriter(&tr.table.values.parts[me], s.threads == 1)
	there := make([]byte, s.valueSize)
	for range s.ops {
		key := tr.rng.IntN(s.keys/s.threads)*s.threads + me
		kind := [...]op.Kind{op.Put, op.Put, op.PutNew, op.Update, op.Delete, op.Get}[tr.rng.IntN(6)]
		value := s.value(tr.rng)
		is := tr.may[key][0]
		next := is
		switch {
		case kind == op.Put, kind == op.PutNew && is == nil, kind == op.Update && is != nil:
			next = value
		case kind == op.Delete:
			next = nil
		}
		tr.may[key] = [][]byte{is, next} // while it runs
		it := tr.table.item(tr.keys[key])
		o := w.change(kind, &it, value, there, nil)
		if o.full != nil {
			next = is
		}
		tr.may[key] = [][]byte{next}
		if o.had && !bytes.Equal(o.value, is) {
			tr.fail("%v of key %d read %x, it was %x", kind, key, o.value, is)
		}
	}
}

// explore runs programs until about states images have been checked, or one was wrong.
func explore(states int, change func(*trial)) (images int, failed string) {
	return pmtest.Explore(states, func(seed uint64) (int, string) {
		tr := newTrial(shapes[seed%uint64(len(shapes))], seed)
		if change != nil {
			change(tr)
		}
		tr.run()
		return tr.seen, tr.failed
	})
}

// Whatever a crash leaves of unfenced stores, no acknowledged operation is lost, none is half done,
// and the pool remains usable.
func TestCrashes(t *testing.T) {
	conformance.NotRaced(t, oneAtATime)
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

// Each mutant of the protocol is found.
func TestCrashMutants(t *testing.T) {
	conformance.NotRaced(t, oneAtATime)
	noFence := func(function string, number int) func(*trial) {
		return func(tr *trial) { tr.d.Mutant = pmtest.NoFence(function, number) }
	}
	for name, change := range map[string]func(*trial){
		"no fence behind the value":            noFence("gphash.(*writer).store", 0),
		"no fence before publication":          noFence("gphash.(*table).publish", 0),
		"no fence behind publication":          noFence("gphash.(*table).publish", 1),
		"a key that has moved is written over": noFence("gphash.(*table).publish", 2),
		"no fence behind an update":            noFence("gphash.(*writer).update", 0),
		"no fence behind a delete":             noFence("gphash.(*writer).remove", 0),
		"no fence behind a record":             ofRecords(noFence("gphash.(*writer).store", 0)),
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
