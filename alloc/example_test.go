package alloc_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
)

// An owner allocates units of 128 bytes by 32-bit addresses, and frees them.
func ExampleOwner() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	pool, err := alloc.New(dev, &alloc.Options{Blocks: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	a, err := pool.Owner()
	if err != nil {
		fmt.Println(err)
		return
	}

	units := make([]uint32, 5000) // more than the 4096 units of a super block
	n, err := a.Allocate(ctx, units)
	fmt.Println(n, err)
	n, err = a.Free(ctx, units[:4000])
	fmt.Println(n, err)
	n, err = a.Free(ctx, units[3999:]) // 1000 units that are taken, and one that is free
	fmt.Println(n, errors.Is(err, device.ErrInvalid))

	usage, err := a.Usage(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(usage)
	fmt.Println(pool.Stats())
	// Output:
	// 5000 <nil>
	// 4000 <nil>
	// 1000 true
	// 0 of 5120 units taken, in 5 memory blocks, 656000 bytes
	// 1 owners of 5120 of 8192 units of 128 bytes, 2 of at most 255 super blocks of 4 memory blocks, 1051640 bytes
}
