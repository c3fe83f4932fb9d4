package algo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/cpu"
)

// Unreached is the depth of a vertex that a search does not reach. None stands for no vertex.
const (
	Unreached = math.MaxUint32
	NoVertex  = math.MaxUint32
)

const (
	// grain is the number of vertices that a core takes at a time, if each costs little.
	grain = 1 << 13
	// rows is that number for work on all neighbors of a vertex.
	rows = 1 << 9
	// front is that number for the vertices of a frontier, where any may be a hub.
	front = 1 << 6
)

// host returns a device as a host, on which Go code works.
func host(dev device.Device, name string) (device.Host, error) {
	h, err := cpu.Host(dev, "graphs")
	if err != nil {
		return nil, wrap(name, err)
	}
	return h, nil
}

// failure is an error of an algorithm.
type failure struct {
	name string
	err  error
}

func (f *failure) Error() string { return "algo: " + f.name + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// wrap wraps an error as one of an algorithm, unless it already is one. It returns errors of
// contexts as they are.
func wrap(name string, err error) error {
	if f := (*failure)(nil); err == nil || errors.As(err, &f) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &failure{name, err}
}

// invalid returns the error of an invalid argument.
func invalid(name, format string, args ...any) error {
	return &failure{name, fmt.Errorf("%w: %s", device.ErrInvalid, fmt.Sprintf(format, args...))}
}

// checkUndirected refuses a directed graph.
func checkUndirected(name string, directed bool) error {
	if directed {
		return invalid(name, "the graph is directed; its Symmetric is not")
	}
	return nil
}

// checkSource refuses a source that is no vertex.
func checkSource(name string, vertices int, source uint32) error {
	if uint64(source) >= uint64(vertices) {
		return invalid(name, "the source is %d, and there are %d vertices", source, vertices)
	}
	return nil
}

// maxVertices is the default of graph.Options.MaxVertices.
const maxVertices = 1 << 28

// verticesWith returns the number of vertices including those of some edges. A vertex not less than
// the default of graph.Options.MaxVertices is refused, unless Vertices of the list or the previous
// number allows it.
func verticesWith(name string, before int, e graph.Edges) (n int, err error) {
	if e.Vertices < 0 || e.Vertices > math.MaxUint32 {
		return 0, invalid(name, "%d vertices, want 0 to %d", e.Vertices, uint32(math.MaxUint32))
	}
	n = max(before, e.Vertices)
	limit := max(n, maxVertices)
	for i, u := range e.From {
		end := max(u, e.To[i])
		if uint64(end) >= uint64(limit) {
			return 0, rangeError(name, i, u, e.To[i], limit)
		}
		n = max(n, int(end)+1)
	}
	return n, nil
}

// rangeError returns the error of an edge with a vertex beyond the limit.
func rangeError(name string, i int, u, v uint32, limit int) error {
	return invalid(name, "edge %d from %d to %d: vertices are 0 to %d; Edges.Vertices allows more", i, u, v, limit-1)
}

// mustMatchVertices panics unless a slice has one element for each vertex.
func mustMatchVertices(name string, g *graph.CSR, n int) {
	if n != g.Vertices() {
		panic(fmt.Sprintf("algo: %s: %d elements for %d vertices", name, n, g.Vertices()))
	}
}

// vertexList is a list to which cores append, one range at a time, up to its capacity.
type vertexList struct {
	list []uint32
	used atomic.Int64
}

func newVertexList(capacity int) *vertexList { return &vertexList{list: make([]uint32, capacity)} }

func (g *vertexList) add(vertices []uint32) {
	at := g.used.Add(int64(len(vertices)))
	copy(g.list[at-int64(len(vertices)):at], vertices)
}

func (g *vertexList) vertices() []uint32 { return g.list[:g.used.Load()] }

// swap empties the other list, and exchanges both.
func swap(a, b **vertexList) {
	(*a).used.Store(0)
	*a, *b = *b, *a
}
