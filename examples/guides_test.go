package examples

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/durable"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/graph/load"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/intern"
	"github.com/weftgo/weft/join"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/ordered"
)

func Example_distinct() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	check(err)
	defer dev.Close()

	// as many keys as are expected, if that is known
	seen, err := linear.NewSet[uint64](dev, &linear.Options{Capacity: 1000})
	check(err)
	defer seen.Close()
	for _, batch := range [][]uint64{{7, 7, 3}, {7, 9}} { // of a million keys, better
		added := make([]bool, len(batch))
		n, err := seen.Add(ctx, batch, added)
		check(err)
		fmt.Println(n, added) // 2 [true false true], then 1 [false true]
	}
	fmt.Println(seen.Len()) // 3

	lines, err := intern.New(dev, &intern.Options{MaxBytes: 1 << 30})
	check(err)
	defer lines.Close()
	ids := make([]uint32, 3)
	n, err := lines.Strings(ctx, []string{"GET /", "GET /a", "GET /"}, ids)
	check(err)
	fmt.Println(n, ids) // 2 [0 1 0]

	country, browser := column.OfStrings([]string{"FR", "DE", "FR"}), column.Of([]int32{1, 1, 1})
	// no aggregates: SELECT DISTINCT
	r, err := group.By(ctx, dev, []column.Column{country, browser}, nil, nil, nil)
	check(err)
	fmt.Println(r.Len()) // 2
	// Output:
	// 2 [true false true]
	// 1 [false true]
	// 3
	// 2 [0 1 0]
	// 2
}

func Example_groups() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	check(err)
	defer dev.Close()

	g, err := group.New(dev, []group.Aggregate{
		{Func: group.Rows},
		{Func: group.Mean, Column: 0},
		{Func: group.Max, Column: 1},
	}, &group.Options{Sorted: true})
	check(err)
	defer g.Close()

	country := column.OfStrings([]string{"FR", "DE", "FR", ""})
	known := column.OfBools([]bool{true, true, true, false}) // the last one is null
	keys := []column.Column{country.WithValid(known)}
	price, items := column.Of([]float64{10, 20, 40, 5}), column.Of([]int32{1, 2, 3, 4})
	check(g.Add(ctx, keys, []column.Column{price, items})) // batch by batch

	r, err := g.Result(ctx) // at any time
	check(err)
	for i := range r.Len() {
		// prints DE 1 20 2, FR 2 25 3, <nil> 1 5 4
		fmt.Println(r.Keys[0].Any(i), r.Values[0].Any(i), r.Values[1].Any(i), r.Values[2].Any(i))
	}

	sums, err := linear.New[int64, int64](dev, nil)
	check(err)
	defer sums.Close()
	// each batch adds to what is there
	groups, err := sums.Reduce(ctx, []int64{7, 42, 7}, []int64{5, 1, 2}, weft.Sum)
	check(err)
	total := make([]int64, 1)
	_, err = sums.Get(ctx, []int64{7}, total, nil)
	check(err)
	fmt.Println(groups, total) // 2 [7]

	large, err := group.New(dev, []group.Aggregate{{Func: group.Rows}}, &group.Options{Memory: 512 << 20, Sorted: true})
	check(err)
	defer large.Close()
	// and the next batch, and the next
	check(large.Add(ctx, []column.Column{column.Of([]int64{7, 42, 7})}, nil))
	for r, err := range large.Pages(ctx) {
		check(err)
		fmt.Println(r.Keys[0].Any(0), r.Values[0].Any(0)) // 7 2
	}

	on, err := group.NewOn(dev, []group.Aggregate{{Func: group.Rows}, {Func: group.Sum}}, nil)
	check(err)
	defer on.Close()
	stream, err := dev.NewStream()
	check(err)
	k, err := device.Upload(stream, []int64{7, 42, 7})
	check(err)
	v, err := device.Upload(stream, []int64{5, 1, 2})
	check(err)
	// batch by batch
	check(on.AddOn(stream, []column.On{column.OfSlice(k)}, []column.On{column.OfSlice(v)}))
	r, err = on.Result(ctx)
	check(err)
	fmt.Println(r.Keys[0].Any(0), r.Values[0].Any(0), r.Values[1].Any(0)) // 7 2 7
	check(errors.Join(k.Free(), v.Free(), stream.Close()))
	// Output:
	// DE 1 20 2
	// FR 2 25 3
	// <nil> 1 5 4
	// 2 [7]
	// 7 2
	// 7 2 7
}

