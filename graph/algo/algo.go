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

// Unreached is the depth of a vertex that a search does not reach. NoVertex stands for no vertex.
const (
	Unreached = math.MaxUint32
	NoVertex  = math.MaxUint32
)

const (
	// grain is the number of vertices that a core processes at a time, if each costs little.
	grain = 1 << 13
	// rows is the number of vertices that a core processes at a time, if it reads their rows.
	rows = 1 << 9
	// front is the number of frontier vertices that a core processes at a time. It is small, since
	// any of them may have a long row.
	front = 1 << 6
)

// host returns dev as a host, or an error if dev cannot run Go code.
func host(dev device.Device, name string) (device.Host, error) {
	h, err := cpu.Host(dev, "graphs")
	if err != nil {
		return nil, wrap(name, err)
	}
	return h, nil
}

type failure struct {
	name string
	err  error
}

func (f *failure) Error() string { return "algo: " + f.name + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// wrap adds the name of an algorithm to an error, except to a failure or an error of a context.
func wrap(name string, err error) error {
	if f := (*failure)(nil); err == nil || errors.As(err, &f) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &failure{name, err}
}

func invalid(name, format string, args ...any) error {
	return &failure{name, fmt.Errorf("%w: %s", device.ErrInvalid, fmt.Sprintf(format, args...))}
}

func checkUndirected(name string, directed bool) error {
	if directed {
		return invalid(name, "the graph is directed; pass its Symmetric")
	}
	return nil
}

func checkSource(name string, vertices int, source uint32) error {
	if uint64(source) >= uint64(vertices) {
		return invalid(name, "the source is %d, but there are %d vertices", source, vertices)
	}
	return nil
}

// maxVertices is the default of graph.Options.MaxVertices.
const maxVertices = 1 << 28

// verticesWith returns the number of vertices of a graph after the edges e are added; before is the
// number without them. It returns an error if an end is not less than the maximum of maxVertices,
// before and e.Vertices.
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

func rangeError(name string, i int, u, v uint32, limit int) error {
	return invalid(name, "edge %d from %d to %d: vertices are 0 to %d; Edges.Vertices allows more", i, u, v, limit-1)
}

// mustMatchVertices panics unless n, the length of a slice, is the number of vertices of g.
func mustMatchVertices(name string, g *graph.CSR, n int) {
	if n != g.Vertices() {
		panic(fmt.Sprintf("algo: %s: %d elements for %d vertices", name, n, g.Vertices()))
	}
}

// vertexList is a list of fixed capacity to which cores append ranges concurrently.
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

// swap empties list a and exchanges the two lists.
func swap(a, b **vertexList) {
	(*a).used.Store(0)
	*a, *b = *b, *a
}
