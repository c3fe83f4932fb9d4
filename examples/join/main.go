// Join adds a column of one table to the rows of another, as a database does
// for
//
//	SELECT orders.id, amount, name FROM orders LEFT JOIN customers
//	ON orders.customer = customers.id
//
// The smaller table is put into a map from its key to its row number; the
// larger one is looked up batch by batch. Keys may be any 32- or 64-bit
// integers; the other columns stay where they are.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/linear"
)

// customers is a table in columns.
type customers struct {
	id   []int64 // unique
	name []string
}

// orders is another.
type orders struct {
	id       []uint32
	customer []int64
	amount   []float64
}

func main() {
	log.SetFlags(0)
	left := orders{
		id:       []uint32{1, 2, 3, 4},
		customer: []int64{-12, 40, 99, -12},
		amount:   []float64{9.5, 20, 3, 1.25},
	}
	right := customers{id: []int64{40, -12, 7}, name: []string{"Ada", "Grace", "Mary"}}
	if err := report(context.Background(), os.Stdout, left, right); err != nil {
		log.Fatal("join: ", err)
	}
}

// report prints the joined rows.
func report(ctx context.Context, w io.Writer, left orders, right customers) (err error) {
	dev, _, err := auto.Open("auto")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	rows, found, err := join(ctx, dev, left.customer, right.id)
	if err != nil {
		return err
	}
	for i, id := range left.id {
		name := "-"
		if found[i] {
			name = right.name[rows[i]]
		}
		if _, err := fmt.Fprintf(w, "%d %6.2f %s\n", id, left.amount[i], name); err != nil {
			return err
		}
	}
	return nil
}

// join finds for each key of left the row of right that has it. Of equal keys
// in right, the first counts.
func join(ctx context.Context, dev device.Device, left, right []int64) (rows []uint32, found []bool, err error) {
	// The size is known: one allocation, no growing.
	index, err := linear.New[int64, uint32](dev, &linear.Options{Capacity: len(right)})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, index.Close()) }()

	numbers := make([]uint32, len(right))
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	if _, err := index.PutNew(ctx, right, numbers, nil); err != nil {
		return nil, nil, err
	}
	rows, found = make([]uint32, len(left)), make([]bool, len(left))
	_, err = index.Get(ctx, left, rows, found)
	return rows, found, err
}
