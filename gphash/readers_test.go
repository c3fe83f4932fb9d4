package gphash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm/pmtest"
)

// register is the history of a key. Value i becomes valid between begun[i] and done[i], and stops
// being valid between begun[i+1] and done[i+1].
type register struct {
	values [][]byte
	begun  []int
	done   []int
}

// reads are lookups alongside changes. Each lookup must return a value that its key had during the
// lookup. The value must not be older than one that the same reader has returned.
type reads struct {
	*trial
	keys []register
	now  func() int
}

// newReads returns a program of one writer and two readers. Each batch of the writer reuses the
// memory that the previous batch deleted or replaced, even while readers are at work.
func newReads(seed uint64) *reads {
	shape := shapes[seed%uint64(len(shapes))]
	shape.threads = 3
	tr := newTrial(shape, seed)
	r := &reads{trial: tr, keys: make([]register, len(tr.keys)), now: tr.d.Accesses}
	for i := range r.keys {
		r.keys[i] = register{[][]byte{nil}, []int{0}, []int{0}}
	}
	return r
}

func (r *reads) run() {
	done := false
	r.d.Run(r.rng,
		func() { r.write(); done = true },
		func() { r.read(&done, rand.New(rand.NewPCG(r.rng.Uint64(), 1))) },
		func() { r.read(&done, rand.New(rand.NewPCG(r.rng.Uint64(), 2))) })
}

func (r *reads) write() {
	w := writer{table: r.table, region: &r.table.values.regions[0]}
	there := make([]byte, r.shape.valueSize)
	for range 6 {
		r.table.values.recycle()
		for range 3 {
			i, k := r.rng.IntN(len(r.keys)), op.Put
			value := r.shape.value(r.rng)
			if r.rng.IntN(3) == 0 {
				k, value = op.Delete, nil
			}
			key := &r.keys[i]
			key.values, key.begun = append(key.values, value), append(key.begun, r.now())
			it := r.table.item(r.trial.keys[i])
			if o := w.change(k, &it, value, there, nil); o.err != nil {
				key.values[len(key.values)-1] = key.values[len(key.values)-2]
			}
			key.done = append(key.done, r.now())
		}
	}
}

// read looks up keys until the writer is done.
func (r *reads) read(done *bool, rng *rand.Rand) {
	seen := make([]int, len(r.keys))
	value := make([]byte, r.shape.valueSize)
	for !*done {
		i := rng.IntN(len(r.keys))
		it, from := r.table.item(r.trial.keys[i]), r.now()
		var got []byte
		if is, ok := r.table.get(&it, value); ok {
			got = is
		}
		seen[i] = r.checkRead(&r.keys[i], seen[i], from, got)
	}
}

// checkRead returns the index of the value that a lookup returned. The lookup began at time from
// and has just ended.
func (r *reads) checkRead(key *register, seen, from int, got []byte) int {
	for i := seen; i < len(key.values); i++ {
		// the value was replaced before the lookup began
		over := i+1 < len(key.done) && key.done[i+1] < from
		if !over && (key.values[i] == nil) == (got == nil) && string(key.values[i]) == string(got) {
			return i
		}
	}
	r.fail("a lookup that began at %d found %x, the key was %x from %d to %d", from, got, key.values, key.begun, key.done)
	return seen
}

// readers runs up to the given number of programs, until one of them fails.
func readers(programs int, change func(*reads)) (failed string) {
	for seed := range uint64(programs) {
		r := newReads(seed)
		if change != nil {
			change(r)
		}
		if r.run(); r.failed != "" {
			return fmt.Sprintf("seed %d: %s", seed, r.failed)
		}
	}
	return ""
}

// Lookups alongside changes return current or just replaced values, and never the value of another
// key. The paper's protocol, which reuses slots at once, has that defect.
func TestReaders(t *testing.T) {
	conformance.SkipRaced(t, serialized)
	if failed := readers(4000, nil); failed != "" {
		t.Fatal(failed)
	}
}

