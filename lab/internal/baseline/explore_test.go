package baseline

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pm/pmtest"
)

var crashStates = flag.Int("crash-states", 60_000, "images of crashes that tests look at, about")

// oneAtATime is the reason why tests with domains skip the race detector.
const oneAtATime = "threads of a domain take turns"

// peer is a small index of one kind, with a program for it.
type peer struct {
	name                  string
	words                 uint64
	keySize, valueSize    int
	threads, batches, ops int
	keys, before          int // keys of the program; keys present before it
	build                 func(mem *pm.Memory, p *peer, seed uint64) (table, error)
	cut                   func(mem *pm.Memory, p *peer, seed uint64)
}

func buildClevel(mem *pm.Memory, p *peer, seed uint64) (table, error) {
	t := newClevel(mem, 0, p.words, Options{KeySize: p.keySize, ValueSize: p.valueSize, Seed: seed})
	return t, t.recover()
}

// cutClevel and cutSlab are the part of a recovery that has no fence.
func cutClevel(mem *pm.Memory, p *peer, seed uint64) { buildClevel(mem, p, seed) }

func cutSlab(mem *pm.Memory, p *peer, seed uint64) {
	newSlab(mem, 0, p.words, p.threads, Options{KeySize: p.keySize, ValueSize: p.valueSize, Capacity: 2, Seed: seed}).rollback()
}

func buildSlab(mem *pm.Memory, p *peer, seed uint64) (table, error) {
	t := newSlab(mem, 0, p.words, p.threads, Options{KeySize: p.keySize, ValueSize: p.valueSize, Capacity: 2, Seed: seed})
	t.recover()
	return t, nil
}

// peers have few buckets, so that all keys of a program collide and the indexes grow.
var peers = []*peer{
	{name: "clevel", words: 1 << 11, keySize: 8, valueSize: 8, threads: 2, batches: 2, ops: 6, keys: 32, before: 23, build: buildClevel, cut: cutClevel},
	{name: "clevel", words: 1 << 11, keySize: 20, valueSize: 12, threads: 3, batches: 2, ops: 4, keys: 36, before: 23, build: buildClevel, cut: cutClevel},
	{name: "slab", words: 1 << 10, keySize: 8, valueSize: 8, threads: 2, batches: 2, ops: 4, keys: 12, before: 5, build: buildSlab, cut: cutSlab},
	{name: "slab", words: 1 << 11, keySize: 20, valueSize: 28, threads: 3, batches: 2, ops: 4, keys: 15, before: 6, build: buildSlab, cut: cutSlab},
}

// draining is a program in which threads delete records that another thread is moving.
var draining = []*peer{{name: "clevel", words: 1 << 11, keySize: 8, valueSize: 8, threads: 2, batches: 1, ops: 8, keys: 28, before: 23, build: buildClevel, cut: cutClevel}}

// trial is a program on a domain, with the states that are allowed after a crash.
type trial struct {
	*peer
	seed     uint64
	rng      *rand.Rand
	d        *pmtest.Domain
	mem      *pm.Memory
	table    table
	stocks   []*thread
	possible [][][]byte // by key, the values it may have after a crash; nil: absent
	images   int
	failed   string
}

func newTrial(p *peer, seed uint64) *trial {
	tr := &trial{peer: p, seed: seed, rng: rand.New(rand.NewPCG(seed, 11)), d: pmtest.New(p.words, p.threads), possible: make([][][]byte, p.keys)}
	tr.mem = pm.New(make([]byte, p.words*pm.Word), tr.d)
	for i := range tr.possible {
		tr.possible[i] = [][]byte{nil}
	}
	for i := range p.threads {
		tr.stocks = append(tr.stocks, &thread{number: i})
	}
	tr.table = tr.open()
	return tr
}

func (tr *trial) item(i int) *item {
	key := make([]byte, tr.keySize)
	binary.LittleEndian.PutUint32(key, uint32(i)*0x9e3779b9)
	it := newItem(key, tr.seed)
	return &it
}

func (tr *trial) open() table {
	t, err := tr.build(tr.mem, tr.peer, tr.seed)
	if err != nil {
		tr.fail("%v", err)
	}
	return t
}

func (tr *trial) fail(format string, args ...any) {
	if tr.failed == "" {
		tr.failed = tr.name + ": " + fmt.Sprintf(format, args...)
	}
}

// look opens the image of a crash. Every key must have an allowed value, and the next operations
// must find a valid index.
func (tr *trial) look() {
	if tr.failed != "" {
		return
	}
	tr.images++
	if tr.rng.IntN(4) == 0 { // recovery is interrupted, too
		stored := tr.d.NumStores()
		tr.cut(tr.mem, tr.peer, tr.seed)
		tr.d.RevertRandom(tr.rng, stored)
	}
	t := tr.open()
	tr.compare(t)
	if tr.rng.IntN(8) == 0 { // deleting an absent key changes no other
		th, it, value := &thread{}, tr.item(1000), bytes.Repeat([]byte{0xee}, tr.valueSize)
		got := make([]byte, tr.valueSize)
		if _, err := t.put(th, it, value); err == nil && (!t.get(th, it, got) || !bytes.Equal(got, value)) {
			tr.fail("a key that was put behind recovery is %x", got)
		}
		tr.compare(t)
	}
}

