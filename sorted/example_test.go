package sorted_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/sorted"
)

// Events are stored by time. The example reads the events of two spans, the last events before a
// moment, and a count.
func Example() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	events, err := sorted.New[int64, uint32](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	if _, err := events.Build(ctx, []int64{40, -10, 30, 20, 35}, []uint32{4, 1, 3, 2, 7}); err != nil {
		log.Fatal(err)
	}

	var spans weft.PairRows[int64, uint32]
	if err := events.Range(ctx, []int64{-20, 30}, []int64{20, 35}, 0, &spans); err != nil {
		log.Fatal(err)
	}
	for i := range spans.Len() {
		fmt.Println(spans.Row(i))
	}
	spans.Reset()
	if err := events.RangeBackward(ctx, []int64{-20}, []int64{39}, 2, &spans); err != nil {
		log.Fatal(err)
	}
	fmt.Println(spans.Row(0))
	n, err := events.Count(ctx, []int64{0}, []int64{100}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n)
	// Output:
	// [-10 20] [1 2]
	// [30 35] [3 7]
	// [35 30] [7 3]
	// 4
}

// A snapshot keeps its content while the map changes.
func ExampleMap_snapshot() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	m, err := sorted.New[uint32, uint32](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Put(ctx, []uint32{3, 1, 2}, []uint32{30, 10, 20}); err != nil {
		log.Fatal(err)
	}
	then, err := m.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer then.Close()
	if _, err := m.DeleteRange(ctx, []uint32{2}, []uint32{9}, nil); err != nil {
		log.Fatal(err)
	}
	for k, v := range then.Backward() {
		fmt.Println(k, v)
	}
	fmt.Println(m.Len(), then.Len())
	// Output:
	// 3 30
	// 2 20
	// 1 10
	// 1 3
}
