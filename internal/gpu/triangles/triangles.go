// Package triangles has the kernels that count triangles on a GPU: of a graph in compressed sparse rows by its
// oriented view, and those of a batch of edges in a graph that changes.
//
// # The view
//
// The oriented view has each edge once, from the end of smaller degree to the other, of ends of one degree from the smaller
// number. [Kernels.Orient] makes it in one pass that marks the arcs that stay, a bit each, a prefix sum over the words of bits, and one that
// moves them: rows ascend as they did. No row has more arcs than the square root of all, since it leads to
// as many vertices of no smaller degree.
//
// # Counting
//
// A triangle is a wedge u→v, v→w of the view that an edge u→w closes. Warps take a few vertices u at a time. Where rows are
// short, the arcs of all of them are dealt out to the lanes, then the wedges over these, and w is searched in the row of u by bisection. A longer row
// is hashed into shared memory, a quarter full, and the rows of its neighbors are looked up there: as they lie in
// memory, by all lanes, or dealt out if they are short. What is too much for a warp it leaves to
// blocks: rows with more than a hundred arcs, in parts, and arcs to vertices with thousands. So no part
// of the work is large, whatever the degrees.
//
// # Batches
//
// A triangle that has several of the edges of a batch is counted at the first of them, in the order of the smaller end and then the larger. Both
// arcs of all edges are sorted, so those of a vertex are a row, in which it takes a search of a few steps to
// find out whether another edge of a triangle is of the batch, and before this one. Neighbors that both ends have
// are found by searching those of the end with fewer among the other's, where the graph has them.
package triangles

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"structs"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -type Rows=rowsRef -type graph::Graph=.Graph triangles.cu

// As compiled in.
const (
	strip      = 1024 // arcs that a warp chooses from at a time
	chunk      = 8    // vertices that a warp takes at a time
	leastTask  = 16   // arcs that a task of a block stands for at least
	blocks     = 6    // that count on a multiprocessor
	grabsAWarp = 8    // so many times a warp comes for vertices, on average, if there are many
)

// Kernels are those of a device. They are safe for concurrent use.
type Kernels struct {
	dev                device.Device
	prim               *prim.Kernels
	choose, rows, keep device.Kernel
	count, hubs        device.Kernel
	ascend             struct{ keys, choose, rows, keep device.Kernel }
	arcs, among, wide  device.Kernel
}

// Load makes the kernels of a device; device.ErrNoKernels if it runs none.
func Load(dev device.Device) (k *Kernels, err error) {
	k = &Kernels{dev: dev}
	if k.prim, err = prim.Load(dev); err != nil {
		return nil, err
	}
	return k, gpu.Load(dev, &trianglesImage, []gpu.Entry{
		{Name: "choose", To: &k.choose}, {Name: "rows", To: &k.rows}, {Name: "keep", To: &k.keep},
		{Name: "ascend_keys", To: &k.ascend.keys}, {Name: "ascend_choose", To: &k.ascend.choose},
		{Name: "ascend_rows", To: &k.ascend.rows}, {Name: "ascend_keep", To: &k.ascend.keep},
		{Name: "count", To: &k.count}, {Name: "hubs", To: &k.hubs},
		{Name: "arcs", To: &k.arcs}, {Name: "among", To: &k.among}, {Name: "wide", To: &k.wide},
	})
}

// Rows is a graph in compressed sparse rows: offsets of rows, one more than vertices, and neighbors, which
// ascend in each row.
type Rows struct {
	Offsets   device.Slice[uint64]
	Neighbors device.Slice[uint32]
}

func (g Rows) vertices() int { return g.Offsets.Len() - 1 }
func (g Rows) arcs() int     { return g.Neighbors.Len() }

func (g Rows) ref() (rowsRef, error) {
	if g.arcs() > math.MaxUint32 {
		return rowsRef{}, fmt.Errorf("triangles: %w: a graph of %d arcs; a GPU counts in up to %d", device.ErrUnsupported, g.arcs(), math.MaxUint32)
	}
	return rowsRef{offsets: g.Offsets.Ptr(), neighbors: g.Neighbors.Ptr(), vertices: uint32(g.vertices()), arcs: uint32(g.arcs())}, nil
}

// Free returns the memory; what has been submitted is done.
func (g *Rows) Free() error { return errors.Join(g.Offsets.Free(), g.Neighbors.Free()) }

