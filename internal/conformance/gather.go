package conformance

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// gatheredRows is the number of rows at which blocks gather: they combine rows with equal keys
// before they access the map. On a device with one multiprocessor, each block then processes more
// rows than it needs to judge whether that pays. With gatheredTwiceRows rows, blocks gather, stop
// for a while, and gather again (gather.cuh).
const gatheredRows, gatheredTwiceRows = 10_000, 90_000

// GatherFewKeys reduces rows with few distinct keys, including some that look like sentinels.
// Before or after them come rows with distinct keys, for which it does not pay to combine rows.
func GatherFewKeys[V weft.Value](t testing.TB, dev device.Device, open Maker[AnyMap[uint32, V]]) {
	p := mapTarget(devicetest.Narrow(dev), 0, open)
	for _, by := range p.reductions() {
		from, to := 0, gatheredRows*4/5
		if by%2 == 0 {
			from, to = to, gatheredRows
		}
		gatherFewKeys(t, p, by, gatheredRows, from, to)
	}
}

// GatherTwice reduces rows such that combining rows with equal keys first pays, then does not pay,
// and finally pays again.
func GatherTwice[V weft.Value](t testing.TB, dev device.Device, open Maker[AnyMap[uint32, V]]) {
	gatherFewKeys(t, mapTarget(devicetest.Narrow(dev), 0, open), weft.Sum, gatheredTwiceRows, gatheredRows, 2*gatheredRows)
}

// gatherFewKeys reduces n rows with few distinct keys, except that rows [from,to) have distinct
// keys.
func gatherFewKeys(t testing.TB, p target[erasedMap], by weft.Reduction, n, from, to int) {
	st := devicetest.NewStream(t, p.dev)
	rng := rand.New(rand.NewPCG(3, uint64(by)))
	m := p.open(t, p.dev)
	keys, vals := make([]uint64, n), p.reducible(by, n, rng)
	model := map[uint64]uint64{}
	for i, v := range vals {
		if keys[i] = p.key(uint64(rng.IntN(300) - 4)); from <= i && i < to {
			keys[i] = p.key(uint64(i))
		}
		if old, present := model[keys[i]]; present {
			v = p.combine(by, old, v)
		}
		model[keys[i]] = v
	}
	must(t, m.ReduceOn(st, p.keysOn(t, st, keys), p.valsOn(t, st, vals), by))
	must(t, m.Sync(ctx()))
	all := slices.Collect(maps.Keys(model))
	got := make([]uint64, len(all))
	found, err := m.Get(ctx(), all, got, nil)
	if must(t, err); found != len(all) || m.Len() != len(all) {
		t.Errorf("%v leaves %d keys and finds %d, want %d", weft.OpKind(by), m.Len(), found, len(all))
	}
	for i, k := range all {
		if got[i] != model[k] {
			t.Fatalf("%v of key %#x is %#x, want %#x", weft.OpKind(by), k, got[i], model[k])
		}
	}
	must(t, m.Close())
}

// GatherWhenFull reduces rows with few distinct keys into a map that has no room for some of the
// keys. Each row must be either applied or reported as failed.
func GatherWhenFull(t testing.TB, dev device.Device, open Maker[AnyMap[uint32, float64]]) {
	m := open(t, devicetest.Narrow(dev))
	keys, vals := make([]uint32, gatheredRows), make([]float64, gatheredRows)
	for i := range keys {
		keys[i] = uint32(i)
	}
	_, err := m.Put(ctx(), keys[:30], vals[:30])
	must(t, err)
	if _, err := m.Put(ctx(), keys, vals); !errors.Is(err, weft.ErrFull) {
		t.Fatal(err)
	}
	for i := range keys {
		if keys[i], vals[i] = uint32(i*i%1009), 1; keys[i] >= 30 {
			keys[i] += gatheredRows
		}
	}
	before := m.Len()
	n, err := m.Reduce(ctx(), keys, vals, weft.Sum)
	var p *weft.PartialError
	if !errors.Is(err, weft.ErrFull) || !errors.As(err, &p) || p.Done != len(keys) || before+n != m.Len() {
		t.Fatalf("%d new keys, Len is %d, was %d: %v", n, m.Len(), before, err)
	}
	sum := 0.
	for _, v := range m.All() {
		sum += v
	}
	if int(sum)+p.Failed != len(keys) || sum == 0 {
		t.Errorf("%v rows are there and %d failed, of %d", sum, p.Failed, len(keys))
	}
	must(t, m.Close())
}

// CombineFewKeys runs mixed batches that combine many values for a few keys, alongside other
// operations. If no atomic instruction can combine such values, warps and blocks combine them.
func CombineFewKeys[V weft.Value](t testing.TB, dev device.Device, open Maker[AnyMap[uint32, V]]) {
	combineFewKeys(t, mapTarget(dev, 0, open))
}

func combineFewKeys(t testing.TB, p target[erasedMap]) {
	const n = 1500
	st, m := devicetest.NewStream(t, p.dev), p.open(t, p.dev)
	kinds, keys, vals := make([]weft.OpKind, n), make([]uint64, n), make([]uint64, n)
	want := map[uint64]uint64{7: p.val(0), 9: p.val(0), 11: p.val(0)}
	for i := range kinds {
		kinds[i], keys[i], vals[i] = weft.OpSum, 7, p.val(i%5)
		switch i % 8 {
		case 5:
			keys[i] = 9
		case 6:
			kinds[i], keys[i] = weft.OpMax, 11
		case 7:
			kinds[i], keys[i] = weft.OpPut, uint64(100+i)
		}
		by := weft.Sum
		if kinds[i] == weft.OpMax {
			by = weft.Max
		}
		want[keys[i]] = p.combine(by, want[keys[i]], vals[i])
	}
	ok := devicetest.Upload(t, st, make([]bool, n))
	must(t, m.ApplyOn(st, devicetest.Upload(t, st, kinds), p.keysOn(t, st, keys), p.valsOn(t, st, vals), ok))
	must(t, m.Sync(ctx()))
	for k, v := range want {
		got := []uint64{0}
		if n, err := m.Get(ctx(), []uint64{k}, got, nil); n != 1 || err != nil || got[0] != v {
			t.Fatalf("key %d has %v, want %v: %v", k, got[0], v, err)
		}
	}
	flags, fresh := make([]bool, n), 0
	must(t, ok.CopyTo(ctx(), st, flags))
	for _, f := range flags {
		if f {
			fresh++
		}
	}
	if fresh != len(want) || m.Len() != len(want) {
		t.Errorf("%d operations say that their key was new, Len is %d, want %d", fresh, m.Len(), len(want))
	}
	must(t, m.Close())
}
