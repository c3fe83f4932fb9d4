package graph_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/graph"
)

// A graph is made of two columns, and does not change.
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

// Of several weights of an edge the last one counts.
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

// Edges come and go, and a snapshot has what there was.
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
	then, err := before.Neighbors(ctx, 0, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("neighbors of 0:", then, "and then", now)
	// Output:
	// 3 edges between 4 vertices
	// neighbors of 0: [1 2 3] and then [1 3]
}
