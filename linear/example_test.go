package linear_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
)

// This example uses the CPU; "auto" selects the GPU if one is present.
func Example() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	m, err := linear.New[uint64, float64](dev, nil)
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
	fmt.Println(m.Len(), "pairs")
	// Output:
	// 3 inserted, 2 found: [2.5 0 3] [true false true]
	// 3 pairs
}

func open[K weft.Key, V weft.Value](opts *linear.Options) (*cpu.Device, *linear.Map[K, V], func()) {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	m, err := linear.New[K, V](dev, opts)
	if err != nil {
		log.Fatal(err)
	}
	return dev, m, func() {
		m.Close()
		dev.Close()
	}
}

// This example removes duplicates from a stream of batches.
func ExampleSet() {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	seen, err := linear.NewSet[uint64](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer seen.Close()
	for _, batch := range [][]uint64{{7, 8, 7}, {8, 9}, {9, 9, 7}} {
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
	// [9 9 7] has 0 new: [false false false]
	// [7 8 9]
}

// One batch may mix operations of all kinds.
func ExampleMap_Apply() {
	_, m, done := open[uint32, uint32](nil)
	defer done()
	ops := []weft.Op[uint32, uint32]{
		{Kind: weft.OpPut, Key: 1, Value: 100},
		{Kind: weft.OpPut, Key: 2, Value: 200},
		{Kind: weft.OpPutNew, Key: 3, Value: 300},
		{Kind: weft.OpDelete, Key: 4},
	}
	res := make([]weft.Result[uint32], len(ops))
	if err := m.Apply(context.Background(), ops, res); err != nil {
		log.Fatal(err)
	}
	for i, op := range ops {
		fmt.Println(op.Kind, op.Key, res[i].OK)
	}
	// Output:
	// Put 1 true
	// Put 2 true
	// PutNew 3 true
	// Delete 4 false
}

// This example caches costly results: if two goroutines put a value for the same key, both continue
// with the first value.
func ExampleMap_GetOrPut() {
	ctx := context.Background()
	_, m, done := open[uint32, float64](nil)
	defer done()
	if _, err := m.Put(ctx, []uint32{1}, []float64{.5}); err != nil {
		log.Fatal(err)
	}
	keys, vals, loaded := []uint32{1, 2, 2}, []float64{10, 20, 30}, make([]bool, 3)
	inserted, err := m.GetOrPut(ctx, keys, vals, loaded)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(inserted, vals, loaded)
	// Output: 1 [0.5 20 20] [true false true]
}

// This example encodes columns of a table as dense ids of their distinct values, batch by batch.
func ExampleMap_Assign() {
	_, m, done := open[int64, int32](nil)
	defer done()
	for _, column := range [][]int64{{1999, -7, 1999}, {42, -7, 5}} {
		ids := make([]int32, len(column))
		fresh, err := m.Assign(context.Background(), column, ids)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(column, "are", ids, "with", fresh, "new ones")
	}
	// Output:
	// [1999 -7 1999] are [0 1 0] with 2 new ones
	// [42 -7 5] are [2 1 3] with 2 new ones
}

// Batches in device memory are not copied. Methods return when the work is submitted, and Sync
// waits for it.
func ExampleMap_PutOn() {
	ctx := context.Background()
	dev, m, done := open[uint64, uint64](nil)
	defer done()
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
	vals, err := device.Upload(stream, []uint64{30, 10, 40})
	if err != nil {
		log.Fatal(err)
	}
	defer vals.Free()

	if err := m.PutOn(stream, keys, vals); err != nil {
		log.Fatal(err)
	}
	if err := m.GetOn(stream, keys, vals, device.Slice[bool]{}); err != nil {
		log.Fatal(err)
	}
	got := make([]uint64, 3)
	if err := vals.CopyTo(ctx, stream, got); err != nil {
		log.Fatal(err)
	}
	if err := m.Sync(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(got, m.Len())
	// Output: [30 10 40] 3
}

// A fixed table takes the keys that fit and reports the rest.
func ExampleOptions_fixed() {
	_, m, done := open[uint64, uint64](&linear.Options{Capacity: 4, MaxLoad: 1, Fixed: true})
	defer done()
	keys := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	inserted, err := m.Put(context.Background(), keys, keys)
	fmt.Println(inserted, errors.Is(err, weft.ErrFull))
	fmt.Println(err)
	// Output:
	// 8 true
	// linear: Put: 10 operations tried, 2 failed: full: no room for 2 of 10 operations in 8 slots (8 live, 0 dead)
}

func ExampleMap_All() {
	_, m, done := open[uint32, float32](nil)
	defer done()
	if _, err := m.Put(context.Background(), []uint32{1, 2, 3}, []float32{.5, .25, .125}); err != nil {
		log.Fatal(err)
	}
	sum := float32(0)
	for _, v := range m.All() {
		sum += v
	}
	fmt.Println(sum)
	// Output: 0.875
}
