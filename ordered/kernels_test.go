package ordered_test

import (
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/ordered"
)

// kernelTests are tests of the kernels for a pair of widths: run by TestKernels on those that ship,
// by TestMutants and TestRandomMutants on broken ones.
func kernelTests[K, V uint32 | uint64]() []mutate.KernelTest {
	return []mutate.KernelTest{
		{Name: "as on a CPU", Run: func(t testing.TB, dev device.Device) { ordered.SameOnGPU[K, V](t, dev, 1, 10) }},
		{Name: "beside a model", Run: func(t testing.TB, dev device.Device) { beside[K, V](t, dev, 7, 60, 12) }},
		{Name: "everything once", Run: smoke[K, V]},
	}
}

// beside has a map beside a model, with snapshots, ranges that are deleted, and pairs that move.
func beside[K, V uint32 | uint64](t testing.TB, dev device.Device, seed uint64, most, rounds int) {
	m := conformance.Open(t, ordered.New[K, V], dev, nil)
	h := conformance.OrderedHistory[K, V]{Map: m.OrderedMap, Most: most, Also: []weft.OpKind{weft.OpUpdate, weft.OpPut}}
	h.Run(t, seed, rounds)
}

// Each kernel does what it should.
func TestKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	t.Run("uint64,uint64", func(t *testing.T) { mutate.OnSim(t, kernelTests[uint64, uint64]()[:2], 1, 80) })
}

// Mutants are ways to break the kernels: their PTX with one pattern replaced wherever it occurs in
// the kernels of a name.
var mutants = []struct{ name, kernels, pattern, with string }{
	{"a lookup finds keys in the second half of a leaf only", "get", `ld\.global\.L1::no_allocate\.v2\.b64 {(%rd\d+), (%rd\d+)}, \[(%rd\d+)\];`, "mov.b64 $1, 0; mov.b64 $2, 0;"},
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

// The tests of kernels find every one of them.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			quick, random := mutate.OnDevices(90, 1, kernelTests[uint32, uint32]())
			mutate.WantNoticed(t, slices.Concat(quick, random), mutate.Replace(t, m.kernels+"_32_32", m.pattern, m.with))
		})
	}
}
