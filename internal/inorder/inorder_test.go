package inorder

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/cpu"
)

// Search and Gallop agree with a binary search, in arrays with every size of a last node and with
// several levels.
func TestSearch(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	g := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 15, 16, 17, 31, 255, 256, 257, 5000, 70_000}
	for _, n := range sizes {
		a := Keys[uint64]{Keys: make([]uint64, n)}
		for i := range a.Keys {
			a.Keys[i] = uint64(3*i + 1)
		}
		for size := n >> FanBits; size > 0; size >>= FanBits {
			a.Index = append(a.Index, make([]uint64, size))
		}
		a.Fill(dev)
		const flip = 1 << 63
		var asked [Searched]uint64
		for i := range asked {
			asked[i] = g.Uint64N(uint64(3*n+3)) ^ flip
		}
		var at Places
		a.Search(asked[:], flip, &at)
		for i, k := range asked {
			want, _ := slices.BinarySearch(a.Keys, k^flip)
			if from := g.IntN(want + 1); at[i] != want || Gallop(a.Keys, from, k^flip) != want {
				t.Fatalf("%d keys: %d is at %d and, from %d on, at %d, want %d", n, k^flip, at[i], from, Gallop(a.Keys, from, k^flip), want)
			}
		}
	}
}

// Deal keeps rows with equal keys together and omits no row.
func TestDeal(t *testing.T) {
	items := make([]cpu.Item[uint32], 50_000)
	for i := range items {
		items[i].Key = uint32(i / 1000)
	}
	at, parts := 0, 0
	Deal(devicetest.OpenCPU(t, 2), items, func(lo, hi int) {
		if lo != at || hi <= lo || hi < len(items) && items[hi].Key == items[hi-1].Key {
			t.Fatalf("rows %d to %d behind %d", lo, hi, at)
		}
		at, parts = hi, parts+1
	})
	if at != len(items) || parts < 2 {
		t.Errorf("%d parts end at %d", parts, at)
	}
}
