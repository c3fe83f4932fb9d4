package sampling_test

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/gpu/sampling"
	"github.com/weftgo/weft/internal/mutate"
)

// draw draws from rows of several lengths, and compares with the host.
func draw(t testing.TB, dev device.Device) {
	t.Helper()
	ctx, host := context.Background(), devicetest.OpenCPU(t, 1)
	offsets, targets := []uint64{0}, []uint32(nil)
	for v := range uint32(120) {
		for i := range v {
			targets = append(targets, (v+i*i)%120)
		}
		offsets = append(offsets, uint64(len(targets)))
	}
	g, err := graph.NewCSR(offsets, targets, true)
	must(t, err)
	k, err := sampling.Load(dev)
	must(t, err)
	s := devicetest.NewStream(t, dev)
	vertices := make([]uint32, 40)
	for i := range vertices {
		vertices[i] = uint32(i * 3)
	}
	o := sampling.Sample{Offsets: devicetest.Upload(t, s, offsets), Neighbors: devicetest.Upload(t, s, targets), Vertices: devicetest.Upload(t, s, vertices)}
	same := func(vertices []uint32, fanout int, replace bool) {
		t.Helper()
		want := make([]uint32, fanout*len(vertices))
		n, err := algo.Sample(ctx, host, g, vertices, fanout, want, &algo.SampleOptions{Seed: 9, Replace: replace})
		must(t, err)
		o.Vertices, o.Fanout, o.Seed, o.Replace, o.Out = devicetest.Upload(t, s, vertices), fanout, 9, replace, devicetest.Upload(t, s, make([]uint32, len(want)))
		drawn, bad, err := k.Draw(ctx, s, &o)
		must(t, err)
		if got := devicetest.Download(t, s, o.Out); drawn != n || bad != -1 || !slices.Equal(got, want) {
			t.Fatalf("fan-out %d, replace %v: %d drawn, want %d; %d bad; the same neighbors: %v", fanout, replace, drawn, n, bad, slices.Equal(got, want))
		}
	}
	for _, fanout := range []int{0, 7, 40, 64, 70} { // up to 64 by one algorithm, above by another
		same(vertices, fanout, false)
		same(vertices, fanout, true)
	}
	for _, fanout := range []int{1, 31, 32, 33} {
		same([]uint32{1}, fanout, false) // with one neighbor, which is the only draw
		same([]uint32{100, 33, 32, 34}, fanout, false)
	}
	many := slices.Repeat(vertices, 20) // several blocks
	copy(many[520:], []uint32{120, 119, 500})
	many[700] = 1 << 31
	o.Vertices, o.Fanout, o.Out = devicetest.Upload(t, s, many), 1, devicetest.Upload(t, s, many)
	if _, bad, err := k.Draw(ctx, s, &o); bad != 520 || err != nil {
		t.Fatalf("vertex 520 of the batch is one too large: %d, %v", bad, err)
	}
	many[300] = 121
	o.Vertices = devicetest.Upload(t, s, many)
	if _, bad, err := k.Draw(ctx, s, &o); bad != 300 || err != nil {
		t.Fatalf("vertex 300 of the batch is two too large: %d, %v", bad, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSmokeDraw(t *testing.T) {
	draw(t, devicetest.OpenGPU(t))
}

var kernelTests = []mutate.KernelTest{{Name: "draw", Run: draw}}

// Kernels are correct under random schedules of lanes, warps and blocks, with weak memory. A data
// race is an error.
func TestSchedules(t *testing.T) { mutate.RunOnSim(t, kernelTests, 1, 90) }

// The test of the kernels detects broken ones.
func TestMutantsFailKernelTests(t *testing.T) {
	mutate.RequireAllDetected(t, kernelTests, []mutate.Fault{
		{"the largest bad place", "check", `red\.relaxed\.gpu\.global\.min\.u64`, "red.relaxed.gpu.global.max.u64"},
		{"neighbors come again", "draw", `vote\.sync\.ballot\.b32 (%r\d+), p, (%r\d+);`, "mov.b32 $1, 0;"},
		{"draws are added up at the scope of a block", "draw", `atom\.relaxed\.gpu(\.global\.add\.u64)`, "atom.relaxed.cta$1"},
		{"the lower half of a product", "draw", `mul\.hi\.u64`, "mul.lo.u64"},
	})
}

//go:embed testdata/survivors.txt
var survivors string

// Few random changes of the kernels go undetected; flags set the number tried.
func TestRandomMutants(t *testing.T) {
	mutate.Run(t, mutate.Config{Images: []*device.Image{sampling.Image}, Reasons: survivors, Trials: map[string]func(*mutate.Mutant) []mutate.Trial{
		sampling.Image.String(): func(m *mutate.Mutant) []mutate.Trial {
			return slices.Concat(mutate.DeviceTrials(m.Arch, 1, kernelTests))
		},
	}})
}

func TestNoKernels(t *testing.T) {
	if _, err := sampling.Load(devicetest.OpenCPU(t, 1)); !errors.Is(err, device.ErrNoKernels) {
		t.Errorf("on a CPU: %v", err)
	}
}

// The kernels of both architectures are the same, so one of them is interpreted.
func TestSameKernels(t *testing.T) { conformance.SameKernels(t, "sampling") }
