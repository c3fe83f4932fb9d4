package graph_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/graph"
)

// Build makes an immutable graph from two columns.
func Example() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	follows := graph.Edges{
		From: []uint32{0, 0, 2, 1, 0},
		To:   []uint32{1, 2, 0, 1, 1},
	}
	g, err := graph.Build(ctx, dev, follows, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Vertices(), "vertices,", g.Edges(), "edges; neighbors of 0:", g.Neighbors(0))

	d, err := graph.Build(ctx, dev, follows, &graph.Options{Directed: true, SelfLoops: true})
	if err != nil {
		log.Fatal(err)
	}
	for u, v := range d.All() {
		fmt.Print(u, "→", v, " ")
	}
	// Output:
	// 3 vertices, 2 edges; neighbors of 0: [1 2]
	// 0→1 0→2 1→1 2→0
}

// If an edge has several weights, Build keeps the last.
func ExampleBuildWeighted() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	roads := graph.Edges{From: []uint32{0, 1, 1}, To: []uint32{1, 2, 0}}
	g, err := graph.BuildWeighted(ctx, dev, roads, []float64{4.5, 2, 5}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Neighbors(1), g.Weights(1))
	// Output: [0 2] [5 2]
}

// A snapshot keeps the edges that the graph deletes later.
func ExampleGraph() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	g, err := graph.New(dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()

	added, err := g.Insert(ctx, []uint32{0, 0, 2, 1, 0}, []uint32{1, 2, 0, 1, 3}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(added, "edges between", g.Vertices(), "vertices")
	before, err := g.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer before.Close()
	if _, err := g.DeleteVertices(ctx, []uint32{2}); err != nil {
		log.Fatal(err)
	}
	now, err := g.Neighbors(ctx, 0, nil)
	if err != nil {
		log.Fatal(err)
	}
	row, err := before.Neighbors(ctx, 0, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("neighbors of 0:", row, "and then", now)
	// Output:
	// 3 edges between 4 vertices
	// neighbors of 0: [1 2 3] and then [1 3]
}

// All data stays on the device: a batch, its new edges, their ends, and the degrees of these
// vertices.
func ExampleGraph_EndpointsOn() {
	ctx := context.Background()
	dev, err := cpu.Open(nil) // or a GPU
	check(err)
	defer dev.Close()
	g, err := graph.New(dev, nil)
	check(err)
	defer g.Close()
	_, err = g.Insert(ctx, []uint32{0, 1}, []uint32{1, 2}, nil)
	check(err)

	s, err := dev.NewStream()
	check(err)
	defer s.Close()
	from, err := device.Upload(s, []uint32{2, 7, 0})
	check(err)
	defer from.Free()
	to, err := device.Upload(s, []uint32{1, 0, 4}) // 2-1 exists
	check(err)
	defer to.Free()
	inserted, err := device.Make[bool](dev, 3)
	check(err)
	defer inserted.Free()
	endpoints, err := device.Make[uint32](dev, 6)
	check(err)
	defer endpoints.Free()
	count, err := device.Make[uint64](dev, 1)
	check(err)
	defer count.Free()
	check(g.InsertOn(s, from, to, inserted))
	check(g.EndpointsOn(s, graph.DeviceEdges{From: from, To: to, Done: inserted}, endpoints, count))

	n, vertices := make([]uint64, 1), make([]uint32, 6)
	check(count.CopyTo(ctx, s, n))
	check(endpoints.CopyTo(ctx, s, vertices))
	degrees := make([]uint32, n[0])
	check(g.Degree(ctx, vertices[:n[0]], degrees))
	fmt.Println(vertices[:n[0]], "have degrees", degrees)
	// Output: [0 4 7] have degrees [3 1 1]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
