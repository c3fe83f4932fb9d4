package load_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/load"
)

// Vertices are numbered from 0, and keep the ids of the file as names.
func ExampleRead() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	const trips = "from,to,minutes\nBern,Thun,18\nThun,Spiez,9\nBern,Biel,26\n"
	f, err := load.Read(ctx, dev, strings.NewReader(trips), "trips.csv", nil)
	if err != nil {
		log.Fatal(err)
	}
	g, err := graph.BuildWeighted(ctx, dev, f.Edges, f.Weights, nil)
	if err != nil {
		log.Fatal(err)
	}
	bern, _ := f.Names.Vertex("Bern")
	for i, v := range g.Neighbors(bern) {
		fmt.Println(f.Names.Name(v), g.Weights(bern)[i])
	}
	// Output:
	// Thun 18
	// Biel 26
}

// An error contains the line of the file.
func ExampleError() {
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	_, err = load.Read(context.Background(), dev, strings.NewReader("p sp 2 1\na 1 3 10\n"), "roads.gr", nil)
	fmt.Println(err)
	// Output: roads.gr:2: vertex 3: vertices are 1 to 2
}

// The file name determines the format.
func ExampleCreate() {
	ctx := context.Background()
	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	f, err := load.Open(ctx, dev, "testdata/karate.txt", nil)
	if err != nil {
		log.Fatal(err)
	}
	name := os.TempDir() + "/karate.graph.gz"
	defer os.Remove(name)
	if err := load.Create(ctx, dev, name, f, load.Auto); err != nil {
		log.Fatal(err)
	}
	copied, err := load.Open(ctx, dev, name, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(copied.Format, copied.Vertices, "vertices,", len(copied.From), "edges")
	// Output: graph 34 vertices, 78 edges
}
