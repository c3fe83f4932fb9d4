package beam

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/join"
)

// Groups that exceed memory are emitted before the bundle ends. When they are merged, they go to a
// file. No piece is larger than MaxBlock.
func TestGroupMemory(t *testing.T) {
	const rows, parts = 1_500_000, 2
	rng := rand.New(rand.NewPCG(1, 2))
	k, v := make([]int64, rows), make([]int64, rows)
	for i := range k {
		k[i], v[i] = int64(rng.IntN(rows)), int64(i)
	}
	keys, values := []column.Column{column.Of(k)}, []column.Column{column.Of(v)}
	aggs := []group.Aggregate{{Func: group.Sum}, {Func: group.Rows}, {Func: group.Max}}
	plan := groupPlan{Keys: []string{"k"}, Values: []string{"v"}, Aggs: aggs}
	if err := plan.set(&Options{Memory: group.MinMemory, Parts: parts}); err != nil {
		t.Fatal(err)
	}
	f, pieces, before := &partialGroups{Plan: plan}, map[int][][]byte{}, 0
	emit := func(part int, b []byte) {
		if len(b) > MaxBlock {
			t.Fatalf("a piece of %d bytes", len(b))
		}
		pieces[part] = append(pieces[part], b)
	}
	for _, b := range must(EncodeColumns([]string{"k", "v"}, slices.Concat(keys, values)))(t) {
		if err := f.ProcessElement(t.Context(), b, emit); err != nil {
			t.Fatal(err)
		}
	}
	if before = len(pieces[0]); before == 0 {
		t.Error("nothing was emitted before the end of the bundle")
	}
	if err := f.FinishBundle(t.Context(), emit); err != nil {
		t.Fatal(err)
	}
	groups, sum, n := 0, int64(0), int64(0)
	seen := map[int64]bool{}
	for part := range parts {
		err := (&mergedGroups{Plan: plan}).ProcessElement(t.Context(), part, iterate(pieces[part]),
			func(b []byte) {
				if len(b) > MaxBlock {
					t.Errorf("a block of %d bytes", len(b))
				}
				_, c, err := DecodeColumns(b)
				if err != nil {
					t.Fatal(err)
				}
				for i, key := range column.Values[int64](c[0]) {
					if seen[key] {
						t.Fatalf("key %d comes twice", key)
					}
					seen[key] = true
					sum, n = sum+column.Values[int64](c[1])[i], n+column.Values[int64](c[2])[i]
				}
				groups += c[0].Len()
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := must(group.By(t.Context(), must(openHost())(t), keys, nil, nil, nil))(t)
	if groups != want.Len() || n != rows || sum != rows*(rows-1)/2 {
		t.Errorf("%d groups of %d rows, sum %d; want %d of %d, %d", groups, n, sum, want.Len(),
			rows, rows*(rows-1)/2)
	}
}

// A Left broadcast without right blocks skips left blocks without rows.
func TestBroadcastNone(t *testing.T) {
	for rows, fails := range []bool{false, true} {
		left := must(EncodeColumns([]string{"k"}, []column.Column{column.Of(make([]int64, rows))}))(t)
		f := &broadcastJoin{Plan: joinPlan{Left: []string{"k"}, Right: []string{"k"}, Kind: join.Left}}
		err := f.ProcessElement(t.Context(), left[0], iterate(nil), nil)
		if (err != nil) != fails {
			t.Errorf("%d rows: %v", rows, err)
		}
	}
}

// A broadcast that exceeds memory is an error that suggests a remedy.
func TestBroadcastMemory(t *testing.T) {
	right := must(EncodeColumns([]string{"k"}, []column.Column{column.Of(make([]int64, 1<<20))}))(t)
	left := must(EncodeColumns([]string{"k"}, []column.Column{column.Of([]int64{1})}))(t)
	f := &broadcastJoin{Plan: joinPlan{Left: []string{"k"}, Right: []string{"k"}, Memory: 4 << 20}}
	err := f.ProcessElement(t.Context(), left[0], iterate(right), nil)
	if err == nil || f.index != nil {
		t.Fatalf("%v", err)
	}
	f.Plan.Memory = join.MinMemory * 4
	n := 0
	if err := f.ProcessElement(t.Context(), left[0], iterate(right),
		func([]byte) { n++ }); err != nil || n > 1 {
		t.Errorf("%d blocks, %v", n, err)
	}
	if err := f.Teardown(); err != nil {
		t.Error(err)
	}
}
