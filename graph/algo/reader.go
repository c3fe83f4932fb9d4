package algo

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/cpu"
)

// Reader is a mutable graph, or a snapshot, that algorithms on batches can read. [graph.Graph], on
// any device, and [graph.Snapshot] implement it. The algorithms read the rows at the ends of the
// batch's edges, and the whole graph only if that costs less. The caller passes the edges that a
// batch changed: the graph has no log of changes, so a program without such algorithms pays
// nothing.
type Reader interface {
	Directed() bool
	Degree(ctx context.Context, vertices, degrees []uint32) error
	Rows(ctx context.Context, vertices []uint32) (offsets []uint64, neighbors []uint32, err error)
	CSR(ctx context.Context) (*graph.CSR, error)
}

var _, _ Reader = (*graph.Graph)(nil), (*graph.Snapshot)(nil)

// mustMatchEnds panics if the slices of a list of edges differ in length.
func mustMatchEnds(name string, e graph.Edges) {
	if len(e.From) != len(e.To) {
		panic(fmt.Sprintf("algo: %s: %d edges have a first vertex, but %d have a second one", name,
			len(e.From), len(e.To)))
	}
}

// distinct returns keys sorted and without duplicates. It reuses their memory.
func distinct[K cpu.Key](ctx context.Context, h device.Host, keys []K) ([]K, error) {
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	var s cpu.Sorter[K]
	items, err := s.Sort(ctx, h, keys, 0)
	if err != nil {
		return nil, err
	}
	keys = keys[:0]
	for i, x := range items {
		if i == 0 || items[i-1].Key != x.Key {
			keys = append(keys, x.Key)
		}
	}
	return keys, nil
}
