package horton_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/horton"
)

// A map lives on a device. "auto" selects the GPU, if present; this example uses the CPU. The map
// may fill 0.95 of its slots.
func Example() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	m, err := horton.New[uint64, float64](dev, &horton.Options{MaxLoad: .95})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	inserted, err := m.Put(ctx, []uint64{10, 20, 30, 20}, []float64{1, 2, 3, 2.5})
	if err != nil {
		log.Fatal(err)
	}
	vals, found := make([]float64, 3), make([]bool, 3)
	hits, err := m.Get(ctx, []uint64{20, 25, 30}, vals, found)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(inserted, "inserted,", hits, "found:", vals, found)
	// Output: 3 inserted, 2 found: [2.5 0 3] [true false true]
}

// A set of blocked keys is queried for many more keys than it has. A query usually reads one
// bucket, and two at most.
func ExampleNewSet() {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	blocked, err := horton.NewSet[uint32](dev, &horton.Options{Capacity: 1000})
	if err != nil {
		log.Fatal(err)
	}
	defer blocked.Close()
	if _, err := blocked.Add(context.Background(), []uint32{7, 8, 9}, nil); err != nil {
		log.Fatal(err)
	}
	found := make([]bool, 4)
	n, err := blocked.Contains(context.Background(), []uint32{1, 8, 1 << 31, 7}, found)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, found, slices.Sorted(blocked.All()))
	// Output: 2 [false true false true] [7 8 9]
}

// Stats reports how many buckets a lookup reads. Reclaim selects when deletes make lookups shorter.
func ExampleMap_Stats() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	m, err := horton.New[uint32, uint32](dev, &horton.Options{Capacity: 60_000, MaxLoad: .95, Fixed: true, Reclaim: horton.Eager})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	keys := make([]uint32, 60_000)
	for i := range keys {
		keys[i] = uint32(i)
	}
	for _, change := range []func() (int, error){
		func() (int, error) { return m.Put(ctx, keys, keys) },
		func() (int, error) { return m.Delete(ctx, keys[6_000:], nil) },
	} {
		if _, err := change(); err != nil {
			log.Fatal(err)
		}
		s, err := m.Stats(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d keys: %.1f buckets per hit, %.1f per miss\n", s.Len, s.PerHit, s.PerMiss)
	}
	// Output:
	// 60000 keys: 1.2 buckets per hit, 1.1 per miss
	// 6000 keys: 1.0 buckets per hit, 1.0 per miss
}
