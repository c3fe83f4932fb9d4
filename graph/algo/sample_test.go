package algo

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
)

// star is a graph in which vertex 0 has so many neighbors.
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

// Each neighbor is drawn as often as any other, whichever way samples are drawn, and without Replace none
// twice in a row.
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

// Vertices with few neighbors have all of them, and rows end with None; one seed is one sample on
// any number of cores.
func TestSampleRows(t *testing.T) {
	g := star(t, 3)
	vertices := []uint32{0, 4, 1}
	out := make([]uint32, 15)
	n, err := Sample(t.Context(), devicetest.OpenCPU(t, 1), g, vertices, 5, out, nil)
	if want := []uint32{1, 2, 3, None, None, None, None, None, None, None, None, None, None, None, None}; err != nil || n != 3 || !slices.Equal(out, want) {
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
