package slab_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/slab"
)

// An allocator gives out units of 128 bytes by 32-bit addresses, and takes
// them back.
func ExampleAlloc() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	a, err := slab.NewAlloc(dev, &slab.AllocOptions{Blocks: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()

	units := make([]uint32, 5000) // more than a super block of 4096 units has
	n, err := a.Allocate(ctx, units)
	fmt.Println(n, err)
	n, err = a.Free(ctx, units[:4000])
	fmt.Println(n, err)
	n, err = a.Free(ctx, units[3999:]) // one of them again
	fmt.Println(n, errors.Is(err, device.ErrInvalid))

	stats, err := a.Stats(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(stats)
	// Output:
	// 5000 <nil>
	// 4000 <nil>
	// 1000 true
	// 0 of 8192 units of 128 bytes taken, 2 of at most 255 super blocks of 4 memory blocks, 1051640 bytes
}
