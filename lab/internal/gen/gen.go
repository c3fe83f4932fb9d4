package gen

import (
	"context"
	"fmt"
	"math"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/workload"
)

// grain is the number of edges or vertices that a core takes at a time.
const grain = 1 << 13

// maxVertices is the maximum number of vertices in a graph.
const maxVertices = math.MaxUint32

// generator holds the state that all generators need.
type generator struct {
	device.Host
	ctx  context.Context
	name string
	seed uint64
}

func newGenerator(ctx context.Context, dev device.Device, name string, seed uint64) (*generator, error) {
	h, err := cpu.Host(dev, "graphs")
	if err != nil {
		return nil, fmt.Errorf("gen: %s: %w", name, err)
	}
	return &generator{h, ctx, name, seed}, nil
}

func (g *generator) refuse(format string, args ...any) error {
	return fmt.Errorf("gen: %s: %w: %s", g.name, weft.ErrOptions, fmt.Sprintf(format, args...))
}

func (g *generator) vertices(n int) error {
	if n < 1 || n > maxVertices {
		return g.refuse("Vertices %d, want 1 to %d", n, maxVertices)
	}
	return nil
}

// draw returns number i of a random stream, uniform over 64 bits.
func (g *generator) draw(stream, i uint64) uint64 {
	return workload.Random(g.seed+stream*0xd1342543de82ef95, i)
}

// gather calls part for parts of [0,n) and concatenates their edges in order.
func (g *generator) gather(vertices, n int, part func(lo, hi int, e *graph.Edges)) (graph.Edges, error) {
	parts := make([]graph.Edges, (n+grain-1)/grain)
	g.Parallel(n, grain, func(lo, hi int) {
		if g.ctx.Err() == nil {
			part(lo, hi, &parts[lo/grain])
		}
	})
	if err := g.ctx.Err(); err != nil {
		return graph.Edges{}, err
	}
	total := 0
	for i := range parts {
		total += len(parts[i].From)
	}
	all := graph.Edges{Vertices: vertices, From: make([]uint32, 0, total), To: make([]uint32, 0, total)}
	for i := range parts {
		all.From, all.To = append(all.From, parts[i].From...), append(all.To, parts[i].To...)
		parts[i] = graph.Edges{}
	}
	return all, nil
}

func add(e *graph.Edges, u, v uint32) { e.From, e.To = append(e.From, u), append(e.To, v) }

// fixed returns a share below 1 as a 64-bit fixed-point number.
func fixed(share float64) uint64 { return uint64(math.Ldexp(share, 64)) }

// order returns the positions of keys in sorted order.
func (g *generator) order(keys []uint64) ([]uint32, error) {
	var s cpu.Sorter[uint64]
	items, err := s.Sort(g.ctx, g.Host, keys, 0)
	if err != nil {
		return nil, err
	}
	at := make([]uint32, len(keys))
	for i, it := range items {
		at[i] = it.Row
	}
	return at, nil
}
