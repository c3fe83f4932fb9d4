package algo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
)

func star(t *testing.T, n int) *graph.CSR {
	t.Helper()
	e := graph.Edges{Vertices: n + 2}
	for v := range n {
		e.From, e.To = append(e.From, 0), append(e.To, uint32(v+1))
	}
	g, err := graph.Build(t.Context(), devicetest.OpenCPU(t, 1), e, &graph.Options{Directed: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSampleIsUniform checks for each method that all neighbors are drawn equally often, and
// without Replace at most once.
func TestSampleIsUniform(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for _, tt := range []struct {
		degree, fanout int
		replace        bool
	}{{40, 10, false}, {40, 10, true}, {40, 39, false}, {90, 70, false}, {3, 8, true}, {200, 1, false}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			const draws = 4000
			g := star(t, tt.degree)
			vertices, out := make([]uint32, draws), make([]uint32, draws*tt.fanout)
			n, err := Sample(t.Context(), dev, g, vertices, tt.fanout, out, &SampleOptions{Seed: 5, Replace: tt.replace})
			if err != nil || n != len(out) {
				t.Fatalf("%d drawn, %v", n, err)
			}
			counts := make([]float64, tt.degree)
			for _, v := range out {
				counts[v-1]++
			}
			mean := float64(len(out)) / float64(tt.degree)
			share := float64(tt.fanout) / float64(tt.degree)
			sigma := math.Sqrt(mean * max(.001, 1-share))
			if tt.replace {
				sigma = math.Sqrt(mean)
			}
			for v, c := range counts {
				if math.Abs(c-mean) > 5*sigma {
					t.Errorf("neighbor %d is drawn %v times, want %.0f ± %.0f", v, c, mean, sigma)
				}
			}
			for i := range draws {
				row := slices.Clone(out[i*tt.fanout : (i+1)*tt.fanout])
				slices.Sort(row)
				if !tt.replace && len(slices.Compact(row)) != tt.fanout {
					t.Fatalf("draw %d has a neighbor twice: %v", i, out[i*tt.fanout:(i+1)*tt.fanout])
				}
			}
		})
	}
}

// TestSampleRows checks that all neighbors are drawn if they are few, and that NoVertex fills the
// row. A seed must yield the same sample on any number of cores.
func TestSampleRows(t *testing.T) {
	g := star(t, 3)
	vertices := []uint32{0, 4, 1}
	out := make([]uint32, 15)
	n, err := Sample(t.Context(), devicetest.OpenCPU(t, 1), g, vertices, 5, out, nil)
	if want := []uint32{1, 2, 3, NoVertex, NoVertex, NoVertex, NoVertex, NoVertex, NoVertex, NoVertex, NoVertex, NoVertex, NoVertex, NoVertex, NoVertex}; err != nil || n != 3 || !slices.Equal(out, want) {
		t.Errorf("%d drawn, %v: %v", n, err, out)
	}
	g = star(t, 500)
	vertices = make([]uint32, 3*rows)
	var samples [4][]uint32
	for i := range samples {
		samples[i] = make([]uint32, 4*len(vertices))
		o := SampleOptions{Seed: uint64(i / 3)}
		if _, err := Sample(t.Context(), devicetest.OpenCPU(t, i+1), g, vertices, 4, samples[i], &o); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(samples[0], samples[1]) || !slices.Equal(samples[0], samples[2]) || slices.Equal(samples[0], samples[3]) {
		t.Error("samples of one seed differ, or those of two do not")
	}
}

// TestSampleOnKernels checks for each method that a device with kernels draws the same sample as a
// CPU.
func TestSampleOnKernels(t *testing.T) {
	dev, host := kernelDevice(t), devicetest.OpenCPU(t, 1)
	all := shapes()
	graphs := []*graph.CSR{star(t, 3), star(t, 40), star(t, 400), star(t, 0)}
	for _, s := range []shape{all[9], all[5]} {
		g, err := graph.Build(t.Context(), host, s.Edges, nil)
		must(t, err)
		graphs = append(graphs, g)
	}
	for i, g := range graphs {
		vertices := make([]uint32, 60)
		for j := range vertices {
			vertices[j] = uint32(j * j % 7 * 3 % g.Vertices())
		}
		for _, fanout := range []int{0, 1, 5, 32, 33, 39, 64, 65, 130} {
			for _, o := range []*SampleOptions{nil, {Seed: 77}, {Seed: 1 << 60, Replace: true}} {
				want, got := make([]uint32, len(vertices)*fanout), make([]uint32, len(vertices)*fanout)
				expected, err := Sample(t.Context(), host, g, vertices, fanout, want, o)
				must(t, err)
				drawn, err := Sample(t.Context(), dev, g, vertices, fanout, got, o)
				must(t, err)
				if drawn != expected || !slices.Equal(got, want) {
					t.Fatalf("graph %d, fan-out %d, %+v: %d drawn, want %d; the same neighbors: %v", i, fanout, o, drawn, expected, slices.Equal(got, want))
				}
			}
		}
	}
	_, err := Sample(t.Context(), dev, graphs[0], []uint32{0, 1, 9, 77}, 1, make([]uint32, 4), nil)
	if !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "vertex 2 of the batch is 9, but there are 5") {
		t.Errorf("a vertex that there is not: %v", err)
	}
	_, err = Sample(t.Context(), host, graphs[0], nil, 1, nil, nil)
	must(t, err)
}

// TestSampleFailsOnKernels checks that failed samples and ended contexts leak nothing. It also
// samples a graph on a CPU.
func TestSampleFailsOnKernels(t *testing.T) {
	kernelDevice(t)
	dev, g := devicetest.Checked(t, devicetest.OpenSim(t, nil)), star(t, 9)
	call := func(ctx context.Context) error {
		_, err := Sample(ctx, dev, g, []uint32{0, 1}, 3, make([]uint32, 6), nil)
		return err
	}
	must(t, call(t.Context()))
	leavesNothing(t, dev, "Sample", call)
	host := devicetest.OpenCPU(t, 1)
	s := devicetest.NewStream(t, host)
	uploaded, err := g.Upload(s)
	must(t, err)
	out := devicetest.Upload(t, s, make([]uint32, 3))
	if n, err := SampleOn(t.Context(), s, uploaded, devicetest.Upload(t, s, []uint32{0}), 3, out, nil); n != 3 || err != nil || out.Host()[0] == 0 {
		t.Errorf("%d drawn, %v", n, err)
	}
	must(t, uploaded.Free())
}
