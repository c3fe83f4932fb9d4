package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
	"pgregory.net/rapid"
)

// savedPart holds the arguments of one call of emit.
type savedPart struct {
	part, groups int
	bytes        []byte
}

func saveParts(
	ctx context.Context, g *Groups, parts int, seed uint64, maxBytes int,
) (pieces []savedPart, err error) {
	err = g.SaveParts(ctx, parts, seed, maxBytes, func(part, groups int, piece []byte) error {
		pieces = append(pieces, savedPart{part, groups, piece})
		return nil
	})
	return pieces, err
}

// Parts are disjoint, follow the partition of their keys, and together are all groups. Tables are
// merged, of any types, in memory or spilled, and pieces have any size.
func TestSaveParts(t *testing.T) {
	dev := open(t, 2)
	spilled, cut := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		x := drawTrial(t)
		x.opts.Sorted = false
		m := &model{skip: x.opts.SkipNulls}
		many := rapid.IntRange(0, 3).Draw(t, "many") == 0
		parts := rapid.SampledFrom([]int{1, 2, 3, 7, 64}).Draw(t, "parts")
		seed := rapid.Uint64().Draw(t, "partition seed")
		maxBytes := rapid.SampledFrom([]int{1, 300, 2000, 1 << 20}).Draw(t, "bytes")
		if many {
			x.groups *= 300
			maxBytes = max(maxBytes, 300)
		}
		limited := many && rapid.Bool().Draw(t, "merge under a limit")
		merged := make([]*Groups, parts)
		for part := range merged {
			var err error
			if limited {
				merged[part] = tight(t, dev, &x, 300_000)
			} else {
				merged[part], err = New(dev, x.aggs, &x.opts)
			}
			must(t, err)
			defer merged[part].Close()
		}
		var row uint64
		for range rapid.IntRange(1, 3).Draw(t, "tables") {
			g := tight(t, dev, &x, 300_000)
			for range rapid.IntRange(0, 2).Draw(t, "batches") {
				n := rapid.IntRange(0, 100).Draw(t, "rows")
				if many {
					n *= 70
				}
				keys, values := x.batch(n)
				m.add(keys, values, n)
				ordinals := make([]uint64, n)
				for i := range ordinals {
					ordinals[i], row = row, row+1
				}
				must(t, g.AddAt(t.Context(), ordinals, keys, values))
			}
			pieces, err := saveParts(t.Context(), g, parts, seed, maxBytes)
			must(t, err)
			spilled, cut = spilled+g.spilled.nStates, cut+len(pieces)-parts
			must(t, g.Close())
			checkPieces(t, dev, &x, pieces, parts, maxBytes)
			mergePieces(t, merged, pieces)
		}
		compareParts(t, dev, merged, m, &x, seed)
	})
	if (spilled == 0 || cut == 0) && !testing.Short() {
		t.Errorf("%d states were spilled, and %d pieces are not the first", spilled, cut)
	}
}

// Groups that are merged under a limit of memory spill, and are merged again.
func TestMergeFromSpills(t *testing.T) {
	dev := open(t, 2)
	x := &trial{aggs: []Aggregate{{Func: Rows}}}
	const n = 30_000
	from, into := create(t, dev, x.aggs, nil), tight(t, dev, x, 300_000)
	defer into.Close()
	keys := []column.Column{column.Of(rand.New(rand.NewPCG(3, 4)).Perm(n))}
	must(t, from.Add(t.Context(), keys, nil))
	pieces, err := saveParts(t.Context(), from, 1, 0, 1<<16)
	must(t, err)
	for range 2 {
		for _, p := range pieces {
			must(t, into.MergeFrom(t.Context(), bytes.NewReader(p.bytes)))
		}
	}
	r, err := into.Result(t.Context())
	must(t, err)
	if into.spilled.nStates == 0 || r.Len() != n {
		t.Errorf("%d states were spilled, and %d groups of %d are there", into.spilled.nStates, r.Len(), n)
	}
	for _, line := range linesOf(r) {
		if text(line[1:]) != text([]any{int64(2)}) {
			t.Fatalf("group %v, want a count of 2", line)
		}
	}
}

// checkPieces loads each piece on its own.
func checkPieces(
	t *rapid.T, dev device.Device, x *trial, pieces []savedPart, parts, maxBytes int,
) {
	seen := make([]int, parts)
	for _, p := range pieces {
		g, err := Load(t.Context(), dev, bytes.NewReader(p.bytes), &x.opts)
		must(t, err)
		if g.Len() != p.groups || len(p.bytes) > maxBytes && p.groups > 1 ||
			p.groups == 0 && seen[p.part] > 0 {
			t.Fatalf("piece %d of part %d: %d bytes, %d groups, said to be %d", seen[p.part], p.part,
				len(p.bytes), g.Len(), p.groups)
		}
		must(t, g.Close())
		seen[p.part]++
	}
	if slices.Contains(seen, 0) {
		t.Fatalf("%v pieces by part", seen)
	}
}

