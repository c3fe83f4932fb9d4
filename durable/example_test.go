package durable_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/linear"
)

// check ends the program on an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The example of docs/durability.md. The block of the page is the body of this function.
func Example() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	check(err)
	defer dev.Close()
	dir, err := os.MkdirTemp("", "visits") // choose a folder on a disk instead
	check(err)
	defer os.RemoveAll(dir)

	empty := func() (*linear.Map[uint64, uint64], error) { return linear.New[uint64, uint64](dev, nil) }
	visits, err := durable.Open(ctx, dir, empty, durable.Options{})
	check(err)
	_, err = visits.Put(ctx, []uint64{7, 42}, []uint64{1, 3}) // now both are on the disk
	check(err)
	check(visits.Close())

	visits, err = durable.Open(ctx, dir, empty, durable.Options{}) // in the next process
	check(err)
	defer visits.Close()
	counts := make([]uint64, 2)
	hits, err := visits.Get(ctx, []uint64{42, 7}, counts, nil)
	check(err)
	fmt.Println(visits.Len(), hits, counts) // 2 2 [3 1]
	// Output:
	// 2 2 [3 1]
}
