package slab_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/staging"
	"github.com/weftgo/weft/slab"
)

// TestGetAllInPieces checks that GetAll returns all values in order. The pieces and the work memory
// are smaller than the values of some keys. The result memory is page-locked or not, and already
// has rows.
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
				defer staging.Configure(dev, staging.Settings{PieceBytes: piece, Slots: 3})()
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
			n = 600 // exceeds a small piece and the smallest work memory
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

// TestGetAllBesideDeletes deletes pairs while GetAll reads their values. A key may have fewer
// values than were counted, but none that it never had.
func TestGetAllBesideDeletes(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, piece := range []int{64, 2 << 20} { // less than a key has, and more than all keys have
		t.Run(fmt.Sprintf("pieces of %d bytes", piece), func(t *testing.T) {
			dev := devicetest.Open(t)
			if dev.Properties().Kind == device.CPU { // runs nothing alongside a change
				dev = devicetest.OpenSim(t, nil)
			}
			defer staging.Configure(dev, staging.Settings{PieceBytes: piece, Slots: 2})()
			getAllAlongsideDeletes(t, dev)
		})
	}
}

func getAllAlongsideDeletes(t *testing.T, dev device.Device) {
	m, err := slab.NewMultiMap[uint32, uint64](dev, &slab.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const different, each = 20, 30
	var keys, asked []uint32
	var vals []uint64
	for k := range uint32(different) {
		asked = append(asked, k)
		for i := range each {
			keys, vals = append(keys, k), append(vals, uint64(k)<<32|uint64(i)|1<<63)
		}
	}
	for range 30 {
		if _, err := m.Put(t.Context(), keys, vals); err != nil {
			t.Fatal(err)
		}
		var deleting sync.WaitGroup
		deleting.Go(func() {
			for _, k := range []uint32{3, 17, 4} {
				if _, err := m.DeleteAll(t.Context(), []uint32{k}, nil); err != nil {
					t.Error(err)
				}
			}
		})
		var rows weft.Rows[uint64]
		err := m.GetAll(t.Context(), asked, &rows)
		deleting.Wait()
		if err != nil || rows.Len() != different || rows.Offsets[different] != uint64(len(rows.Vals)) {
			t.Fatalf("%d rows, %d values, the last offset is %d: %v", rows.Len(), len(rows.Vals), rows.Offsets[different], err)
		}
		for i, k := range asked {
			row := slices.Sorted(slices.Values(rows.Row(i)))
			for _, v := range row {
				if uint32(v>>32)&^(1<<31) != k {
					t.Fatalf("key %d of %d values has %#x", k, len(row), v)
				}
			}
			if len(row) != len(slices.Compact(row)) {
				t.Fatalf("key %d has a value twice", k)
			}
		}
		if _, err := m.DeleteAll(t.Context(), asked, nil); err != nil {
			t.Fatal(err)
		}
	}
}
