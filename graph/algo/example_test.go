package algo_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
)

// The graph has two triangles that share an edge, and a separate edge.
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

// Integer weights yield integer distances.
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

// TrianglesOf counts the triangles that a batch of insertions closes, and the triangles that a
// deletion removes.
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
	fresh := batch.Filter(inserted)
	closed, err := algo.TrianglesOf(ctx, dev, g, fresh)
	if err != nil {
		log.Fatal(err)
	}
	// Count before the edge is deleted.
	gone, err := algo.TrianglesOf(ctx, dev, g, graph.Edges{From: []uint32{0}, To: []uint32{1}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(closed, gone, fresh.Endpoints())
	// Output: 4 2 [0 1 2 3]
}

// DeviceConnected processes batches in device memory, here on a CPU.
func ExampleDeviceConnected() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	g, err := graph.New(dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	rows, err := g.CSROn(ctx, s)
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Free()
	parts, err := algo.NewConnectedOn(ctx, s, rows)
	if err != nil {
		log.Fatal(err)
	}
	defer parts.Free()

	var batch graph.DeviceEdges
	if batch.From, err = device.Upload(s, []uint32{0, 1, 4}); err != nil {
		log.Fatal(err)
	}
	defer batch.From.Free()
	if batch.To, err = device.Upload(s, []uint32{1, 2, 5}); err != nil {
		log.Fatal(err)
	}
	defer batch.To.Free()
	if batch.Done, err = device.Make[bool](dev, 3); err != nil {
		log.Fatal(err)
	}
	defer batch.Done.Free()
	if err := g.InsertOn(s, batch.From, batch.To, batch.Done); err != nil {
		log.Fatal(err)
	}
	if err := parts.Insert(ctx, s, batch); err != nil {
		log.Fatal(err)
	}
	fmt.Println(parts.Vertices(), "vertices in", parts.Count(), "components")
	// Output: 6 vertices in 3 components
}