// mergePieces merges the pieces of each part, as one stream or one by one.
func mergePieces(t *rapid.T, merged []*Groups, pieces []savedPart) {
	streams := make([]bytes.Buffer, len(merged))
	for _, p := range pieces {
		streams[p.part].Write(p.bytes)
	}
	for part, g := range merged {
		for b := &streams[part]; b.Len() > 0; {
			must(t, g.MergeFrom(t.Context(), b))
		}
	}
}

// compareParts compares all parts together with the model. It checks that each group is in the part
// of its keys.
func compareParts(
	t *rapid.T, dev device.Host, merged []*Groups, m *model, x *trial, seed uint64,
) {
	var got [][]any
	for part, g := range merged {
		r, err := g.Result(t.Context())
		must(t, err)
		got = append(got, linesOf(r)...)
		if r.Len() == 0 {
			continue
		}
		of, err := column.Partition(dev, r.Keys,
			column.PartitionOptions{Parts: len(merged), Seed: seed})
		must(t, err)
		if len(of.Part(part)) != r.Len() {
			t.Fatalf("%d of %d groups belong to part %d of %d", len(of.Part(part)), r.Len(), part,
				len(merged))
		}
	}
	want := m.lines(x.aggs, x.values, x.opts.WrapSums, false)
	byText := func(a, b []any) int { return slices.Compare([]byte(text(a)), []byte(text(b))) }
	slices.SortFunc(got, byText)
	slices.SortFunc(want, byText)
	if d := differ(got, want); d != "" {
		t.Fatalf("keys %v, values %v: %s", x.keys, x.values, d)
	}
}

// Groups without rows, without keys, or with types only have pieces, too.
func TestSavePartsOfFew(t *testing.T) {
	dev := open(t, 1)
	none := create(t, dev, []Aggregate{{Func: Rows}}, nil)
	c := []column.Column{column.OfStrings([]string{"a", "b"})}
	one := create(t, dev, []Aggregate{{Func: Rows}, {Func: Max}}, nil)
	must(t, one.Add(t.Context(), nil, c))
	types := create(t, dev, []Aggregate{{Func: Rows}, {Func: Max}}, nil)
	must(t, types.Add(t.Context(), []column.Column{c[0].Slice(1, 1)},
		[]column.Column{c[0].Slice(1, 1)}))
	for i, g := range []*Groups{none, one, types} {
		pieces, err := saveParts(t.Context(), g, 3, 0, 1000)
		must(t, err)
		var groups []int
		for _, p := range pieces {
			groups = append(groups, p.groups)
			loaded, err := Load(t.Context(), dev, bytes.NewReader(p.bytes), nil)
			must(t, err)
			if r, err := loaded.Result(t.Context()); err != nil || g == types &&
				(len(r.Keys) != 1 || r.Keys[0].Type() != column.Bytes) {
				t.Errorf("groups %d, part %d: %v", i, p.part, err)
			}
			must(t, loaded.Close())
		}
		want := []int{0, 0, 0}
		if g == one {
			want[0] = 1
		}
		if !slices.Equal(groups, want) {
			t.Errorf("groups %d: pieces of %d groups", i, groups)
		}
	}
}