func Example_joins() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	check(err)
	defer dev.Close()

	id := column.Of([]int64{40, -12, 7, -12})   // the ids of customers: duplicates are allowed
	customer := column.Of([]int64{-12, 99, 40}) // the customer of each order
	customers, err := join.New(ctx, dev, []column.Column{id}, nil)
	check(err)
	defer customers.Close()

	for pairs, err := range customers.Left(ctx, []column.Column{customer}) {
		check(err)
		for i, order := range pairs.Left {
			if pairs.Right[i] == join.NoRow {
				fmt.Println("order", order, "has no customer") // order 1
				continue
			}
			// prints order 0 customer 1, order 0 customer 3, order 2 customer 0
			fmt.Println("order", order, "customer", pairs.Right[i])
		}
	}

	with, err := customers.Semi(ctx, []column.Column{customer}, nil) // rows of orders
	check(err)
	without, err := customers.Anti(ctx, []column.Column{customer}, nil)
	check(err)
	counts := make([]uint32, 3)
	total, err := customers.Count(ctx, []column.Column{customer}, counts)
	check(err)
	fmt.Println(with, without, counts, total, customers.Distinct()) // [0 2] [1] [2 0 1] 3 3

	large, err := join.NewJoin(dev, join.Inner, &join.Options{Memory: 512 << 20})
	check(err)
	defer large.Close()
	names := column.OfStrings([]string{"Ada", "Grace", "Mary", "Edsger"})
	// and the next batch, and the next
	check(large.Build(ctx, []column.Column{id}, []column.Column{names}))
	print := func(rows iter.Seq2[[]column.Column, error]) {
		for columns, err := range rows {
			check(err)
			for i := range columns[0].Len() {
				fmt.Println(columns[0].Any(i), columns[1].Any(i)) // -12 Grace, -12 Edsger, 40 Ada
			}
		}
	}
	// and the next batch, and the next
	print(large.Probe(ctx, []column.Column{customer}, []column.Column{customer}))
	print(large.Finish(ctx))

	filter, err := join.NewFilter([]column.Type{column.Int64}, &join.FilterOptions{Rows: id.Len()})
	check(err)
	check(filter.Add(ctx, []column.Column{id})) // again for more rows
	rows, err := filter.Select([]column.Column{customer}, nil)
	check(err)
	fmt.Println(rows) // [0 2]
	// Output:
	// order 0 customer 1
	// order 0 customer 3
	// order 1 has no customer
	// order 2 customer 0
	// [0 2] [1] [2 0 1] 3 3
	// -12 Grace
	// -12 Edsger
	// 40 Ada
	// [0 2]
}

func Example_ids() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	check(err)
	defer dev.Close()

	users, err := linear.New[uint64, uint32](dev, nil)
	check(err)
	defer users.Close()
	ids := make([]uint32, 3)
	n, err := users.Assign(ctx, []uint64{9000, 17, 9000}, ids)
	check(err)
	fmt.Println(n, ids) // 2 [0 1 0]

	words, err := intern.New(dev, nil)
	check(err)
	defer words.Close()
	_, err = words.Strings(ctx, []string{"to", "be", "to"}, ids)
	check(err)
	fmt.Println(ids, string(words.At(1))) // [0 1 0] be
	found := make([]bool, 2)
	hits, err := words.FindStrings(ctx, []string{"be", "not"}, ids[:2], found)
	check(err)
	fmt.Println(hits, ids[:2], found) // 1 [1 0] [true false]

	var file bytes.Buffer
	_, err = words.Save(ctx, &file)
	check(err)
	again, err := intern.Load(ctx, dev, &file, nil)
	check(err)
	defer again.Close()
	fmt.Println(again.Len(), string(again.At(0))) // 2 to

	pairs, err := intern.New(dev, nil)
	check(err)
	defer pairs.Close()
	_, err = pairs.Rows(ctx, []column.Column{column.OfStrings([]string{"a", "a", "b"}), column.Of([]int32{1, 1, 1})}, ids)
	check(err)
	fmt.Println(ids) // [0 0 1]

	dir, err := os.MkdirTemp("", "names") // choose a folder on a disk instead
	check(err)
	defer os.RemoveAll(dir)
	empty := func() (*intern.Table, error) { return intern.New(dev, nil) }
	names, err := durable.Open(ctx, dir, empty, durable.Options{})
	check(err)
	_, err = names.Strings(ctx, []string{"ann", "bob"}, ids[:2]) // now both are on the disk
	check(err)
	check(names.Close())

	names, err = durable.Open(ctx, dir, empty, durable.Options{}) // in the next process
	check(err)
	defer names.Close()
	_, err = names.Strings(ctx, []string{"eve", "bob"}, ids[:2])
	check(err)
	fmt.Println(ids[:2]) // [2 1]
	// Output:
	// 2 [0 1 0]
	// [0 1 0] be
	// 1 [1 0] [true false]
	// 2 to
	// [0 0 1]
	// [2 1]
}

