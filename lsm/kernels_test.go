package lsm_test

import (
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/lsm"
)

// kernelTests returns the tests of the kernels for a pair of widths. TestKernels runs them on the
// real kernels, TestMutants and TestRandomMutants on broken ones.
func kernelTests[K, V uint32 | uint64]() []mutate.KernelTest {
	return []mutate.KernelTest{
		{Name: "beside a model", Run: func(t testing.TB, dev device.Device) { run[K, V](t, dev, 3, 7, 16, 50) }},
		{Name: "many tombstones", Run: func(t testing.TB, dev device.Device) { tombstones[K, V](t, dev) }},
		{Name: "long ranges", Run: longRanges[K, V]},
		{Name: "everything once", Run: smoke[K, V]},
		{Name: "many pairs", Long: true, Run: func(t testing.TB, dev device.Device) {
			conformance.LargeOrderedMap(t, dev, open[K, V](t, dev, &lsm.Options{Base: 256}).OrderedMap, 3000)
		}},
	}
}

// tombstones finds neighbors past more tombstones than a walk skips one by one, and writes ranges
// with more than one lane.
func tombstones[K, V uint32 | uint64](t testing.TB, dev device.Device) {
	const n, first, last = 400, 90, 310
	h := conformance.OrderedHistory[K, V]{Map: open[K, V](t, dev, &lsm.Options{Base: 128}).OrderedMap, MaxOps: 20}
	h.Begin(t, 1)
	h.Put(conformance.Sequence[K](0, n), conformance.Sequence[V](7, n))
	h.Seek()
	for lo := K(first); lo < last; lo += 55 {
		h.DeleteRange([]K{lo}, []K{lo + 54})
	}
	h.Seek(n, last, last-1, 200, first, first-1, 0)
	h.Apply([]weft.Op[K, V]{{Kind: weft.OpPutNew, Key: 200, Value: 1}, {Kind: weft.OpGet, Key: 201}, {Kind: weft.OpDelete, Key: 202}, {Kind: weft.OpPutNew, Key: 5, Value: 1}})
	must(t, h.Map.Compact(t.Context())) // with a level that has two levels of an index
	must(t, h.Map.Check(t.Context()))
	h.Seek()
}

// longRanges queries one range per lane of a warp, each with more pairs than its lane writes.
func longRanges[K, V uint32 | uint64](t testing.TB, dev device.Device) {
	const n, ranges, length = 150, 32, 100
	m := open[K, V](t, dev, &lsm.Options{Base: 64})
	keys, vals := conformance.Sequence[K](0, n), conformance.Sequence[V](7, n)
	for lo := 0; lo < n; lo += 50 {
		_, err := m.Put(t.Context(), keys[lo:lo+50], vals[lo:lo+50])
		must(t, err)
	}
	lo, hi := keys[:ranges], keys[length-1:length-1+ranges]
	var up, down weft.PairRows[K, V]
	must(t, m.Range(t.Context(), lo, hi, 0, &up))
	must(t, m.RangeBackward(t.Context(), lo, hi, 0, &down))
	for i := range ranges {
		wantKeys, wantVals := slices.Clone(keys[i:i+length]), slices.Clone(vals[i:i+length])
		k, v := up.Row(i)
		if !slices.Equal(k, wantKeys) || !slices.Equal(v, wantVals) {
			t.Fatalf("from %d to %d there are %v: %v", lo[i], hi[i], k, v)
		}
		slices.Reverse(wantKeys)
		slices.Reverse(wantVals)
		if k, v = down.Row(i); !slices.Equal(k, wantKeys) || !slices.Equal(v, wantVals) {
			t.Fatalf("from %d down to %d there are %v: %v", hi[i], lo[i], k, v)
		}
	}
}

// TestKernels checks each kernel.
func TestKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("uint64,uint64", func(t *testing.T) { mutate.RunOnSim(t, kernelTests[uint64, uint64](), 1, 80) })
}

// mutants lists ways to break the kernels that match kernels, by replacing every match of a pattern
// in their PTX.
var mutants = []struct{ name, kernels, pattern, with string }{
	{"a lookup finds tombstones", "get", `setp\.lt\.s16 (%p\d+), (%rs\d+), 0;`, "setp.lt.s16 $1, $2, -9;"},
	{"a change takes a tombstone for a pair", "settle", `setp\.lt\.s16 (%p\d+), (%rs\d+), 0;`, "setp.lt.s16 $1, $2, -9;"},
	{"a batch adds keys that are there", "settle", `selp\.s16 (%rs\d+), -1, 0, (%p\d+);`, "mov.u16 $1, 0;"},
	{"a walk stops at tombstones", "walk", `setp\.gt\.s16 (%p\d+), (%rs\d+), -1;`, "setp.gt.s16 $1, $2, -9;"},
	{"rows have tombstones", "rows", `setp\.gt\.s16 (%p\d+), (%rs\d+), -1;`, "setp.gt.s16 $1, $2, -9;"},
	{"ranks count tombstones as keys", "seek", `and\.b32 (%r\d+), (%r\d+), -2139062144;`, "mov.b32 $1, 0;"},
	{"the number of keys leaves out tombstones", "count", `and\.b32 (%r\d+), (%r\d+), -2139062144;`, "mov.b32 $1, 0;"},
	{"a key with as many smaller ones is not selected", "seek", `setp\.gt\.u32 (%p\d+), (%r\d+), (%r\d+);`, "setp.ge.u32 $1, $2, $3;"},
	{"lanes write the same chunk of a long range", "rows", `shl\.b32 (%r\d+), (%r\d+), 6;`, "mov.b32 $1, 0;"},
	{"entries that change nothing are entered", "enter", `setp\.eq\.s32 (%p\d+), (%r\d+), 0;`, "setp.eq.s32 $1, $2, 7;"},
	{"a merge keeps what neither adds nor finds", "match", `setp\.ne\.s16 (%p\d+), (%rs\d+), 0;`, "setp.ne.s16 $1, $2, 7;"},
	{"a merge forgets what the older entry did", "match", `add\.s16 (%rs\d+), (%rs\d+), (%rs\d+);`, "mov.u16 $1, $3;"},
	{"a merge keeps the older entry, too", "move", `setp\.ne\.s16 (%p\d+), (%rs\d+), 0;`, "setp.ne.s16 $1, $2, 9;"},
	{"a merge writes what is to go", "join", `and\.b16 (%rs\d+), (%rs\d+), 1;`, "mov.u16 $1, 1;"},
	{"an index has the first key of a node", "index", `ld\.global\.u32 (%r\d+), \[(%rd\d+)\+60\];`, "ld.global.u32 $1, [$2];"},
	{"deltas behind the last are not written", "index", `st\.global\.u8 \[(%rd\d+)\], (%rs\d+);`, ""},
}

// TestMutants checks that the tests of kernels find every mutant.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			quick, random := mutate.DeviceTrials(90, 1, kernelTests[uint32, uint32]())
			mutate.RequireDetected(t, slices.Concat(quick, random), mutate.Replace(t, m.kernels+"_32_32", m.pattern, m.with))
		})
	}
}
