package sim_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/linear"
)

// Run the kernels that ship with weft on a simulated GPU, under a schedule that the seed
// determines. The result is the same as on any other device.
func ExampleOpen() {
	dev, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: 42})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	sums, err := linear.New[uint32, uint32](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sums.Close()
	ctx := context.Background()
	groups, err := sums.Reduce(ctx, []uint32{7, 42, 7, 7, 42}, []uint32{1, 2, 3, 4, 5}, weft.Sum)
	if err != nil {
		log.Fatal(err)
	}
	sum := make([]uint32, 2)
	if _, err := sums.Get(ctx, []uint32{7, 42}, sum, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(groups, sum)
	// Output: 2 [8 7]
}
