package ordered_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/ordered"
)

// Measurements are stored by their time in milliseconds. A range has the measurements of a second,
// and a rank gives the median of a day.
func Example() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	m, err := ordered.New[int64, float64](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	times := []int64{2500, 100, 1700, 1200, 900}
	if _, err := m.Put(ctx, times, []float64{25, 1, 17, 12, 9}); err != nil {
		log.Fatal(err)
	}
	var rows weft.PairRows[int64, float64]
	if err := m.Range(ctx, []int64{0, 1000}, []int64{999, 1999}, 0, &rows); err != nil {
		log.Fatal(err)
	}
	for second := range rows.Len() {
		keys, vals := rows.Row(second)
		fmt.Println(second, keys, vals)
	}
	median := make([]int64, 1)
	if _, err := m.Select(ctx, []uint64{uint64(m.Len() / 2)}, median, nil, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println("median", median[0])
	// Output:
	// 0 [100 900] [1 9]
	// 1 [1200 1700] [12 17]
	// median 1200
}

// A scan of a snapshot sees the map as it was when the snapshot was taken, although the map
// changes.
func ExampleMap_snapshot() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	m, err := ordered.New[uint32, uint32](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Put(ctx, []uint32{1, 2, 3}, []uint32{10, 20, 30}); err != nil {
		log.Fatal(err)
	}
	s, err := m.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	sum := uint32(0)
	for k, v := range s.All() {
		if _, err := m.Put(ctx, []uint32{k + 1, k + 100}, []uint32{0, 0}); err != nil {
			log.Fatal(err)
		}
		sum += v
	}
	fmt.Println(sum, s.Len(), m.Len())
	// Output: 60 3 7
}