func (tr *trial) compare(t table) {
	value := make([]byte, tr.valueSize)
	for i, possible := range tr.possible {
		ok := t.get(&thread{}, tr.item(i), value)
		if !slices.ContainsFunc(possible, func(is []byte) bool { return (is != nil) == ok && (!ok || bytes.Equal(is, value)) }) {
			tr.fail("key %d: found %v, %x; it may be %x", i, ok, value, possible)
		}
	}
}

// run runs the program. Each thread changes its own keys. After every store, it checks the possible
// crashes.
func (tr *trial) run() {
	for i := range tr.before {
		tr.put(tr.stocks[0], i)
	}
	tr.d.Step = func() { tr.d.Crash(tr.rng, 48, tr.look) }
	for range tr.batches {
		threads := make([]func(), tr.threads)
		for i := range threads {
			tr.table.recycle(tr.stocks[i])
			threads[i] = func() { tr.thread(i) }
		}
		tr.d.Run(tr.rng, threads...)
	}
	tr.compare(tr.table)
}

func (tr *trial) thread(me int) {
	present := make([]byte, tr.valueSize)
	for range tr.ops {
		i := tr.rng.IntN(tr.keys/tr.threads)*tr.threads + me
		is := tr.possible[i][0]
		switch [...]op.Kind{op.Put, op.Put, op.Put, op.Delete, op.Get}[tr.rng.IntN(5)] {
		case op.Put:
			tr.put(tr.stocks[me], i)
		case op.Delete:
			tr.possible[i] = [][]byte{is, nil}
			if ok := tr.table.remove(tr.stocks[me], tr.item(i)); ok != (is != nil) {
				tr.fail("removing key %d: %v, it was %x", i, ok, is)
			}
			tr.possible[i] = [][]byte{nil}
		default:
			if ok := tr.table.get(tr.stocks[me], tr.item(i), present); ok != (is != nil) || ok && !bytes.Equal(present, is) {
				tr.fail("key %d: %v, %x; it was %x", i, ok, present, is)
			}
		}
	}
}

func (tr *trial) put(th *thread, i int) {
	value := make([]byte, tr.valueSize)
	for j := range value {
		value[j] = byte(tr.rng.Uint32())
	}
	is := tr.possible[i][0]
	tr.possible[i] = [][]byte{is, value}
	inserted, err := tr.table.put(th, tr.item(i), value)
	if err != nil || inserted != (is == nil) {
		tr.fail("putting key %d: %v, %v; it was %x", i, inserted, err, is)
	}
	tr.possible[i] = [][]byte{value}
}

// explore runs programs until about the given number of states have been checked as images, or one
// was wrong.
func explore(of []*peer, states int, change func(*trial)) (images int, failed string) {
	return pmtest.Explore(states, func(seed uint64) (int, string) {
		tr := newTrial(of[seed%uint64(len(of))], seed)
		if change != nil {
			change(tr)
		}
		tr.run()
		return tr.images, tr.failed
	})
}

// After a crash, no acknowledged operation is lost, no operation is half done, and the index is
// usable.
func TestCrashes(t *testing.T) {
	conformance.SkipRaced(t, oneAtATime)
	for _, of := range [][]*peer{peers[:2], peers[2:]} {
		images, failed := explore(of, *crashStates, nil)
		if failed != "" {
			t.Fatal(failed)
		}
		t.Logf("%s: %d images of crashes", of[0].name, images)
	}
}

// Each mutant without a fence is detected.
func TestCrashMutants(t *testing.T) {
	conformance.SkipRaced(t, oneAtATime)
	for _, m := range []struct {
		name, function string
		number         int
		of             []*peer
	}{
		{"no fence behind the record", "(*clevel).write", 0, peers[:2]},
		{"no fence behind a slot", "(*clevel).swap", 0, peers[:2]},
		{"no fence behind a copy", "(*clevel).copyToTop", 0, peers[:2]},
		{"no fence behind a new level", "(*clevel).unlock", 0, peers[:2]},
		{"a copy is changed before its origin is gone", "(*clevel).move", 0, draining},
		{"the log counts before it is there", "(*undo).validate", 0, peers[2:]},
		{"a change before the log counts", "(*undo).validate", 1, peers[2:]},
		{"the log is forgotten before the change is there", "(*undo).commit", 0, peers[2:]},
		{"the log may come back", "(*undo).discard", 0, peers[2:]},
	} {
		t.Run(m.name, func(t *testing.T) {
			images, failed := explore(m.of, 2_000_000, func(tr *trial) {
				tr.d.Mutant = pmtest.NoFence("baseline."+m.function, m.number)
			})
			if failed == "" {
				t.Fatalf("not found in %d images", images)
			}
			t.Logf("found after %d images: %.100s", images, failed)
		})
	}
}
