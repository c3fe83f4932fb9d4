package conformance

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Each On method must have the same effect, outputs and count as its form for batches in host
// memory.
func (k kind[S]) onForms(t testing.TB, _ S) {
	n := min(k.scale.Rows(), 2000)
	g := rng()
	have := k.batch(g, n, k.reservedKeys()...)
	st := devicetest.NewStream(t, k.dev)
	for _, f := range k.forms {
		r := k.batch(g, n, have.Keys[:n/2]...) // half of the keys are present
		one, two := k.newWithPairs(t, have.Keys, have.Vals), k.newWithPairs(t, have.Keys, have.Vals)
		want, got := r.clone(), r.clone()
		count, err := f.host(ctx(), one, want)
		must(t, err)
		on := k.upload(t, st, r)
		total := devicetest.Upload(t, st, []uint64{1000, 7})
		if f.counted {
			must(t, f.on(two, st, on, total.Sub(0, 1)))
		} else {
			must(t, f.on(two, st, on))
			count = 0
		}
		must(t, two.Sync(ctx()))
		on.download(t, st, got)
		k.sameRows(t, f.name, got, want)
		k.checkContent(t, two, k.content(t, one))
		var sum [2]uint64
		must(t, total.CopyTo(ctx(), st, sum[:]))
		if sum != [2]uint64{uint64(1000 + count), 7} {
			t.Errorf("%sOn adds %d, want %d; the next element is %d", f.name, int(sum[0])-1000,
				count, sum[1])
		}
		k.withoutOptions(t, f, have, r, one)
	}
}

func (k kind[S]) sameRows(t testing.TB, name string, got, want *rows) {
	t.Helper()
	if !slices.Equal(got.OK, want.OK) || !slices.Equal(got.Counts, want.Counts) {
		t.Fatalf("%sOn writes other flags (%v) or counts (%v) than %s", name, !slices.Equal(got.OK, want.OK), !slices.Equal(got.Counts, want.Counts), name)
	}
	for i := range want.Vals {
		if got.Vals[i] != want.Vals[i] {
			t.Fatalf("%sOn writes %#x for key %#x, number %d, want %#x", name, got.Vals[i], want.Keys[i], i, want.Vals[i])
		}
	}
}

// withoutOptions submits a batch without the optional arguments to a new structure with the pairs
// in have. The contents must then equal those of like, which has run the batch with these
// arguments.
func (k kind[S]) withoutOptions(t testing.TB, f form[S], have, r *rows, like S) {
	if !f.optional {
		return
	}
	st := devicetest.NewStream(t, k.dev)
	s := k.newWithPairs(t, have.Keys, have.Vals)
	on := k.upload(t, st, r)
	on.OK = device.Slice[bool]{}
	must(t, f.on(s, st, on))
	must(t, s.Sync(ctx()))
	must(t, st.Sync(ctx()))
	k.checkContent(t, s, k.content(t, like))
	if f.counted {
		must(t, f.on(s, st, on, device.Slice[uint64]{})) // an empty slice counts as no counter
	}
	must(t, s.Sync(ctx()))
}

// Changes must run in the order of the calls, on any streams. A lookup must see changes submitted
// earlier to its stream. Len must be exact after Sync.
func (k kind[S]) onFormsInOrder(t testing.TB, s S) {
	n := min(k.scale.Rows(), 2000)
	streams := []*device.Stream{devicetest.NewStream(t, k.dev), devicetest.NewStream(t, k.dev), devicetest.NewStream(t, k.dev)}
	r := k.batch(rng(), n)
	add, remove := k.forms[0], k.form("Delete")
	look := k.form("Contains")
	present := 0
	for round, st := range slices.Repeat(streams, 3) {
		f := add
		if round%2 == 1 {
			f = remove
		}
		on := k.upload(t, st, r)
		total := devicetest.Upload(t, st, make([]uint64, 2))
		must(t, f.on(s, st, on, total.Sub(0, 1)))
		must(t, look.on(s, st, on, total.Sub(1, 2)))
		var sums [2]uint64
		must(t, total.CopyTo(ctx(), st, sums[:]))
		if present = n - present; sums != [2]uint64{uint64(n), uint64(present)} {
			t.Fatalf("round %d: %sOn of %d keys counts %d, and then %d are there, want %d", round, f.name, n, sums[0], sums[1], present)
		}
		if round%3 == 0 {
			must(t, s.Sync(ctx()))
			if s.Len() != present {
				t.Fatalf("Len = %d after Sync, want %d", s.Len(), present)
			}
		}
	}
	must(t, s.Sync(ctx()))
}

func (k kind[S]) form(name string) form[S] {
	return k.forms[slices.IndexFunc(k.forms, func(f form[S]) bool { return f.name == name })]
}

// On methods must reject columns on another device or of the wrong length, before anything runs.
func (k kind[S]) onFormsRefuse(t testing.TB, s S) {
	r := k.batch(rng(), 20)
	st, foreign := devicetest.NewStream(t, k.dev), devicetest.NewStream(t, devicetest.OpenCPU(t, 2))
	on, foreignRows := k.upload(t, st, r), k.upload(t, foreign, r)
	n, farN := devicetest.Upload(t, st, make([]uint64, 1)), devicetest.Upload(t, foreign, make([]uint64, 1))
	refused := func(desc string, calls map[string]func() error) {
		t.Helper()
		for name, call := range calls {
			if err := call(); !errors.Is(err, device.ErrInvalid) {
				t.Errorf("%s with %s: %v, want ErrInvalid", name, desc, err)
			}
		}
	}
	refused("no stream", k.submissions(s, nil, on))
	refused("a stream of another device", k.submissions(s, foreign, on))
	refused("columns on another device", k.submissions(s, st, foreignRows))
	refused("a count on another device", k.submissions(s, st, on, farN))
	refused("two counts", k.submissions(s, st, on, n, n))
	short := on.part(0, len(r.Keys)-1)
	for _, f := range slices.Concat(k.forms, k.rows) {
		one := map[string]func() error{}
		for desc, c := range f.withReplaced(on, foreignRows) {
			one[f.name+"On, "+desc] = func() error { return f.on(s, st, c) }
		}
		refused("a column on another device", one)
		for desc, c := range f.withReplaced(on, short) {
			mustPanic(t, f.name+"On with "+desc+" too short", func() { _ = f.on(s, st, c) })
		}
	}
	must(t, s.Sync(ctx()))
	if s.Len() != 0 {
		t.Errorf("Len = %d after batches that were refused", s.Len())
	}
}

