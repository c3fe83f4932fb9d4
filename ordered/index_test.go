package ordered

import (
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
)

// TestIndex checks that a search ends at the last separator that is not larger than the key, and
// that ranks and places are right. It covers numbers of leaves around multiples of the node size.
func TestIndex(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, leaves := range []int{1, 2, 15, 16, 17, 255, 256, 257, 4096, 4097} {
		x, err := newIndex[uint32](dev, leaves)
		if err != nil {
			t.Fatal(err)
		}
		x.layOutArrays(leaves)
		for i := range leaves {
			x.seps[0][i], x.sizes[i] = uint32(10*i), uint8(1+rng.IntN(leafPairs))
		}
		x.complete()
		if end := x.ranks[len(x.ranks)-1]; len(x.mem.Host) != indexBytes[uint32](leaves) || end != x.before(leaves) {
			t.Fatalf("%d leaves have %d pairs, %d before the last", leaves, end, x.before(leaves))
		}
		for range 1000 {
			key := rng.Uint32N(uint32(10*leaves + 20))
			if rng.IntN(50) == 0 {
				key = ^uint32(0)
			}
			want := sort.Search(leaves, func(i int) bool { return uint32(10*i) > key }) - 1
			if got := x.leaf(key); got != want {
				t.Fatalf("%d leaves: key %d is in leaf %d, want %d", leaves, key, got, want)
			}
		}
		total := uint64(0)
		for i, size := range x.sizes[:leaves] {
			for at := range int(size) {
				if p, j := x.place(total + uint64(at)); p != i || j != at || x.before(i) != total {
					t.Fatalf("%d leaves: pair %d is %d of leaf %d, want %d of %d", leaves, total+uint64(at), j, p, at, i)
				}
			}
			total += uint64(size)
		}
		if err := dev.Free(x.mem); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLeafBounds checks the bounds in a leaf for any number of pairs.
func TestLeafBounds(t *testing.T) {
	for n := 1; n <= leafPairs; n++ {
		var l leaf[uint64, uint32]
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = uint64(2*i + 1)
		}
		l.set(keys, make([]uint32, n))
		for key := range uint64(2*n + 3) {
			lower := min(int(key/2), n)
			upper := min(int((key+1)/2), n)
			if l.lower(key, n) != lower || l.upper(key, n) != upper {
				t.Fatalf("%d pairs, key %d: %d and %d, want %d and %d", n, key, l.lower(key, n), l.upper(key, n), lower, upper)
			}
		}
	}
}
