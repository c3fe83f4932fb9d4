package sampling_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/internal/gpu/sampling"
	"github.com/weftgo/weft/internal/mutate"
)

// draw draws from rows of several lengths, as the host does.
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
	for _, fanout := range []int{0, 7, 40, 70} {
		for _, replace := range []bool{false, true} {
			want := make([]uint32, fanout*len(vertices))
			n, err := algo.Sample(ctx, host, g, vertices, fanout, want, &algo.SampleOptions{Seed: 9, Replace: replace})
			must(t, err)
			o.Fanout, o.Seed, o.Replace, o.Out = fanout, 9, replace, devicetest.Upload(t, s, make([]uint32, len(want)))
			drawn, bad, err := k.Draw(ctx, s, &o)
			must(t, err)
			if got := devicetest.Download(t, s, o.Out); drawn != n || bad != -1 || !slices.Equal(got, want) {
				t.Fatalf("fan-out %d, replace %v: %d drawn, want %d; %d bad; the same neighbors: %v", fanout, replace, drawn, n, bad, slices.Equal(got, want))
			}
		}
	}
	copy(vertices[20:], []uint32{120, 119, 500})
	o.Vertices = devicetest.Upload(t, s, vertices)
	if _, bad, err := k.Draw(ctx, s, &o); bad != 20 || err != nil {
		t.Fatalf("vertex 20 of the batch is one too large: %d, %v", bad, err)
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

// Lanes, warps and blocks overtake each other, memory is weak, and a data race is a fault.
func TestSchedules(t *testing.T) { mutate.OnSim(t, kernelTests, 1, 80, 90) }

// The test of the kernels finds broken ones.
func TestMutantsFailKernelTests(t *testing.T) {
	mutate.WantAllNoticed(t, kernelTests, []mutate.Broken{
		{"the largest bad place", "check", `red\.relaxed\.gpu\.global\.min\.u64`, "red.relaxed.gpu.global.max.u64"},
		{"neighbors come again", "draw", `vote\.sync\.ballot\.b32 (%r\d+), p, (%r\d+);`, "mov.b32 $1, 0;"},
		{"draws are added up at the scope of a block", "draw", `atom\.relaxed\.gpu(\.global\.add\.u64)`, "atom.relaxed.cta$1"},
		{"the lower half of a product", "draw", `mul\.hi\.u64`, "mul.lo.u64"},
	})
}

func TestNoKernels(t *testing.T) {
	if _, err := sampling.Load(devicetest.OpenCPU(t, 1)); !errors.Is(err, device.ErrNoKernels) {
		t.Errorf("on a CPU: %v", err)
	}
}
