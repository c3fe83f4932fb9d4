// Graph answers three questions about a list of flights. Each line names two airports and the
// minutes between them. Which airports matter most? Into how many unconnected parts do the airports
// fall? How long is the way from one airport to all others?
//
// The list is CSV, as a file could hold it. Airports are strings there, and numbers in between.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"strings"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
	"github.com/weftgo/weft/graph/load"
)

const flights = `from,to,minutes
ZRH,FRA,65
FRA,JFK,520
ZRH,LIS,170
LIS,JFK,480
ZRH,VIE,85
VIE,FRA,90
HNL,OGG,40
`

func main() {
	log.SetFlags(0)
	if err := report(context.Background(), os.Stdout, strings.NewReader(flights), "ZRH"); err != nil {
		log.Fatal("graph: ", err)
	}
}

// report prints the answers.
func report(ctx context.Context, w io.Writer, list io.Reader, from string) (err error) {
	dev, err := cpu.Open(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	f, err := load.Read(ctx, dev, list, "flights.csv", &load.Options{Weight: "minutes"})
	if err != nil {
		return err
	}
	start, ok := f.Names.Vertex(from)
	if !ok {
		return fmt.Errorf("no flight begins or ends in %s", from)
	}
	g, err := graph.BuildWeighted(ctx, dev, f.Edges, f.Weights, nil)
	if err != nil {
		return err
	}

	labels := make([]uint32, g.Vertices())
	parts, err := algo.Components(ctx, dev, g.CSR, labels)
	if err != nil {
		return err
	}
	hub, err := highest(ctx, dev, g.CSR)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d airports in %d parts; the one that matters most is %s\n", g.Vertices(), parts, f.Names.Name(hub))

	minutes := make([]float64, g.Vertices())
	if _, err := algo.SSSP(ctx, dev, g, start, minutes); err != nil {
		return err
	}
	for v, m := range minutes {
		if name := f.Names.Name(uint32(v)); math.IsInf(m, 1) {
			fmt.Fprintf(w, "%s: no way from %s\n", name, from)
		} else {
			fmt.Fprintf(w, "%s: %v minutes\n", name, m)
		}
	}
	return nil
}

// highest returns the vertex with the highest PageRank.
func highest(ctx context.Context, dev device.Device, g *graph.CSR) (best uint32, err error) {
	ranks := make([]uint64, g.Vertices())
	if _, err := algo.PageRank(ctx, dev, g, ranks, nil); err != nil {
		return 0, err
	}
	for v, r := range ranks {
		if r > ranks[best] {
			best = uint32(v)
		}
	}
	return best, nil
}
