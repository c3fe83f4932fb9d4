package beam_test

import (
	"context"
	"fmt"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/weftgo/weft/beam"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// printRows is a DoFn that prints the rows of a block.
func printRows(block []byte) error {
	_, columns, err := beam.DecodeColumns(block)
	if err != nil {
		return err
	}
	for i := range columns[0].Len() {
		fmt.Println(columns[0].Any(i), columns[1].Any(i), columns[2].Any(i))
	}
	return nil
}

func init() { register.Function1x1(printRows) }

// SELECT customer, COUNT(*), SUM(cents) FROM orders GROUP BY customer
func ExampleGroup() {
	sdk.Init() // once, first thing in main after flags are parsed
	blocks, err := beam.EncodeColumns([]string{"customer", "cents"}, []column.Column{
		column.Of([]int64{7, 42, 7, -1, 42, 7}), column.Of([]int64{500, 1999, 250, 80, 1, 1})})
	check(err)

	p, s := sdk.NewPipelineWithRoot()
	orders := sdk.CreateList(s, blocks) // large inputs are read by DoFns that emit blocks
	sums, err := beam.Group(s, orders, []string{"customer"}, []string{"cents"},
		[]group.Aggregate{{Func: group.Rows}, {Func: group.Sum}}, nil)
	check(err)
	sdk.ParDo0(s, printRows, sums)
	_, err = sdk.Run(context.Background(), "prism", p)
	check(err)

	// Unordered output:
	// 7 3 751
	// 42 2 2000
	// -1 1 80
}
