package lsm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/lsm"
)

// Readings are inserted in batches and queried by time. Old readings are deleted.
func Example() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	readings, err := lsm.New[int64, float64](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer readings.Close()
	for hour := range int64(3) { // one sorted piece each
		times := []int64{3600*hour + 1800, 3600 * hour, 3600*hour + 900}
		if _, err := readings.Put(ctx, times, []float64{20.5, 20, 21}); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := readings.DeleteRange(ctx, []int64{0}, []int64{3599}, nil); err != nil {
		log.Fatal(err)
	}
	var rows weft.PairRows[int64, float64]
	if err := readings.Range(ctx, []int64{0}, []int64{5000}, 0, &rows); err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows.Row(0))
	fmt.Println(readings.Len())
	// Output:
	// [3600 4500] [20 21]
	// 6
}

// A newer value hides an older value until their levels are merged.
func ExampleMap_Stats() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	m, err := lsm.New[uint32, uint32](dev, &lsm.Options{Base: 16})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	keys := make([]uint32, 100)
	for i := range keys {
		keys[i] = uint32(i)
	}
	vals := make([]uint32, 100)
	if _, err := m.Put(ctx, keys, vals); err != nil {
		log.Fatal(err)
	}
	vals[7] = 1
	if _, err := m.Put(ctx, keys[:10], vals[:10]); err != nil { // only one of them changes anything
		log.Fatal(err)
	}
	if _, err := m.Delete(ctx, keys[90:], nil); err != nil {
		log.Fatal(err)
	}
	s, err := m.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Len, s.Entries, s.Levels)
	if err := m.Compact(ctx); err != nil {
		log.Fatal(err)
	}
	if s, err = m.Stats(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Len, s.Entries, s.Levels)
	// Output:
	// 90 111 [11 100]
	// 90 90 [90]
}
