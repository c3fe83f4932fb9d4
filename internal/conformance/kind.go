package conformance

import (
	"bytes"
	"context"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// kind describes a kind of structure to the cases that maps, sets and multimaps share. Its
// functions call the structure's methods. A set is treated as a map with zero values.
type kind[S Structure] struct {
	target[S]
	values bool // whether pairs have values
	multi  bool // whether a key may have several pairs

	add      func(ctx context.Context, s S, keys []uint64, vals []uint64) (int, error)
	lookup   func(ctx context.Context, s S, keys []uint64, vals []uint64, found []bool) (int, error)
	remove   func(ctx context.Context, s S, keys []uint64, deleted []bool) (int, error)
	all      func(s S) iter.Seq2[uint64, uint64]
	pages    func(ctx context.Context, s S) iter.Seq2[weft.Page[uint64, uint64], error]
	copyTo   func(s S, ctx context.Context, dev device.Device) (_ S, ok bool, err error)
	forms    []form[S]
	rows     []form[S] // methods that return any number of results per key
	hostOnly []form[S] // methods without an On form
}

// form holds the two forms of a method, for batches in host memory and in device memory. A method
// must leave columns unchanged that it neither reads nor writes.
type form[S Structure] struct {
	name string
	host func(ctx context.Context, s S, r *rows) (int, error)
	on   func(s S, stream *device.Stream, c *columns, n ...device.Slice[uint64]) error

	// whether the method changes the structure; returns a count; accepts nil for its flags
	changes, counted, optional   bool
	loads                        bool // flags report keys that were already present
	kinds, vals, counts, offsets bool // whether the method uses these columns
}

// adds reports whether a method adds all keys, if Apply is called with Puts.
func (f *form[S]) adds() bool {
	return f.changes && f.name != "Delete" && f.name != "DeleteAll"
}

// rows is a batch in host memory. Vals and OK are both inputs and outputs.
type rows struct {
	Kinds  []weft.OpKind
	Keys   []uint64
	Vals   []uint64
	OK     []bool
	Counts []uint32
}

// columns is a batch in device memory.
type columns struct {
	Kinds  device.Slice[weft.OpKind]
	Keys   words
	Vals   words
	OK     device.Slice[bool]
	Counts device.Slice[uint32]
	// Offsets has one more element than the other columns.
	Offsets device.Slice[uint64]
}

func (r *rows) clone() *rows {
	return &rows{slices.Clone(r.Kinds), slices.Clone(r.Keys), slices.Clone(r.Vals), slices.Clone(r.OK), slices.Clone(r.Counts)}
}

// upload copies rows to device memory. The copy is freed at the end of the test.
func (y *types) upload(t testing.TB, s *device.Stream, r *rows) *columns {
	return &columns{
		devicetest.Upload(t, s, r.Kinds), y.keysOn(t, s, r.Keys), y.valsOn(t, s, r.Vals),
		devicetest.Upload(t, s, r.OK), devicetest.Upload(t, s, r.Counts),
		devicetest.Upload(t, s, make([]uint64, len(r.Keys)+1))}
}

func (c *columns) part(lo, hi int) *columns {
	return &columns{c.Kinds.Sub(lo, hi), c.Keys.Sub(lo, hi), c.Vals.Sub(lo, hi), c.OK.Sub(lo, hi), c.Counts.Sub(lo, hi), c.Offsets.Sub(lo, hi+1)}
}

func (r *rows) part(lo, hi int) *rows {
	return &rows{r.Kinds[lo:hi], r.Keys[lo:hi], r.Vals[lo:hi], r.OK[lo:hi], r.Counts[lo:hi]}
}

// download copies the columns that may be outputs to r.
func (c *columns) download(t testing.TB, s *device.Stream, r *rows) {
	t.Helper()
	must(t, c.Vals.CopyTo(ctx(), s, r.Vals))
	must(t, c.OK.CopyTo(ctx(), s, r.OK))
	must(t, c.Counts.CopyTo(ctx(), s, r.Counts))
}

// batch returns n rows with distinct keys, the given keys first. The outputs have random content.
func (k kind[S]) batch(rng *rand.Rand, n int, keys ...uint64) *rows {
	all := distinct(slices.Concat(keys, k.uniqueKeys(n, rng)))
	r := &rows{Keys: all[:n], Kinds: make([]weft.OpKind, n), Vals: make([]uint64, n), OK: make([]bool, n), Counts: make([]uint32, n)}
	for i := range n {
		r.Kinds[i] = weft.OpKind(rng.IntN(4))
		if k.values {
			r.Vals[i] = k.randomValue(rng)
		}
		r.OK[i], r.Counts[i] = i%2 == 0, ^uint32(0)
	}
	return r
}

// newWithPairs returns a new structure with the given pairs.
func (k kind[S]) newWithPairs(t testing.TB, keys []uint64, vals []uint64) S {
	t.Helper()
	s := k.newStructure(t, k.dev)
	k.fill(t, s, keys, vals)
	return s
}

func (k kind[S]) fill(t testing.TB, s S, keys []uint64, vals []uint64) {
	t.Helper()
	n, err := k.add(ctx(), s, keys, vals)
	must(t, err)
	if n != len(keys) {
		t.Fatalf("%d of %d keys added", n, len(keys))
	}
}

// content returns all pairs of a structure. The values of each key are in order.
func (k kind[S]) content(t testing.TB, s S) values {
	t.Helper()
	have := values{}
	for p, err := range k.pages(ctx(), s) {
		must(t, err)
		for i, key := range p.Keys {
			have[key] = append(have[key], p.Vals[i])
		}
	}
	return have
}

// checkContent requires a structure to hold exactly the pairs in want.
func (k kind[S]) checkContent(t testing.TB, s S, want values) {
	t.Helper()
	got := k.content(t, s)
	if n := want.pairs(); got.pairs() != n || s.Len() != n {
		t.Fatalf("%d pairs, Len = %d, want %d", got.pairs(), s.Len(), n)
	}
	for key, vals := range want {
		if !slices.Equal(slices.Sorted(slices.Values(got[key])), slices.Sorted(slices.Values(vals))) {
			t.Fatalf("key %#x has %d values, want %d; or others", key, len(got[key]), len(vals))
		}
	}
}

// calls returns calls of all methods that take a context, by name. Methods that change the
// structure add or remove the rows of r.
func (k kind[S]) calls(t testing.TB, s S, r *rows) map[string]func(context.Context) error {
	file, err := io.ReadAll(k.saved(t, r))
	must(t, err)
	calls := map[string]func(context.Context) error{
		"Clear":   s.Clear,
		"Compact": s.Compact,
		"Sync":    s.Sync,
		"Check":   s.Check,
		"Save":    func(c context.Context) error { _, err := s.Save(c, io.Discard); return err },
		"Load":    func(c context.Context) error { _, err := s.Load(c, bytes.NewReader(file)); return err },
		"Pages": func(c context.Context) error {
			for _, err := range k.pages(c, s) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	if _, ok, _ := k.copyTo(s, expired(), k.dev); ok {
		calls["CopyTo"] = func(c context.Context) error {
			to, _, err := k.copyTo(s, c, k.dev)
			if err != nil {
				return err
			}
			return to.Close()
		}
	}
	for _, f := range slices.Concat(k.forms, k.rows, k.hostOnly) {
		calls[f.name] = func(c context.Context) error { _, err := f.host(c, s, r.clone()); return err }
	}
	return calls
}

// submissions returns calls of all On methods, by name.
func (k kind[S]) submissions(s S, stream *device.Stream, c *columns, n ...device.Slice[uint64]) map[string]func() error {
	calls := map[string]func() error{}
	for _, f := range slices.Concat(k.forms, k.rows) {
		if f.counted || len(n) == 0 {
			calls[f.name+"On"] = func() error { return f.on(s, stream, c, n...) }
		}
	}
	return calls
}

// cases returns the cases that all kinds share.
func (k kind[S]) cases() []Case[S] {
	return append(k.iterations(), []Case[S]{
		{"Cancelled", k.cancelled},
		{"Closed", k.closed},
		{"EmptyBatches", k.emptyBatches},
		{"Partial", k.partial},
		{"Pages", k.pagesCase},
		{"PagesEnd", k.pagesEnd},
		{"AllStops", k.allStops},
		{"TwoIterations", k.twoIterations},
		{"InsideLoops", k.insideLoops},
		{"SaveAndLoad", k.saveAndLoad},
		{"LoadRefuses", k.loadRefuses},
		{"SaveFails", k.saveFails},
		{"CopyTo", k.copies},
		{"Compact", k.compact},
		{"OnForms", k.onForms},
		{"OnFormsInOrder", k.onFormsInOrder},
		{"OnFormsRefuse", k.onFormsRefuse},
		{"OnDuplicates", k.onDuplicates},
		{"OnSizes", k.onSizes},
		{"OnTwoStreams", k.onTwoStreams},
		{"Strife", k.concurrentUse},
	}...)
}
