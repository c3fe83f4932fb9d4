package ordered_test

import (
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/ordered"
)

// kernelTests returns the tests of the kernels for a pair of widths. TestKernels runs them on the
// real kernels, TestMutants and TestRandomMutants on broken ones.
func kernelTests[K, V uint32 | uint64]() []mutate.KernelTest {
	return []mutate.KernelTest{
		{Name: "as on a CPU", Run: func(t testing.TB, dev device.Device) { ordered.SameOnGPU[K, V](t, dev, 1, 10) }},
		{Name: "beside a model", Run: func(t testing.TB, dev device.Device) { runModel[K, V](t, dev, 7, 60, 12) }},
		{Name: "a leaf fills up", Run: fillLeaf[K, V]},
		{Name: "leaves that are used again", Run: recycleLeaves[K, V]},
		{Name: "pairs that are got or put", Run: getOrPut[K, V]},
		{Name: "everything once", Run: smoke[K, V]},
		{Name: "many leaves", Long: true, Run: func(t testing.TB, dev device.Device) {
			conformance.LargeOrderedMap(t, dev, conformance.Open(t, ordered.New[K, V], dev, nil).OrderedMap, 7000)
		}},
		{Name: "windows of several blocks", Long: true, Run: planInBlocks[K, V]},
	}
}

// planInBlocks runs batches on a map with leaves for three blocks to plan, so that some leaves
// split and some merge. Each block passes the number of leaves before its windows on to the next.
func planInBlocks[K, V uint32 | uint64](t testing.TB, dev device.Device) {
	const n, spacing, nNew, stride = 2*2048*26 + 1000, 16, 8, 3001 // 26 pairs per leaf
	m := conformance.Open(t, ordered.New[K, V], dev, nil)
	keys := conformance.Sequence[K](0, n)
	for i := range keys {
		keys[i] *= spacing
	}
	_, err := m.Build(ctx(), keys, make([]V, n))
	must(t, err)
	for round := range 3 {
		var fresh, lo, hi []K
		for k := K(round) * spacing; k < n*spacing; k += stride * spacing {
			for i := range nNew {
				fresh = append(fresh, k+1+K(i))
			}
			lo, hi = append(lo, k+stride/2*spacing), append(hi, k+stride/2*spacing+40*spacing-1)
		}
		added, err := m.Put(ctx(), fresh, make([]V, len(fresh)))
		conformance.WantCount(t, "Put", added, len(fresh), err)
		removed, err := m.DeleteRange(ctx(), lo, hi, nil)
		must(t, err)
		if removed == 0 || removed > 40*len(lo) {
			t.Fatalf("%d ranges of 40 pairs had %d", len(lo), removed)
		}
	}
	must(t, m.Check(ctx()))
}

// fillLeaf inserts pairs one by one into a nearly full leaf until it splits.
func fillLeaf[K, V uint32 | uint64](t testing.TB, dev device.Device) {
	const leafPairs = 32 // pairs per leaf
	m := conformance.Open(t, ordered.New[K, V], dev, nil)
	h := conformance.OrderedHistory[K, V]{Map: m.OrderedMap, MaxOps: leafPairs}
	h.Begin(t, 1)
	keys, vals := conformance.Sequence[K](0, leafPairs+2), conformance.Sequence[V](7, leafPairs+2)
	for n, next := 0, 0; n < len(keys); n = next {
		// not all at once, which would make two leaves
		if next = n + leafPairs/2; next > leafPairs-2 {
			next = n + 1
		}
		h.Put(keys[n:next], vals[n:next])
		must(t, m.Check(ctx()))
		h.Seek()
	}
}

// getOrPut calls GetOrPut on a stream for present and absent keys. The results must report which
// keys were present.
func getOrPut[K, V uint32 | uint64](t testing.TB, dev device.Device) {
	const n, nPresent = 40, 20
	m := conformance.Open(t, ordered.New[K, V], dev, nil)
	st := devicetest.NewStream(t, dev)
	keys, vals := devicetest.Upload(t, st, conformance.Sequence[K](0, n)), devicetest.Upload(t, st, conformance.Sequence[V](100, n))
	must(t, m.PutOn(st, keys.Sub(0, nPresent), vals.Sub(0, nPresent)))
	out, loaded := devicetest.Upload(t, st, make([]V, n)), devicetest.Upload(t, st, make([]bool, n))
	must(t, m.GetOrPutOn(st, keys, out, loaded))
	got, wasPresent := make([]V, n), make([]bool, n)
	must(t, out.CopyTo(ctx(), st, got))
	must(t, loaded.CopyTo(ctx(), st, wasPresent))
	for i := range n {
		want := V(0)
		if i < nPresent {
			want = V(100 + i)
		}
		if got[i] != want || wasPresent[i] != (i < nPresent) {
			t.Fatalf("key %d: value %d, was there: %v", i, got[i], wasPresent[i])
		}
	}
}