// SaveParts returns errors of the caller, and groups stay unchanged, spilled or not.
func TestSavePartsErrors(t *testing.T) {
	dev := open(t, 2)
	x := &trial{aggs: []Aggregate{{Func: Rows}}}
	for _, memory := range []int64{0, 300_000} {
		g := create(t, dev, x.aggs, nil)
		if memory > 0 {
			g = tight(t, dev, x, memory)
			defer g.Close()
		}
		const n = 30_000
		keys := []column.Column{column.Of(rand.New(rand.NewPCG(1, 2)).Perm(n))}
		must(t, g.Add(t.Context(), keys, nil))
		if spilled := g.spilled.nStates > 0; spilled != (memory > 0) {
			t.Fatalf("memory %d: in the file is %v", memory, spilled)
		}
		for _, bad := range [][2]int{{0, 100}, {column.MaxParts + 1, 100}, {4, 0}, {4, -1}} {
			if _, err := saveParts(t.Context(), g, bad[0], 0, bad[1]); !errors.Is(err,
				op.ErrOptions) {
				t.Errorf("%d parts of %d bytes: %v", bad[0], bad[1], err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := saveParts(ended, g, 4, 0, 1000); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		full, calls := errors.New("full"), 0
		err := g.SaveParts(t.Context(), 4, 0, 1000, func(int, int, []byte) error {
			if calls++; calls == 5 {
				return full
			}
			return nil
		})
		if !errors.Is(err, full) || calls != 5 {
			t.Errorf("%v after %d calls", err, calls)
		}
		groups := 0
		pieces, err := saveParts(t.Context(), g, 4, 0, 1000)
		must(t, err)
		for _, p := range pieces {
			groups += p.groups
		}
		if groups != n {
			t.Errorf("%d groups in pieces, want %d", groups, n)
		}
		must(t, g.Close())
		if _, err := saveParts(t.Context(), g, 4, 0, 1000); !errors.Is(err, op.ErrClosed) {
			t.Errorf("closed groups: %v", err)
		}
	}
}

// Damage at any byte of a piece, and truncation, is an error of Load and MergeFrom. If it is before
// the pages, groups stay unchanged.
func TestPieceDamaged(t *testing.T) {
	dev := open(t, 1)
	whole, err := Load(t.Context(), dev, bytes.NewReader(saved(t, dev)), nil)
	must(t, err)
	defer whole.Close()
	pieces, err := saveParts(t.Context(), whole, 2, 0, 1<<20)
	must(t, err)
	piece := pieces[0].bytes
	pages := headBytes + 4 + 5*len(whole.aggs) + len(whole.l.keys) + len(whole.l.values) + 4
	check := func(what string, at int) {
		t.Helper()
		if _, err := Load(t.Context(), dev, bytes.NewReader(piece), nil); !errors.Is(err,
			op.ErrFormat) {
			t.Fatalf("%s: Load: %v", what, err)
		}
		g, err := New(dev, whole.aggs, nil)
		must(t, err)
		defer g.Close()
		if err := g.MergeFrom(t.Context(), bytes.NewReader(piece)); !errors.Is(err, op.ErrFormat) {
			t.Fatalf("%s: MergeFrom: %v", what, err)
		}
		if err := g.Merge(t.Context(), whole); (err == nil) != (at < pages) {
			t.Fatalf("%s: Merge after it: %v", what, err)
		}
	}
	for i := range piece {
		all := piece
		piece = all[:i]
		check(fmt.Sprintf("the first %d bytes", i), i)
		piece = all
		piece[i] ^= 0x10
		check(fmt.Sprintf("byte %d", i), i)
		piece[i] ^= 0x10
	}
}

// Streams of other groups change nothing. After the end of a context, all calls return its error.
func TestMergeFromErrors(t *testing.T) {
	dev := open(t, 1)
	key := []column.Column{column.Of([]int32{1})}
	stream := func(opts *Options, keys []column.Column, aggs ...Aggregate) *bytes.Reader {
		g := create(t, dev, aggs, opts)
		must(t, g.Add(t.Context(), keys, nil))
		var b bytes.Buffer
		must(t, g.Save(t.Context(), &b))
		return bytes.NewReader(b.Bytes())
	}
	rows := Aggregate{Func: Rows}
	g := create(t, dev, []Aggregate{rows}, nil)
	must(t, g.Add(t.Context(), key, nil))
	for name, from := range map[string]*bytes.Reader{
		"aggregates": stream(nil, key), "SkipNulls": stream(&Options{SkipNulls: true}, key, rows),
		"types": stream(nil, []column.Column{column.Of([]int64{1})}, rows),
	} {
		if err := g.MergeFrom(t.Context(), from); !errors.Is(err, op.ErrOptions) {
			t.Errorf("other %s: %v", name, err)
		}
	}
	must(t, g.MergeFrom(t.Context(), stream(nil, key, rows)))
	if r, err := g.Result(t.Context()); err != nil || r.Len() != 1 || r.Values[0].Any(0) != int64(2) {
		t.Errorf("%v, %v", r, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{g.MergeFrom(ended, stream(nil, key, rows)),
		g.MergeFrom(t.Context(), stream(nil, key, rows))} {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// BenchmarkSave saves 10^6 groups of two int64 columns, a count and a sum: as one stream, and in
// pieces of at most 1 MiB.
func BenchmarkSave(b *testing.B) {
	const n = 1_000_000
	g, err := New(open(b, 0), []Aggregate{{Func: Rows}, {Func: Sum}}, nil)
	must(b, err)
	defer g.Close()
	keys := make([]int64, n)
	for i, k := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		keys[i] = int64(k)
	}
	c := []column.Column{column.Of(keys)}
	must(b, g.Add(b.Context(), append(c, c...), c))
	report := func(b *testing.B) {
		b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mgroups/s")
	}
	b.Run("stream", func(b *testing.B) {
		for b.Loop() {
			must(b, g.Save(b.Context(), io.Discard))
		}
		report(b)
	})
	for _, parts := range []int{1, 2, 64} {
		b.Run(fmt.Sprintf("parts=%d", parts), func(b *testing.B) {
			for b.Loop() {
				must(b, g.SaveParts(b.Context(), parts, 0, 1<<20,
					func(int, int, []byte) error { return nil }))
			}
			report(b)
		})
	}
}