// with lends f memory. What f has submitted is done when it returns nil.
func (k *Kernels) with(s *device.Stream, bytes prim.Carve, f func(memory device.Ptr) error) error {
	buf, err := k.dev.Alloc(int(bytes))
	if err != nil {
		return err
	}
	if err = f(buf.Ptr); err != nil {
		err = errors.Join(err, s.Sync(context.Background()))
	}
	return errors.Join(err, k.dev.Free(buf))
}

// Count counts the triangles of an oriented view.
func (k *Kernels) Count(ctx context.Context, s *device.Stream, view Rows) (uint64, error) {
	g, err := view.ref()
	if err != nil || g.arcs == 0 {
		return 0, errors.Join(err, ctx.Err())
	}
	most := int(g.arcs)/leastTask + 1 // tasks
	var at prim.Carve
	head, tasks := at.Take(16), at.Take(8*most)
	chunks := (int(g.vertices)-1)/chunk + 1
	grid := gpu.Resident(k.dev, 32*chunks, blocks)
	var total [1]uint64
	err = k.with(s, at, func(memory device.Ptr) error {
		p := countParams{
			graph: g, total: memory + head, used: memory + head + 8, next: memory + head + 12, tasks: memory + tasks,
			grab: uint32(max(1, chunks/(grabsAWarp*grid.X*gpu.BlockThreads/32))),
		}
		if err := s.Fill(p.total, 0, 4); err != nil {
			return err
		}
		if err := device.Launch(s, k.count, grid, gpu.Block, &p); err != nil {
			return err
		}
		if err := device.Launch(s, k.hubs, gpu.Resident(k.dev, most*gpu.BlockThreads, blocks), gpu.Block, &p); err != nil {
			return err
		}
		return s.CopyOut(ctx, device.Bytes(total[:]), p.total)
	})
	return total[0], err
}

// Graph is a graph that changes, as kernels read it: the twin of weft::graph::Graph in graph_table.cuh.
type Graph struct {
	_                    structs.HostLayout
	Records, Pool, Alive device.Ptr
	Vertices, Unit       uint32
}

// Of counts the triangles of an undirected graph that have at least one of some edges, each once; edges that are not the graph's, loops, and those that come
// again count nothing, nor do edges i, unless only is empty, for which only[i] is false. Nothing changes the graph meanwhile.
func (k *Kernels) Of(ctx context.Context, s *device.Stream, g Graph, from, to device.Slice[uint32], only device.Slice[bool]) (uint64, error) {
	n := from.Len()
	if n == 0 || g.Vertices == 0 {
		return 0, ctx.Err()
	}
	width := bits.Len32(g.Vertices)
	sort := prim.Sort{Widths: prim.Widths{Key: 8}, N: 2 * n, Hi: 2 * width}
	var at prim.Carve
	head, keys, tasks := at.Take(16), at.Take(16*n), at.Take(4*n)
	scratch := at.Take(sort.ScratchBytes())
	var total [1]uint64
	err := k.with(s, at, func(memory device.Ptr) error {
		p := deltaParams{
			graph: g, from: from.Ptr(), to: to.Ptr(), only: only.Ptr(), keys: memory + keys, total: memory + head, used: memory + head + 8, tasks: memory + tasks,
			n: uint32(n), bits: uint32(width),
		}
		if err := s.Fill(p.total, 0, 4); err != nil {
			return err
		}
		if err := device.Launch(s, k.arcs, gpu.Wave(k.dev, n), gpu.Block, &p); err != nil {
			return err
		}
		sort.From, sort.To = prim.Rows{Keys: p.keys}, prim.Rows{Keys: p.keys}
		if err := k.prim.Sort(s, &sort, device.Buffer{Ptr: memory + scratch, Size: sort.ScratchBytes()}); err != nil {
			return err
		}
		if err := device.Launch(s, k.among, gpu.Resident(k.dev, 2*n, blocks), gpu.Block, &p); err != nil {
			return err
		}
		if err := device.Launch(s, k.wide, gpu.Resident(k.dev, n*gpu.BlockThreads, blocks), gpu.Block, &p); err != nil {
			return err
		}
		return s.CopyOut(ctx, device.Bytes(total[:]), p.total)
	})
	return total[0], err
}
