package join_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/join"
)

func Example() {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	ctx := context.Background()

	names := []string{"Ada", "Grace", "Mary"} // customers
	id := column.Of([]int64{40, -12, 7})
	amounts := []float64{9.5, 20, 3, 1.25} // orders
	customer := column.Of([]int64{-12, 40, 99, -12})

	customers, err := join.New(ctx, dev, []column.Column{id}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer customers.Close()
	for pairs, err := range customers.Inner(ctx, []column.Column{customer}) {
		if err != nil {
			log.Fatal(err)
		}
		for i, order := range pairs.Left {
			fmt.Println(amounts[order], names[pairs.Right[i]])
		}
	}
	// Output:
	// 9.5 Grace
	// 20 Ada
	// 1.25 Grace
}

func ExampleIndex_Anti() {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	ctx := context.Background()
	ordered, err := join.New(ctx, dev, []column.Column{column.Of([]int64{-12, 40, 99, -12})}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ordered.Close()
	names := []string{"Ada", "Grace", "Mary"}
	without, err := ordered.Anti(ctx, []column.Column{column.Of([]int64{40, -12, 7})}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range without {
		fmt.Println(names[row], "has no order")
	}
	// Output:
	// Mary has no order
}

// The columns lie on the device, and the pairs stay there.
func ExampleNewOn() {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	right, err := device.Upload(s, []int32{40, -12, 40})
	if err != nil {
		log.Fatal(err)
	}
	defer right.Free()
	left, err := device.Upload(s, []int32{7, 40})
	if err != nil {
		log.Fatal(err)
	}
	defer left.Free()

	ctx := context.Background()
	if err := joinOn(ctx, s, left, right); err != nil {
		log.Fatal(err)
	}
	// Output:
	// [1 1] [0 2]
}

// joinOn prints the two pairs of two columns.
func joinOn(ctx context.Context, s *device.Stream, left, right device.Slice[int32]) error {
	ix, err := join.NewOn(ctx, s, right)
	if err != nil {
		return err
	}
	defer ix.Close()
	matches, err := ix.Matches(left.Len())
	if err != nil {
		return err
	}
	defer matches.Close()
	pairs, err := device.Make[uint32](s.Device(), 4)
	if err != nil {
		return err
	}
	defer pairs.Free()
	if err := matches.FindOn(s, left); err != nil {
		return err
	}
	if err := matches.PairsOn(s, 0, pairs.Sub(0, 2), pairs.Sub(2, 4)); err != nil {
		return err
	}
	rows := make([]uint32, 4)
	if err := pairs.CopyTo(ctx, s, rows); err != nil {
		return err
	}
	fmt.Println(rows[:2], rows[2:])
	return nil
}
