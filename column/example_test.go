package column_test

import (
	"fmt"
	"log"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
)

// Sales are distributed to three workers, with all sales of a user at the same one. A user has the
// same worker on each machine and in each version.
func ExamplePartition() {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	users := column.OfStrings([]string{"Ada", "Ben", "Cy", "Ada", "", "Ben"})
	users = users.WithValid(column.OfBools([]bool{true, true, true, true, false, true}))
	cents := column.Of([]int32{500, 700, 100, 200, 400, 900})

	keys := []column.Column{users}
	opts := column.PartitionOptions{Parts: 3, Nulls: column.DealNulls}
	parts, err := column.Partition(dev, keys, opts)
	if err != nil {
		log.Fatal(err)
	}
	for i := range parts.Len() {
		rows := parts.Part(i)
		users, cents := column.Take(dev, users, rows), column.Take(dev, cents, rows)
		fmt.Print("worker ", i, ":")
		for j := range rows {
			fmt.Print("  ", users.Any(j), " ", cents.Any(j))
		}
		fmt.Println()
	}
	// Output:
	// worker 0:  <nil> 400
	// worker 1:  Ben 700  Cy 100  Ben 900
	// worker 2:  Ada 500  Ada 200
}
