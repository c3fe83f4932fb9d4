// Join adds a column of one table to the rows of another, as a database does for
//
//	SELECT orders.id, amount, name FROM orders LEFT JOIN customers
//	ON orders.customer = customers.id
//
// The smaller table gets an index, and the larger one is looked up in it. The results are row
// numbers; the other columns stay where they are.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/join"
)

// customers is a table in columns.
type customers struct {
	id   []int64
	name []string
}

// orders is another table.
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
	index, err := join.New(ctx, dev, []column.Column{column.Of(right.id)}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, index.Close()) }()

	for pairs, err := range index.Left(ctx, []column.Column{column.Of(left.customer)}) {
		if err != nil {
			return err
		}
		for i, order := range pairs.Left {
			name := "-"
			if customer := pairs.Right[i]; customer != join.NoRow {
				name = right.name[customer]
			}
			if _, err := fmt.Fprintf(w, "%d %6.2f %s\n", left.id[order], left.amount[order], name); err != nil {
				return err
			}
		}
	}
	return nil
}
