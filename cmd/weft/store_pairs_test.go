//go:build linux

package main

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// modelPair is a pair of a model: a list in the order of keys, and of insertion for equal keys.
type modelPair struct{ key, val int64 }

func byKey(p modelPair, key int64) int {
	if p.key < key {
		return -1
	}
	return 1 // pairs of the key, too
}

func insertPair(model []modelPair, p modelPair, multi bool) []modelPair {
	at, _ := slices.BinarySearchFunc(model, p.key, byKey)
	for ; at < len(model) && model[at].key == p.key; at++ {
		if !multi {
			model[at] = p
			return model
		}
	}
	return slices.Insert(model, at, p)
}

// Random changes leave in pairs what they leave in a sorted list, across many chunks.
func TestStorePairs(t *testing.T) {
	dev, err := cpu.Open(nil)
	must(t, err)
	defer dev.Close()
	types := core.MapTypes[int64, int64]()
	for _, kind := range []string{"multimap", "ordered map"} {
		multi := kind == "multimap"
		table := newPairs(dev, &durable.Files{Kind: kind, Ordered: true}, types)
		rng, model := rand.New(rand.NewPCG(1, 2)), []modelPair(nil)
		span := map[bool]int64{true: 40, false: 20_000}[multi]
		for step := range 60 {
			n := 1 + rng.IntN(300)
			e := &core.Effect{Kind: core.PutPairs, N: n}
			if step%6 == 5 {
				e.Kind, n = core.DeleteKeys, min(n, 5)
			}
			if step%6 == 3 && !multi {
				e.Kind, n = core.DeleteRanges, min(n, 3)
			}
			keys, vals := make([]int64, n), make([]int64, n)
			for i := range keys {
				keys[i], vals[i] = rng.Int64N(span)-span/2, rng.Int64()
			}
			if step == 20 { // ascending, as in a checkpoint
				slices.Sort(keys)
			}
			e.N, e.Keys, e.Vals = n, batch.Input(keys).Host, batch.Input(vals).Host
			for i, key := range keys {
				last := key
				switch e.Kind {
				case core.PutPairs:
					model = insertPair(model, modelPair{key, vals[i]}, multi)
					continue
				case core.DeleteRanges:
					last = key + vals[i]%1000
					vals[i] = last // the end of the range
				}
				model = slices.DeleteFunc(model,
					func(p modelPair) bool { return key <= p.key && p.key <= last })
			}
			e.Keys2 = e.Vals
			must(t, table.Replay(t.Context(), e))
			var got []modelPair
			must(t, table.Pages(t.Context(), "test", nil, func(p *core.Page) bool {
				for i, k := range batch.View[int64](p.Keys.Host) {
					got = append(got, modelPair{k, batch.View[int64](p.Vals.Host)[i]})
				}
				return true
			}))
			if !slices.Equal(got, model) || table.Len() != len(model) {
				t.Fatalf("%s, step %d, %d %d: %d pairs, want %d", kind, step, e.Kind, n, len(got),
					len(model))
			}
		}
		if p := table.Engine.(*pairs); len(p.chunks) < 3 {
			t.Errorf("%s: only %d chunks", kind, len(p.chunks))
		}
		must(t, table.Check(t.Context()))
		one := batch.Input([]int64{1})
		b := &batch.Batch{N: 1, Kind: op.Sum}
		b.Columns[batch.Keys], b.Columns[batch.Vals] = one, one
		_, err := table.Change(t.Context(), "test", b)
		if err == nil {
			t.Error("an unknown change succeeds")
		}
		must(t, table.Clear(t.Context()))
		if table.Len() != 0 {
			t.Errorf("%d pairs after Clear", table.Len())
		}
		must(t, table.Close())
	}
}
