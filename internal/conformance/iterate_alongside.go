package conformance

import (
	"bytes"
	"iter"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

// population makes a structure's number of pairs rise and fall, so that the structure evicts keys,
// grows, shrinks and compacts. The first nPermanent keys always stay. In a multimap, each of these
// keys has two pairs.
type population[S Structure] struct {
	kind[S]
	s          S
	r          *rows
	index      map[uint64]int
	nPermanent int
	steps      int // number of steps from the lowest to the highest number of keys
}

// newPopulation puts the permanent keys into a structure.
func (k kind[S]) newPopulation(t testing.TB, s S) *population[S] {
	n, steps := min(k.scale.Rows(), 1500), 16
	if k.scale <= Slow {
		n, steps = min(n, 200), 5
	}
	d := &population[S]{kind: k, s: s, r: k.batch(rng(), n), index: map[uint64]int{}, nPermanent: n / 4, steps: steps}
	for i, key := range d.r.Keys {
		d.index[key] = i
	}
	k.fill(t, s, d.r.Keys[:d.nPermanent], d.r.Vals[:d.nPermanent])
	if k.multi {
		k.fill(t, s, d.r.Keys[:d.nPermanent], d.r.Vals[n-d.nPermanent:])
	}
	return d
}

// levels returns the successive numbers of keys during one rise and fall.
func (d *population[S]) levels() (levels []int) {
	n := len(d.r.Keys)
	for i := range 2*d.steps + 1 {
		levels = append(levels, d.nPermanent+(n-d.nPermanent)*min(i, 2*d.steps-i)/d.steps)
	}
	return levels
}

// resize changes the number of keys by inserting or deleting.
func (d *population[S]) resize(t testing.TB, from, to int) {
	t.Helper()
	if from <= to {
		d.fill(t, d.s, d.r.Keys[from:to], d.r.Vals[from:to])
		return
	}
	n, err := d.remove(ctx(), d.s, d.r.Keys[to:from], nil)
	WantCount(t, "keys removed", n, from-to, err)
}

// pairs returns the number of pairs that key i has while it is present.
func (d *population[S]) pairs(i int) int { return 1 + btoi(d.multi && i < d.nPermanent) }

// value returns the value of pair j of key i.
func (d *population[S]) value(i, j int) uint64 {
	if j == 1 {
		i += len(d.r.Keys) - d.nPermanent
	}
	return d.r.Vals[i]
}

// checkIteration checks the pairs that an iteration yields. Each pair of the first nPermanent keys
// must occur once, and the pairs of a key must be in order. The other keys below nKeys may occur,
// but at most once if unique is set. No other key may occur.
func (d *population[S]) checkIteration(t testing.TB, all iter.Seq2[uint64, uint64], nPermanent, nKeys int, unique bool) {
	t.Helper()
	seen := make([]int, len(d.r.Keys))
	for key, v := range all {
		i, known := d.index[key]
		if !known || i >= nKeys {
			t.Errorf("key %#x, which is not there, is seen", key)
			return
		}
		if j := seen[i]; i < nPermanent || unique {
			if j >= d.pairs(i) {
				t.Errorf("key %#x, number %d of %d, is seen %d times", key, i, nPermanent, j+1)
				return
			}
			if v != d.value(i, j) {
				t.Errorf("pair %d of key %#x has value %#x, want %#x", j, key, v, d.value(i, j))
				return
			}
		} else if v != d.value(i, 0) {
			t.Errorf("key %#x has value %#x, want %#x", key, v, d.value(i, 0))
			return
		}
		seen[i]++
	}
	for i := range nPermanent {
		if seen[i] != d.pairs(i) {
			t.Errorf("of key %#x, number %d of %d, %d pairs are seen, want %d", d.r.Keys[i], i, nPermanent, seen[i], d.pairs(i))
			return
		}
	}
}

// iterateAlongside requires iterations to visit each unchanged pair exactly once while other pairs
// change between pages. Meanwhile the structure moves keys, grows, shrinks and compacts.
func (k kind[S]) iterateAlongside(t testing.TB, s S) {
	defer smallPages()()
	const parts = 4 // parts of each change, spread over the pages
	d := k.newPopulation(t, s)
	levels := d.levels()
	_, ordered := any(s).(erasedSeeker)
	interval := 1 // number of pages between two parts
	for i, to := range levels[1:] {
		from := levels[i]
		nPermanent, nKeys := min(from, to), max(from, to)
		if ordered { // an iteration sees the pairs present at its start
			nPermanent, nKeys = from, from
		}
		part := func(n int) int { return from + (to-from)*n/parts }
		d.checkIteration(t, func(yield func(uint64, uint64) bool) {
			page := 0
			for p, err := range k.pages(ctx(), s) {
				must(t, err)
				for j, key := range p.Keys {
					if !yield(key, p.Vals[j]) {
						return
					}
				}
				if n := page / interval; page%interval == 0 && n < parts {
					d.resize(t, part(n), part(n+1))
					if n == parts/2 && to < from {
						must(t, s.Compact(ctx()))
					}
				}
				page++
			}
			d.resize(t, part(min((page+interval-1)/interval, parts)), to)
			interval = max(1, page/(parts+1))
		}, nPermanent, nKeys, true)
		if t.Failed() {
			t.Fatalf("changes from %d keys to %d", from, to)
		}
	}
}

// iterateConcurrently requires iterations to visit each unchanged pair exactly once while another
// goroutine changes other pairs. It also checks a file that is saved meanwhile.
func (k kind[S]) iterateConcurrently(t testing.TB, s S) {
	defer smallPages()()
	iterations := 24
	if k.scale <= Slow {
		iterations = 3
	}
	d := k.newPopulation(t, s)
	n, stop := len(d.r.Keys), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for levels := d.levels(); ; {
			for i, to := range levels[1:] {
				d.resize(t, levels[i], to)
				select {
				case <-stop:
					d.resize(t, to, d.nPermanent)
					return
				default:
				}
			}
		}
	})
	for i := range iterations {
		if i == iterations/2 && !d.multi { // a file need not keep the order of a key's pairs
			d.checkIteration(t, k.all(d.savedAndLoaded(t)), d.nPermanent, n, true)
		} else if d.checkIteration(t, k.all(s), d.nPermanent, n, false); t.Failed() {
			break
		}
	}
	close(stop)
	wg.Wait()
}

// savedAndLoaded saves the structure to a file and returns a new structure that has loaded the
// file.
func (d *population[S]) savedAndLoaded(t testing.TB) S {
	var file bytes.Buffer
	saved, err := d.s.Save(ctx(), &file)
	must(t, err)
	other := d.newStructure(t, d.dev)
	loaded, err := other.Load(ctx(), &file)
	WantCount(t, "Load of a file that is saved alongside changes", loaded, saved, err)
	return other
}

// smallPages makes pages small, so that changes may happen between any two keys of an iteration.
func smallPages() (restore func()) {
	was := core.PageBytes
	core.PageBytes = 1 << 8
	return func() { core.PageBytes = was }
}

// IterateAlongside runs only the cases about iterations alongside changes. The device may be
// simulated.
func IterateAlongside[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scale Scale, open Maker[AnyMap[K, V]]) {
	if dev.Properties().Kind == device.Sim && testing.Short() {
		t.Skip("interprets kernels")
	}
	p := mapTarget(dev, scale, open)
	run(t, p, mapKind(p).iterations())
}

// iterations returns the cases about iterations alongside changes.
func (k kind[S]) iterations() []Case[S] {
	return []Case[S]{
		{"IterateAlongside", k.iterateAlongside},
		{"IterateConcurrently", k.iterateConcurrently},
	}
}
