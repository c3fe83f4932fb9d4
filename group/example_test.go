package group_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
)

// Orders by country: their number, sum and mean.
func ExampleBy() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	countries := column.OfStrings([]string{"FR", "DE", "FR", "IT", "DE", "FR"})
	amounts := column.Of([]int{10, 20, 30, 40, 50, 60})
	r, err := group.By(ctx, dev, []column.Column{countries}, []column.Column{amounts}, []group.Aggregate{
		{Func: group.Rows},
		{Func: group.Sum, Column: 0},
		{Func: group.Mean, Column: 0},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for i := range r.Len() {
		fmt.Println(r.Keys[0].Any(i), r.Values[0].Any(i), r.Values[1].Any(i), r.Values[2].Any(i))
	}
	// Output:
	// FR 3 100 33.333333333333336
	// DE 2 70 35
	// IT 1 40 40
}

// Batches are added one by one, and the result can be read in between.
func ExampleGroups() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	g, err := group.New(dev, []group.Aggregate{{Func: group.Max, Column: 0}}, &group.Options{Sorted: true})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	for _, batch := range []struct{ sensors, temperatures []int32 }{
		{[]int32{7, 3}, []int32{21, 19}},
		{[]int32{3, 5}, []int32{24, 18}},
	} {
		err := g.Add(ctx, []column.Column{column.Of(batch.sensors)}, []column.Column{column.Of(batch.temperatures)})
		if err != nil {
			log.Fatal(err)
		}
		r, err := g.Result(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(column.Values[int32](r.Keys[0]), column.Values[int32](r.Values[0]))
	}
	// Output:
	// [3 7] [19 21]
	// [3 5 7] [24 18 21]
}

// Each of two machines groups a part of the rows. Merges may come in any order, because rows have
// ordinals.
func ExampleGroups_Merge() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	check(err)
	defer dev.Close()

	part := func(rows []uint64, city []string, sold []int64) *group.Groups {
		g, err := group.New(dev, []group.Aggregate{{Func: group.Sum, Column: 0}, {Func: group.First, Column: 0}}, nil)
		check(err)
		check(g.AddAt(ctx, rows, []column.Column{column.OfStrings(city)}, []column.Column{column.Of(sold)}))
		return g
	}
	one := part([]uint64{0, 1}, []string{"Oslo", "Bern"}, []int64{3, 4})
	defer one.Close()
	two := part([]uint64{2, 3}, []string{"Bern", "Rome"}, []int64{1, 9})
	defer two.Close()
	check(two.Merge(ctx, one))
	r, err := two.Result(ctx)
	check(err)
	for i := range r.Len() {
		fmt.Println(r.Keys[0].Any(i), r.Values[0].Any(i), r.Values[1].Any(i))
	}
	// Output:
	// Oslo 3 3
	// Bern 5 4
	// Rome 9 9
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
