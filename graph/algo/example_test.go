package algo_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
)

// Two triangles that share an edge, and an edge apart.
func Example() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	g, err := graph.Build(ctx, dev, graph.Edges{
		From: []uint32{0, 1, 2, 1, 2, 4},
		To:   []uint32{1, 2, 0, 3, 3, 5},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}

	triangles, err := algo.Triangles(ctx, dev, g)
	if err != nil {
		log.Fatal(err)
	}
	labels, depths := make([]uint32, g.Vertices()), make([]uint32, g.Vertices())
	components, err := algo.Components(ctx, dev, g, labels)
	if err != nil {
		log.Fatal(err)
	}
	levels, err := algo.BFS(ctx, dev, g, 0, depths)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(triangles, "triangles,", components, "components", labels)
	fmt.Println("vertices by depth:", levels)
	// Output:
	// 2 triangles, 2 components [0 0 0 0 4 4]
	// vertices by depth: [1 2 1]
}

// Distances of weights that are integers are integers.
func ExampleSSSP() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	roads, err := graph.BuildWeighted(ctx, dev, graph.Edges{From: []uint32{0, 1, 0}, To: []uint32{1, 2, 2}}, []uint32{3, 4, 9}, nil)
	if err != nil {
		log.Fatal(err)
	}
	distances := make([]uint64, roads.Vertices())
	reached, err := algo.SSSP(ctx, dev, roads, 0, distances)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reached, distances)
	// Output: 3 [0 3 7]
}

// Triangles that a batch closes, and those that another one takes.
func ExampleTrianglesOf() {
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
	batch := graph.Edges{From: []uint32{0, 1, 2, 1, 0, 3}, To: []uint32{1, 2, 0, 3, 3, 2}}
	inserted := make([]bool, len(batch.From))
	if _, err := g.Insert(ctx, batch.From, batch.To, inserted); err != nil {
		log.Fatal(err)
	}
	fresh := batch.Where(inserted)
	closed, err := algo.TrianglesOf(ctx, dev, g, fresh)
	if err != nil {
		log.Fatal(err)
	}
	gone, err := algo.TrianglesOf(ctx, dev, g, graph.Edges{From: []uint32{0}, To: []uint32{1}}) // before it is deleted
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(closed, gone, fresh.Ends())
	// Output: 4 2 [0 1 2 3]
}
