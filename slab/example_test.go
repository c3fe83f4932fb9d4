package slab_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/slab"
)

// A map lies on a device: with "auto" a GPU if the host has one, here a CPU.
func Example() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	m, err := slab.New[uint64, float64](dev, nil)
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
	// Output:
	// 3 inserted, 2 found: [2.5 0 3] [true false true]
}

func openCPU() *cpu.Device {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	return dev
}

// A key of a multimap has a pair for each Put. Here the values are the rows of a table that contain
// the key, as for a join.
func ExampleMultiMap() {
	ctx := context.Background()
	dev := openCPU()
	defer dev.Close()
	byCity, err := slab.NewMultiMap[uint32, uint32](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer byCity.Close()

	cities, rows := []uint32{7, 3, 7, 7, 3}, []uint32{0, 1, 2, 3, 4}
	if _, err := byCity.Put(ctx, cities, rows); err != nil {
		log.Fatal(err)
	}
	keys := []uint32{3, 5, 7}
	var found weft.Rows[uint32]
	if err := byCity.GetAll(ctx, keys, &found); err != nil {
		log.Fatal(err)
	}
	for i, city := range keys {
		fmt.Println("city", city, "is in rows", found.Row(i))
	}
	n, err := byCity.DeleteAll(ctx, []uint32{7}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "pairs removed,", byCity.Len(), "left")
	// Output:
	// city 3 is in rows [1 4]
	// city 5 is in rows []
	// city 7 is in rows [0 2 3]
	// 3 pairs removed, 2 left
}

// A multimap can hold a queue per key: Put appends a value, and Delete removes the first.
func ExampleMultiMap_Delete() {
	ctx := context.Background()
	dev := openCPU()
	defer dev.Close()
	queues, err := slab.NewMultiMap[uint32, uint64](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer queues.Close()
	if _, err := queues.Put(ctx, []uint32{1, 1, 1}, []uint64{100, 200, 300}); err != nil {
		log.Fatal(err)
	}
	first := make([]uint64, 1)
	for {
		n, err := queues.Get(ctx, []uint32{1}, first, nil)
		if err != nil {
			log.Fatal(err)
		}
		if n == 0 {
			break
		}
		fmt.Println(first[0])
		if _, err := queues.Delete(ctx, []uint32{1}, nil); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 100
	// 200
	// 300
}

// A set finds the distinct ids in several batches.
func ExampleSet() {
	dev := openCPU()
	defer dev.Close()
	seen, err := slab.NewSet[uint64](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer seen.Close()
	for _, batch := range [][]uint64{{7, 8, 7}, {8, 9}} {
		first := make([]bool, len(batch))
		n, err := seen.Add(context.Background(), batch, first)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch, "has", n, "new:", first)
	}
	fmt.Println(slices.Sorted(seen.All()))
	// Output:
	// [7 8 7] has 2 new: [true true false]
	// [8 9] has 1 new: [false true]
	// [7 8 9]
}

// A batch may contain operations of several kinds. A multimap supports more kinds than a map.
func ExampleMultiMap_Apply() {
	dev := openCPU()
	defer dev.Close()
	m, err := slab.NewMultiMap[uint32, uint32](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Put(context.Background(), []uint32{1, 1, 2}, []uint32{10, 11, 20}); err != nil {
		log.Fatal(err)
	}
	ops := []weft.Op[uint32, uint32]{
		{Kind: weft.OpDeleteAll, Key: 1},
		{Kind: weft.OpPutNew, Key: 2, Value: 21},
		{Kind: weft.OpPut, Key: 3, Value: 30},
		{Kind: weft.OpDelete, Key: 4},
	}
	res := make([]weft.Result[uint32], len(ops))
	if err := m.Apply(context.Background(), ops, res); err != nil {
		log.Fatal(err)
	}
	for i, op := range ops {
		fmt.Println(op.Kind, op.Key, res[i].OK)
	}
	fmt.Println(m.Len(), "pairs")
	// Output:
	// DeleteAll 1 true
	// PutNew 2 false
	// Put 3 true
	// Delete 4 false
	// 2 pairs
}

// Batches in device memory are not copied. Methods return when the work is submitted; Sync waits
// for the work.
func ExampleMap_PutOn() {
	ctx := context.Background()
	dev := openCPU()
	defer dev.Close()
	m, err := slab.New[uint64, uint64](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	stream, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	keys, err := device.Upload(stream, []uint64{3, 1, 4})
	if err != nil {
		log.Fatal(err)
	}
	defer keys.Free()

	if err := m.PutOn(stream, keys, keys); err != nil {
		log.Fatal(err)
	}
	if err := m.Sync(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Len())
	// Output: 3
}

// With one bucket, the structure is the paper's slab list: an unordered list that many threads
// change concurrently.
func ExampleOptions_list() {
	ctx := context.Background()
	dev := openCPU()
	defer dev.Close()
	list, err := slab.NewSet[uint32](dev, &slab.Options{Buckets: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer list.Close()
	keys := make([]uint32, 100)
	for i := range keys {
		keys[i] = uint32(i)
	}
	if _, err := list.Add(ctx, keys, nil); err != nil {
		log.Fatal(err)
	}
	s, err := list.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Len, "keys in", s.MaxChain, "slabs")
	// Output: 100 keys in 4 slabs
}
