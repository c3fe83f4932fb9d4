package cuda_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/device/cuda"
	"github.com/weftgo/weft/linear"
)

// Open the first GPU, or report why it cannot be used. Tests compile this example without running
// it: its output depends on the machine.
func ExampleOpen() {
	dev, err := cuda.Open(0)
	if err != nil {
		log.Fatal(err) // device.ErrNoDriver, ErrNoDevice …, with what is missing
	}
	defer dev.Close()
	m, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	ctx := context.Background()
	if _, err := m.Put(ctx, []uint64{1, 2}, []uint64{10, 20}); err != nil {
		log.Fatal(err)
	}
	vals, found := make([]uint64, 2), make([]bool, 2)
	hits, err := m.Get(ctx, []uint64{2, 3}, vals, found)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dev.Properties().Name, hits, vals, found)
}