func Example_ordered() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	check(err)
	defer dev.Close()

	m, err := ordered.New[int64, float64](dev, nil) // times to amounts
	check(err)
	defer m.Close()
	_, err = m.Put(ctx, []int64{30, 10, 20, 40}, []float64{3, 1, 2, 4})
	check(err)

	var rows weft.PairRows[int64, float64]
	// two ranges; both bounds belong to each
	check(m.Range(ctx, []int64{15, 0}, []int64{35, 10}, 0, &rows))
	for i := range rows.Len() {
		fmt.Println(rows.Row(i)) // [20 30] [2 3], then [10] [1]
	}
	counts := make([]uint32, 1)
	total, err := m.Count(ctx, []int64{15}, []int64{100}, counts)
	check(err)
	fmt.Println(total, counts) // 3 [3]

	now, err := m.Snapshot(ctx)
	check(err)
	defer now.Close()
	_, err = m.DeleteRange(ctx, []int64{0}, []int64{100}, nil)
	check(err)
	fmt.Println(m.Len(), now.Len()) // 0 4
	// Output:
	// [20 30] [2 3]
	// [10] [1]
	// 3 [3]
	// 0 4
}

func Example_batches() {
	ctx := context.Background()
	dev, _, err := auto.Open("cpu")
	check(err)
	defer dev.Close()
	m, err := linear.New[uint64, uint64](dev, nil)
	check(err)
	defer m.Close()

	b, err := weft.NewBatcher(m, nil) // gathers calls on a GPU; on a CPU they pass through
	check(err)
	defer b.Close()
	var all sync.WaitGroup
	for i := range uint64(64) {
		all.Go(func() {
			_, err := b.Put(ctx, i, 2*i)
			check(err)
		})
	}
	all.Wait()
	val, found, err := b.Get(ctx, 21)
	check(err)
	fmt.Println(val, found) // 42 true

	var partial *weft.PartialError
	few, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: 1, Fixed: true})
	check(err)
	defer few.Close()
	keys := make([]uint64, 1000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	_, err = few.Put(ctx, keys, keys)
	fmt.Println(errors.Is(err, weft.ErrFull), errors.As(err, &partial)) // true true
	fmt.Println(partial.Done, few.Len()+len(partial.Rows))              // 1000 1000
	// Output:
	// 42 true
	// true true
	// 1000 1000
}

func Example_graphs() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	check(err)
	defer dev.Close()

	// load.Open takes the name of a file
	list := strings.NewReader("from,to,minutes\nZRH,FRA,65\nFRA,JFK,520\nZRH,VIE,85\n")
	f, err := load.Read(ctx, dev, list, "flights.csv", &load.Options{Weight: "minutes"})
	check(err)
	rows, err := graph.BuildWeighted(ctx, dev, f.Edges, f.Weights, nil)
	check(err)
	start, _ := f.Names.Vertex("ZRH")
	minutes := make([]float64, rows.Vertices())
	_, err = algo.SSSP(ctx, dev, rows, start, minutes)
	check(err)
	fmt.Println(minutes) // [0 65 585 85]: to ZRH, FRA, JFK, VIE

	g, err := graph.NewWeightedGraph[uint32](dev, nil) // on a GPU, too
	check(err)
	defer g.Close()
	from, to := []uint32{0, 1, 2}, []uint32{1, 2, 3}
	n, err := g.Insert(ctx, from, to, []uint32{65, 520, 90}, nil) // the newest weight wins
	check(err)
	fmt.Println(n) // 3 edges are new

	now, err := g.Snapshot(ctx) // updates go on meanwhile
	check(err)
	defer now.Close()
	was, err := now.CSR(ctx)
	check(err)
	ranks := make([]uint64, was.Vertices())
	_, err = algo.PageRank(ctx, dev, was.CSR, ranks, nil)
	check(err)

	s, err := dev.NewStream()
	check(err)
	defer s.Close()
	there, err := g.CSROn(ctx, s) // as Snapshot has it
	check(err)
	defer there.Free()
	depths, err := device.Make[uint32](dev, there.Vertices())
	check(err)
	defer depths.Free()
	// and PageRankOn, ComponentsOn, SSSPOn, KCoreOn, TrianglesOn, SampleOn
	levels, err := algo.BFSOn(ctx, s, there.DeviceCSR, 0, depths)
	check(err)
	fmt.Println(levels) // [1 1 1 1]: vertices by depth

	ranking, err := algo.NewRanking(ctx, dev, was.CSR, nil) // follows batches from here on
	check(err)
	from, to = []uint32{0, 0, 1}, []uint32{2, 1, 3}
	inserted := make([]bool, len(from))
	_, err = g.Insert(ctx, from, to, []uint32{500, 60, 70}, inserted)
	check(err)
	// the edges that are new; fresh.Endpoints() are the vertices that they touch
	fresh := graph.Edges{From: from, To: to}.Filter(inserted)
	triangles, err := algo.TrianglesOf(ctx, dev, g.Graph, fresh) // those that they closed
	check(err)
	// ranks from those that there were, to the same tolerance
	_, err = ranking.Update(ctx, g.Graph, fresh, graph.Edges{})
	check(err)
	fmt.Println(inserted, triangles) // [true false true] 2

	_, err = g.DeleteVertices(ctx, []uint32{2}) // with all their edges, in both directions
	check(err)
	fmt.Println(g.Edges()) // 2 edges are left
	// Output:
	// [0 65 585 85]
	// 3
	// [1 1 1 1]
	// [true false true] 2
	// 2
}
