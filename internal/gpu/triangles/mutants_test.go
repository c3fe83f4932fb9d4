package triangles_test

import (
	_ "embed"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/gpu/triangles"
	"github.com/weftgo/weft/internal/mutate"
)

// TestSchedules runs kernelTests on the shipped kernels, and the others run them on broken ones.
var kernelTests = []mutate.KernelTest{
	{Name: "short rows", Run: func(t testing.TB, dev device.Device) {
		b := on(t, dev)
		b.check(build(t, random(100, 400, 1), &graph.Options{SelfLoops: true, Multi: true}))
		b.check(build(t, clique(12), nil))
	}},
	{Name: "rows of warps", Run: func(t testing.TB, dev device.Device) { on(t, dev).check(build(t, clique(50), nil)) }},
	{Name: "rows of blocks", Run: func(t testing.TB, dev device.Device) {
		rows := make([][]uint32, 700)
		rows[0], rows[1], rows[2] = stepped(1, 700, 1), stepped(5, 700, 3), stepped(4, 500, 7)
		b := on(t, dev)
		b.wantClosed("a hub", uint64(len(rows[1])+len(rows[2])), rows...)
		// Several hubs, which warps of several blocks leave to blocks, with wedges that close in
		// all of their parts.
		rows[300], rows[350], rows[400], rows[650] = stepped(301, 700, 2), stepped(351, 700, 5), stepped(401, 700, 3), stepped(651, 700, 2)
		b.wantClosed("hubs", closedIn(rows), rows...)
		for v := range uint32(640) { // and a hub with neighbors of few arcs each (distributed)
			rows[v+1] = []uint32{v + 2, v + 3 + v%5, v + 31}[v%3:]
		}
		rows[0] = stepped(1, 700, 2)
		b.wantClosed("a hub of short rows", closedIn(rows), rows...)
		rows[0] = stepped(1, 130, 2) // a warp hashes this row
		b.wantClosed("a row of short rows", closedIn(rows), rows...)
		b.wantClosed("rows whose numbers meet in tables", 200, meeting()...)
	}},
	{Name: "a batch", Run: func(t testing.TB, dev device.Device) {
		b := on(t, dev)
		b.checkOf(clique(20), 40, 32, 1)
		b.checkOf(random(60, 300, 1), 300, 96, 2) // several blocks
		b.checkLast()
	}},
	{Name: "rows that ascend", Run: func(t testing.TB, dev device.Device) {
		b := on(t, dev)
		b.checkAscend(40, 90, 1)
		b.checkAscend(300, 3300, 2)
		// fewer arcs than lanes, the last in its own row
		b.checkAscendOf([]uint64{0, 3, 4, 5}, []uint32{2, 0, 0, 1, 1})
	}},
	{Name: "long rows", Run: tryLongRows, Long: true},
	{Name: "a wide batch", Run: tryWide, Long: true},
	{Name: "cliques", Run: func(t testing.TB, dev device.Device) { on(t, dev).check(build(t, clique(140), nil)) }, Long: true},
}

// meeting returns a row that a block hashes and a row that a warp hashes. Both contain pairs of
// numbers that collide in a table. The numbers of a pair differ by a Fibonacci number, so the
// multiplier of the hash makes them adjacent. One number of each pair leads to the other.
func meeting() [][]uint32 {
	const offset = 2584
	rows := make([][]uint32, 5000)
	rows[0] = append(stepped(1, 301, 2), stepped(1+offset, 301+offset, 2)...)
	rows[1200] = append(stepped(1201, 1301, 2), stepped(1201+offset, 1301+offset, 2)...)
	for _, row := range [][]uint32{rows[0], rows[1200]} {
		for _, v := range row[:len(row)/2] {
			rows[v] = []uint32{v + offset}
		}
	}
	return rows
}

// closedIn counts the wedges that an arc closes, in ascending rows.
func closedIn(rows [][]uint32) (count uint64) {
	for _, row := range rows {
		for _, v := range row {
			for _, w := range rows[v] {
				if _, found := slices.BinarySearch(row, w); found {
					count++
				}
			}
		}
	}
	return count
}

// Kernels are correct under random schedules of lanes, warps and blocks, with weak memory. A data
// race is an error.
func TestSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	mutate.RunOnSim(t, kernelTests, 1, 90)
}

// mutants are broken variants of the kernels. Each replaces one pattern in the PTX of the kernels
// with a given name.
var mutants = []mutate.Fault{
	{"a warp does not wait until its table is empty, and full", "count", `bar\.warp\.sync 0xffffffff;`, ""},
	{"a block does not wait", "hubs", `bar\.sync 0;`, ""},
	{"chunks are taken at the scope of a block", "count", `atom\.relaxed\.gpu(\.global\.add\.u32)`, "atom.relaxed.cta$1"},
	{"counts are added up at the scope of a block", "count", `(atom|red)\.relaxed\.gpu(\.global\.add\.u64)`, "$1.relaxed.cta$2"},
	{"a slot is not claimed", "count", `atom\.relaxed\.cta\.shared\.cas\.b32 (%r\d+), \[%r\d+\], %r\d+, (%r\d+);`, "mov.b32 $1, -1;"},
}

// The tests of the kernels detect every mutant.
func TestMutantsFailKernelTests(t *testing.T) {
	mutate.RequireAllDetected(t, kernelTests, mutants)
}

//go:embed testdata/survivors.txt
var survivors string

// Few random changes of the kernels go undetected; flags set the number tried.
func TestRandomMutants(t *testing.T) {
	mutate.Run(t, mutate.Config{Images: []*device.Image{triangles.Image}, Reasons: survivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		triangles.Image.String(): func(m *mutate.Mutant) []mutate.Trial {
			return slices.Concat(mutate.DeviceTrials(m.Arch, 1, kernelTests))
		},
	}})
}

// The kernels of both architectures are the same, so one of them is interpreted.
func TestSameKernels(t *testing.T) { conformance.SameKernels(t, "triangles") }
