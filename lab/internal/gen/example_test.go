package gen_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/lab/internal/gen"
)

// A triangulation has 3 n - 3 - h edges, where h points lie on its hull, and at least 2 n - 2 - h
// triangles.
func ExampleDelaunay() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	edges, err := gen.Delaunay(ctx, dev, gen.DelaunayOptions{Vertices: 1000, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	g, err := graph.Build(ctx, dev, edges, nil)
	if err != nil {
		log.Fatal(err)
	}
	triangles, err := algo.Triangles(ctx, dev, g)
	if err != nil {
		log.Fatal(err)
	}
	hull := 3*g.Vertices() - 3 - g.Edges()
	fmt.Println(hull, int(triangles) >= 2*g.Vertices()-2-hull)
	// Output: 23 true
}
