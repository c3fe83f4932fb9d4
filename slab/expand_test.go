package slab_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/staging"
	"github.com/weftgo/weft/slab"
)

// Values of variable number come back whole and in order: in pieces that are
// smaller than what some keys have, through scratch that is smaller, too, to
// memory that is page-locked or not, behind rows that are there.
func TestGetAllInPieces(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, limit := range []int{1, 0} {
		for _, piece := range []int{64, 1 << 10, 2 << 20} {
			t.Run(fmt.Sprintf("limit %d, pieces of %d bytes", limit, piece), func(t *testing.T) {
				dev := devicetest.OpenSim(t, nil)
				gpu.Limit(dev, limit)
				defer gpu.Limit(dev, 0)
				defer staging.Configure(dev, staging.Settings{PieceBytes: piece, Segments: 3})()
				getAllInPieces(t, dev)
			})
		}
	}
}

func getAllInPieces(t *testing.T, dev device.Device) {
	m, err := slab.NewMultiMap[uint32, uint64](dev, &slab.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	want := map[uint32][]uint64{}
	var keys []uint32
	var vals []uint64
	for k := range uint32(60) {
		n := rng.IntN(12)
		if k%20 == 7 {
			n = 600 // more than a small piece, more than the smallest scratch
		}
		for range n {
			v := rng.Uint64()
			keys, vals, want[k] = append(keys, k), append(vals, v), append(want[k], v)
		}
	}
	if _, err := m.Put(t.Context(), keys, vals); err != nil {
		t.Fatal(err)
	}
	pinned, err := dev.AllocHost(8 * 8 * len(vals))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.FreeHost(pinned)
	for _, memory := range [][]uint64{nil, batch.View[uint64](pinned)[:0]} {
		rows := weft.Rows[uint64]{Vals: memory}
		var asked []uint32
		for range 3 {
			more := make([]uint32, 40)
			for i := range more {
				more[i] = rng.Uint32N(64)
			}
			asked = append(asked, more...)
			if err := m.GetAll(t.Context(), more, &rows); err != nil {
				t.Fatal(err)
			}
		}
		for i, k := range asked {
			got := slices.Sorted(slices.Values(rows.Row(i)))
			if w := slices.Sorted(slices.Values(want[k])); !slices.Equal(got, w) {
				t.Fatalf("key %d has %d values, want %d", k, len(got), len(w))
			}
		}
	}
}
