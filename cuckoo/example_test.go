package cuckoo_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/cpu"
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
	m, err := cuckoo.New[uint64, float64](dev, &cuckoo.Options{MaxLoad: .95})
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

// A set of blocked keys is queried for many more keys than it has. A query reads one bucket if the
// first has a free slot, and two at most.
func ExampleNewSet() {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	blocked, err := cuckoo.NewSet[uint32](dev, &cuckoo.Options{Capacity: 1000, Lookup: cuckoo.AllBuckets})
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

// A fixed table takes the keys that fit, and reports the others.
func ExampleOptions_fixed() {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	m, err := cuckoo.New[uint64, uint64](dev, &cuckoo.Options{Capacity: 8, MaxLoad: 1, Fixed: true})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	keys := make([]uint64, 100)
	for i := range keys {
		keys[i] = uint64(i)
	}
	inserted, err := m.Put(context.Background(), keys, keys)
	fmt.Println(inserted >= 8, errors.Is(err, weft.ErrFull))
	// Output: true true
}
