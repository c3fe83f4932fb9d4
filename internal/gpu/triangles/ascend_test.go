package triangles_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
)

// scattered returns unsorted rows of n vertices, some empty, with loops and duplicates.
func scattered(n, arcs int, seed uint64) (offsets []uint64, neighbors []uint32) {
	r := rand.New(rand.NewPCG(seed, 4))
	rows := make([][]uint32, n)
	for i := range arcs {
		u := r.IntN(n)
		if i%3 == 0 {
			u = n / 3 // a hub
		}
		if u%5 != 4 {
			rows[u] = append(rows[u], uint32(r.IntN(n)))
		}
	}
	offsets = []uint64{0}
	for _, row := range rows {
		neighbors = append(neighbors, row...)
		offsets = append(offsets, uint64(len(neighbors)))
	}
	return offsets, neighbors
}

func (b bench) checkAscend(n, arcs int, seed uint64) {
	b.Helper()
	b.checkAscendOf(scattered(n, arcs, seed))
}

// checkAscendOf compares sorted rows with those that Go sorts.
func (b bench) checkAscendOf(offsets []uint64, neighbors []uint32) {
	b.Helper()
	n, input := len(offsets)-1, b.upload(offsets, neighbors)
	for _, turned := range []bool{false, true} {
		rows := make([][]uint32, n)
		for u := range rows {
			for _, v := range neighbors[offsets[u]:offsets[u+1]] {
				if rows[u] = append(rows[u], v); turned {
					rows[v] = append(rows[v], uint32(u))
				}
			}
		}
		wantOffsets, want := []uint64{0}, []uint32(nil)
		for _, row := range rows {
			if slices.Sort(row); turned {
				row = slices.Compact(row)
			}
			want = append(want, row...)
			wantOffsets = append(wantOffsets, uint64(len(want)))
		}
		got, err := b.k.Ascend(context.Background(), b.s, input, turned)
		must(b, err)
		if !slices.Equal(devicetest.Download(b, b.s, got.Offsets), wantOffsets) || !slices.Equal(devicetest.Download(b, b.s, got.Neighbors), want) {
			b.Errorf("%d vertices, %d arcs, turned %v: other rows than those of the host", n, len(neighbors), turned)
		}
		must(b, got.Free())
	}
}

// Rows are sorted correctly in graphs that end anywhere in words, warps and strips.
func TestSmokeAscend(t *testing.T) {
	b := on(t, devicetest.OpenGPU(t))
	for _, n := range []int{1, 2, 3, 40, 1000} {
		for _, arcs := range []int{0, 1, 2, 33, 700, 5000} {
			b.checkAscend(n, arcs, uint64(arcs))
		}
	}
}

// Running out of memory leaks nothing.
func TestAscendFails(t *testing.T) {
	dev := devicetest.OpenGPU(t)
	b := on(t, dev)
	input := b.upload([]uint64{0, 2, 3}, []uint32{1, 0, 0})
	devicetest.FailEach(t, dev, "rows that ascend", func() error {
		rows, err := b.k.Ascend(t.Context(), b.s, input, true)
		return errors.Join(err, rows.Free())
	})
}
