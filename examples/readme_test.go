package examples

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/join"
	"github.com/weftgo/weft/linear"
)

// check ends the program on an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The example of README.md. The blocks of the page form its body: TestPages compares them.
func Example() {
	ctx := context.Background()
	dev, err := cpu.Open(nil) // all cores; auto.Open("auto") takes a GPU if there is one
	check(err)
	defer dev.Close()

	customer := []int64{7, 42, 7, -1, 42, 7} // of orders, a row each
	cents := []int64{500, 1999, 250, 80, 1, 1}

	// Which customers have not been seen before?
	seen, err := linear.NewSet[int64](dev, nil) // grows by itself; every number is a legal key
	check(err)
	defer seen.Close()
	added := make([]bool, len(customer))
	n, err := seen.Add(ctx, customer, added) // and the next batch, and the next
	check(err)
	fmt.Println(n, added) // 3 [true true false true false false]

	// SELECT customer, COUNT(*), SUM(cents) … GROUP BY customer
	r, err := group.By(ctx, dev, []column.Column{column.Of(customer)}, []column.Column{column.Of(cents)},
		[]group.Aggregate{{Func: group.Rows}, {Func: group.Sum, Column: 0}}, nil)
	check(err)
	for i := range r.Len() {
		fmt.Println(r.Keys[0].Any(i), r.Values[0].Any(i), r.Values[1].Any(i)) // 7 3 751, 42 2 …
	}

	// SELECT name, cents FROM orders JOIN names ON orders.customer = names.id
	id, name := []int64{42, 7}, []string{"Ada", "Grace"}
	names, err := join.New(ctx, dev, []column.Column{column.Of(id)}, nil) // an index for many joins
	check(err)
	defer names.Close()
	for pairs, err := range names.Inner(ctx, []column.Column{column.Of(customer)}) { // in pieces
		check(err)
		for i, order := range pairs.Left {
			fmt.Println(name[pairs.Right[i]], cents[order]) // Grace 500, Ada 1999, …
		}
	}
	// Output:
	// 3 [true true false true false false]
	// 7 3 751
	// 42 2 2000
	// -1 1 80
	// Grace 500
	// Ada 1999
	// Grace 250
	// Ada 1
	// Grace 1
}
