package join_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/column"
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