// recycleLeaves looks up keys on a stream and holds a snapshot. Batches on another stream put all
// keys again and again, so leaves are reused. Each lookup must see the state after one batch, and
// not an earlier state than the lookup before.
func recycleLeaves[K, V uint32 | uint64](t testing.TB, dev device.Device) {
	const n, rounds = 200, 10
	m := conformance.Open(t, ordered.New[K, V], dev, nil)
	a, b := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
	keys := conformance.Sequence[K](5, n)
	_, err := m.Put(ctx(), keys, make([]V, n))
	must(t, err)
	put, asked, out := devicetest.Upload(t, a, keys), devicetest.Upload(t, b, keys), devicetest.Upload(t, b, make([]V, rounds*n))
	first, err := m.Snapshot(ctx())
	must(t, err)
	for round := range rounds {
		must(t, m.GetOn(b, asked, out.Sub(round*n, (round+1)*n), device.Slice[bool]{}))
		must(t, m.PutOn(a, put, devicetest.Upload(t, a, slices.Repeat([]V{V(round + 1)}, n))))
	}
	got := make([]V, rounds*n)
	must(t, out.CopyTo(ctx(), b, got))
	for i, v := range got {
		if round := i / n; v != got[round*n] || v > V(round) || round > 0 && v < got[round*n-1] {
			t.Fatalf("lookup %d of key %d finds the value of batch %d; of the first key it was %d", round, keys[i%n], v, got[round*n])
		}
	}
	for k, v := range first.All() {
		if v != 0 {
			t.Fatalf("the snapshot has the value %d of key %d", v, k)
		}
	}
	must(t, first.Close())
}

// runModel runs a map against a model, with snapshots, deleted ranges and pairs that move.
func runModel[K, V uint32 | uint64](t testing.TB, dev device.Device, seed uint64, most, rounds int) {
	m := conformance.Open(t, ordered.New[K, V], dev, nil)
	h := conformance.OrderedHistory[K, V]{Map: m.OrderedMap, MaxOps: most, ExtraKinds: []weft.OpKind{weft.OpUpdate, weft.OpPut}}
	h.Run(t, seed, rounds)
}

// TestKernels checks each kernel.
func TestKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("uint64,uint64", func(t *testing.T) { mutate.RunOnSim(t, kernelTests[uint64, uint64](), 1, 80) })
}

// TestEarlyReclaimIsFound breaks the kernel that marks the leaves of a version. The leaves are then
// reused too early, so running readers and a snapshot must find wrong pairs.
func TestEarlyReclaimIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	mutant := mutate.Replace(t, "mark_32_32", `mov\.b32 (%r\d+), 1;`, "mov.b32 $1, 0;")
	_, random := mutate.DeviceTrials(90, 1, []mutate.KernelTest{{Name: "readers", Run: recycleLeaves[uint32, uint32]}, {Name: "a snapshot", Run: runWithSnapshot}})
	for i := range random {
		t.Run(random[i].Name, func(t *testing.T) {
			t.Parallel()
			mutate.RequireDetected(t, random[i:i+1], mutant)
		})
	}
}

// runWithSnapshot holds a snapshot while batches run. Each batch is waited for, so only the
// snapshot reads reused leaves.
func runWithSnapshot(t testing.TB, dev device.Device) {
	const n = 200
	m := conformance.Open(t, ordered.New[uint32, uint32], dev, nil)
	keys := conformance.Sequence[uint32](0, n)
	_, err := m.Put(ctx(), keys, keys)
	must(t, err)
	s, err := m.Snapshot(ctx())
	must(t, err)
	for range 12 { // until leaves run short
		_, err := m.Put(ctx(), keys, make([]uint32, n))
		must(t, err)
	}
	vals := make([]uint32, n)
	hits, err := s.Get(ctx(), keys, vals, nil)
	if err != nil || hits != n || !slices.Equal(vals, keys) {
		t.Fatalf("the snapshot has %d keys, with %v: %v", hits, vals, err)
	}
	must(t, s.Close())
}

// mutants lists ways to break the kernels that match kernels, by replacing every match of a pattern
// in their PTX.
var mutants = []struct{ name, kernels, pattern, with string }{
	{"a lookup goes to the last child of each node", "get", `ld\.global\.v2\.b64 {(%rd\d+), (%rd\d+)}, \[(%rd\d+)\];`, "mov.b64 $1, 0; mov.b64 $2, 0;"},
	{"a range has pairs beyond its end", "range", `ld\.shared\.u32 (%r\d+), \[(%rd\d+)\+72\];`, "mov.b32 $1, -1;"},
	{"ranges of half of the lanes are not copied", "range", `setp\.gt\.u32 (%p\d+), (%r\d+), 31;`, "setp.gt.u32 $1, $2, 15;"},
	{"parts of ranges are copied before they are known", "range", `bar\.warp\.sync 0xffffffff;`, ""},
	{"an update inserts", "settle", `setp\.eq\.s32 (%p\d+), (%r\d+), 11;`, "setp.eq.s32 $1, $2, 1;"},
	{"few pairs stay alone", "plan", `setp\.lt\.u32 (%p\d+), (%r\d+), 8;`, "setp.lt.u32 $1, $2, 0;"},
	{"a leaf has room for one more", "plan", `setp\.lt\.u32 (%p\d+), (%r\d+), 33;`, "setp.lt.u32 $1, $2, 34;"},
	{"entries of leaves with some are left to nobody", "write", `setp\.lt\.u32 (%p\d+), (%r\d+), 129;`, "setp.lt.u32 $1, $2, 9;"},
	{"entries of hot leaves are not written", "enter", `setp\.lt\.u32 (%p\d+), (%r\d+), 129;`, "setp.lt.u32 $1, $2, 9999;"},
	{"leaves of versions are taken", "mark", `mov\.b32 (%r\d+), 1;`, "mov.b32 $1, 0;"},
	{"leaves that are taken are counted on", "collect", `st\.global\.u32 \[(%rd\d+)\], (%r\d+);`, ""},
	{"a node is filled up with keys that there are", "finish", `mov\.b32 (%r\d+), -1;`, "mov.b32 $1, 5;"},
	{"a leaf that gaps leave a few pairs stays alone", "plan_gaps", `setp\.gt\.u32 (%p\d+), (%r\d+), 28;`, "setp.gt.u32 $1, $2, 12;"},
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