func TestReaderMutants(t *testing.T) {
	conformance.SkipRaced(t, serialized)
	unversioned := func(r *reads, a *pmtest.Access) {
		if r.table.isControl(a.At) && a.Kind != pmtest.Load {
			a.New &^= (1<<versionBits - 1) << blockBits
		}
	}
	for name, change := range map[string]func(*reads){
		"no version": func(r *reads) {
			r.d.Mutant = func(a *pmtest.Access) bool {
				unversioned(r, a)
				return false
			}
		},
		"no second look": func(r *reads) {
			last := map[[2]uint64]uint64{} // by thread and word
			r.d.Mutant = func(a *pmtest.Access) bool {
				if a.Kind != pmtest.Load || !r.table.isControl(a.At) || a.Thread == 0 {
					return false
				}
				of := [2]uint64{uint64(a.Thread), a.At}
				if f, _ := pmtest.Site(); f == "gphash.(*table).get" {
					a.New = last[of]
					return true
				}
				last[of] = r.d.Word(a.At)
				return false
			}
		},
		"no second look at a record that is another key's": func(r *reads) {
			last := map[int]pmtest.Access{} // by thread: last load of a control word of this slot
			r.d.Mutant = func(a *pmtest.Access) bool {
				f, _ := pmtest.Site()
				if a.Kind != pmtest.Load || !strings.HasPrefix(f, "gphash.(*table).find") {
					return false
				}
				if before, ok := last[a.Thread]; ok && before.At == a.At {
					a.New = before.New
					return true
				}
				delete(last, a.Thread)
				if r.table.isControl(a.At) {
					last[a.Thread] = pmtest.Access{At: a.At, New: r.d.Word(a.At)}
				}
				return false
			}
		},
		"reuse at once, without version": func(r *reads) {
			r.d.Mutant = func(a *pmtest.Access) bool {
				unversioned(r, a)
				if a.Kind == pmtest.CompareAndSwap && r.table.isControl(a.At) && control(a.New).state() == tomb {
					a.New = 0
				}
				v := &r.table.values.regions[0]
				stale := v.stale
				v.stale, v.tombs = nil, nil
				for _, block := range stale {
					v.free(block)
				}
				return false
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			failed := readers(20000, change)
			if failed == "" {
				t.Fatal("not found")
			}
			t.Logf("%.150s", failed)
		})
	}
}

// moves drains a level alongside two readers. The readers search this level first or, as a mutant,
// last. moves reports whether a reader missed a key.
func moves(seed uint64, last bool) (missed bool) {
	shape := shapes[0]
	shape.threads = 3
	tr := newTrial(shape, seed)
	w := writer{table: tr.table, region: &tr.table.values.regions[0]}
	tr.table.live = tr.table.live[1:] // all keys are in the bottom level
	for _, key := range tr.keys {
		it := tr.table.item(key)
		w.change(op.Put, &it, make([]byte, shape.valueSize), nil, nil)
	}
	tr.table.live, tr.table.closed = tr.open().live, 1
	seen := *tr.table
	if last {
		seen.closed = 0
	}
	there := map[int]bool{}
	for i, key := range tr.keys {
		it := seen.item(key)
		_, there[i] = seen.get(&it, nil)
	}
	done := false
	read := func() {
		for !done {
			for i, key := range tr.keys {
				it := seen.item(key)
				_, is := seen.get(&it, nil)
				missed = missed || there[i] && !is
			}
		}
	}
	tr.d.Run(tr.rng, func() {
		bottom := tr.table.live[len(tr.table.live)-1]
		for b := range uint64(1) << bottom.bits {
			tr.table.moveBucket(bottom.base+b*tr.table.bucketWords, make([]byte, shape.keySize))
		}
		done = true
	}, read, read)
	return missed
}

// A key that moves up is visible at all times.
func TestReadersBesideMoves(t *testing.T) {
	conformance.SkipRaced(t, serialized)
	found := false
	for seed := range uint64(2000) {
		if moves(seed, false) {
			t.Fatalf("seed %d: a reader missed a key", seed)
		}
		found = found || moves(seed, true)
	}
	if !found {
		t.Error("no reader misses a key that looks at closed levels last")
	}
}