// withReplaced returns copies of c. In each copy, one column that the form uses is replaced by the
// column of replacement.
func (f form[S]) withReplaced(c, replacement *columns) map[string]*columns {
	keys, vals, ok, kinds, counts, offsets := *c, *c, *c, *c, *c, *c
	keys.Keys, vals.Vals, ok.OK = replacement.Keys, replacement.Vals, replacement.OK
	kinds.Kinds, counts.Counts, offsets.Offsets = replacement.Kinds, replacement.Counts, replacement.Offsets
	all := map[string]*columns{"keys": &keys}
	for desc, of := range map[string]struct {
		used bool
		c    *columns
	}{
		"values": {f.vals, &vals}, "flags": {f.optional, &ok}, "kinds": {f.kinds, &kinds},
		"counts": {f.counts, &counts}, "offsets": {f.offsets, &offsets},
	} {
		if of.used {
			all[desc] = of.c
		}
	}
	return all
}

// duplicateRows returns n rows with keys that repeat and partly look like sentinels. In a multimap,
// all rows of a key have the same value, because the order of pairs within a batch depends on the
// device. Deletes in a multimap do not repeat keys, because any of several deletes may set its
// flag.
func (k kind[S]) duplicateRows(rng *rand.Rand, f form[S], n int) *rows {
	r := k.batch(rng, n)
	if k.multi && f.changes && f.name != "Put" && f.name != "PutNew" {
		for i, j := range rng.Perm(n) {
			r.Keys[i] = k.key(uint64(j - 5))
		}
		return r
	}
	first := map[uint64]uint64{}
	for i := range n {
		r.Keys[i] = k.key(uint64(rng.IntN(n) - 5))
		if v, seen := first[r.Keys[i]]; seen && k.multi {
			r.Vals[i] = v
		}
		first[r.Keys[i]] = r.Vals[i]
	}
	return r
}

// On methods must have the same results as their other forms, with repeated keys and on parts of
// larger columns. Mixed batches are excluded, because their operations may run in any order.
func (k kind[S]) onDuplicates(t testing.TB, s S) {
	like, st := k.newStructure(t, k.dev), devicetest.NewStream(t, k.dev)
	g, n := rng(), min(k.scale.Rows()*2/5, 20_000)
	for range 3 {
		for _, f := range k.forms {
			if f.name == "Apply" {
				continue
			}
			k.compareForms(t, f, like, s, st, k.duplicateRows(g, f, n), n/3, n)
		}
		must(t, s.Sync(ctx()))
		k.checkContent(t, s, k.content(t, like))
	}
}

// compareForms runs rows [lo,hi) twice: with a method's host form on like, and with its On form on
// s. Both structures have the same content before. All rows must be the same afterward.
func (k kind[S]) compareForms(t testing.TB, f form[S], like, s S, st *device.Stream, r *rows, lo, hi int) {
	want, got := r.clone(), r.clone()
	_, err := f.host(ctx(), like, want.part(lo, hi))
	must(t, err)
	on := k.upload(t, st, r)
	must(t, f.on(s, st, on.part(lo, hi)))
	on.download(t, st, got)
	k.sameRows(t, f.name, got, want)
}

// On methods must work for sizes around those of warps and tiles, and leave the memory before and
// after their columns unchanged.
func (k kind[S]) onSizes(t testing.TB, s S) {
	const margin = 4
	like, st, g := k.newStructure(t, k.dev), devicetest.NewStream(t, k.dev), rng()
	for _, n := range []int{0, 1, 3, 4, 5, 31, 32, 33, 256, 257} {
		r := k.batch(g, n+2*margin)
		for _, f := range k.forms {
			k.compareForms(t, f, like, s, st, r, margin, margin+n)
		}
	}
	must(t, s.Sync(ctx()))
	k.checkContent(t, s, k.content(t, like))
}

// Two streams submit batches while the structure grows. All insertions and deletions on both
// streams must take effect.
func (k kind[S]) onTwoStreams(t testing.TB, s S) {
	const batches = 20
	n := k.scale.Rows() / 25
	add, remove := k.forms[0], k.form("Delete")
	all, want := k.batch(rng(), 2*batches*n), values{}
	var wg sync.WaitGroup
	for half := range 2 {
		st := devicetest.NewStream(t, k.dev)
		on := k.upload(t, st, all)
		wg.Go(func() {
			for i := range batches {
				lo := (half*batches + i) * n
				err := add.on(s, st, on.part(lo, lo+n))
				if i%4 == 3 {
					err = errors.Join(err, remove.on(s, st, on.part(lo, lo+n/2)))
				}
				if err != nil {
					t.Errorf("stream %d, batch %d: %v", half, i, err)
				}
			}
		})
	}
	wg.Wait()
	must(t, s.Sync(ctx()))
	for i, key := range all.Keys {
		if i/n%batches%4 != 3 || i%n >= n/2 {
			want[key] = all.Vals[i : i+1]
		}
	}
	k.checkContent(t, s, want)
}
