// Package triangles implements kernels that count triangles on a GPU. They count all triangles of a
// graph in compressed sparse rows, by its oriented view. They also count the triangles of a dynamic
// graph that contain an edge of a batch.
//
// # The view
//
// The oriented view has each edge once, in the row of the end that has the smaller degree. Of two
// ends with equal degrees, the smaller vertex has the edge. [Kernels.Orient] computes the view in
// three steps. A pass marks the arcs to keep, one bit each. A prefix sum counts the bits before
// each word, and another pass moves the arcs. Rows stay ascending. The row of a vertex leads to
// vertices of the same or a larger degree. So no row has more arcs than the square root of twice
// their total.
//
// # Counting
//
// A triangle is a wedge u→v, v→w of the view that an edge u→w closes. A warp takes a few
// vertices u at a time. If their rows are short, it distributes their arcs over its lanes, and then
// the wedges over these arcs. A bisection searches w in the row of u. A longer row is hashed into
// shared memory at a load of 1/4, and the warp looks up the rows of its neighbors there. Short rows
// among these are distributed over lanes; all lanes read a long one in memory order. Warps leave
// large work to blocks: rows with more than a hundred arcs, in parts, and arcs to vertices with
// thousands. So every part of the work is small, whatever the degrees.
//
// # Batches
//
// If several edges of a triangle are in the batch, the triangle counts at the first of them. Edges
// are ordered by the smaller end, and then by the larger end. Both arcs of each edge are sorted, so
// the arcs of a vertex form a row. A short search in that row finds whether another edge of a
// triangle is in the batch and precedes this one. To find the common neighbors of both ends, the
// kernel searches each neighbor of the end with fewer among the neighbors of the other.
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

// Constants compiled into the kernels.
const (
	stripArcs      = 1024 // arcs per warp when selecting
	chunkVertices  = 8    // vertices that a warp takes at a time
	minTaskArcs    = 16   // minimum arcs per task of a block
	blocks         = 6    // blocks per multiprocessor in counting kernels
	fetchesPerWarp = 8    // average number of times that a warp takes vertices, in large graphs
)

// Kernels holds the kernels loaded on a device. They are safe for concurrent use.
type Kernels struct {
	dev                device.Device
	prim               *prim.Kernels
	choose, rows, keep device.Kernel
	count, hubs        device.Kernel
	ascend             struct{ keys, choose, rows, keep device.Kernel }
	arcs, among, wide  device.Kernel
}

// Load loads the kernels onto a device. It returns device.ErrNoKernels if the device runs no
// kernels.
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

// Rows is a graph in compressed sparse rows. Offsets has one more element than the graph has
// vertices. Neighbors ascend within each row.
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

// Free frees the memory. All submitted work must have ended.
func (g *Rows) Free() error { return errors.Join(g.Offsets.Free(), g.Neighbors.Free()) }

// withMemory allocates memory, calls f with it, and frees it. If f returns nil, its submitted work
// must have ended.
func (k *Kernels) withMemory(s *device.Stream, bytes prim.Carve, f func(memory device.Ptr) error) error {
	buf, err := k.dev.Alloc(int(bytes))
	if err != nil {
		return err
	}
	if err = f(buf.Ptr); err != nil {
		err = errors.Join(err, s.Sync(context.Background()))
	}
	return errors.Join(err, k.dev.Free(buf))
}

// Count returns the number of triangles in an oriented view.
func (k *Kernels) Count(ctx context.Context, s *device.Stream, view Rows) (uint64, error) {
	g, err := view.ref()
	if err != nil || g.arcs == 0 {
		return 0, errors.Join(err, ctx.Err())
	}
	maxTasks := int(g.arcs)/minTaskArcs + 1
	var at prim.Carve
	head, tasks := at.Alloc(16), at.Alloc(8*maxTasks)
	chunks := (int(g.vertices)-1)/chunkVertices + 1
	grid := gpu.Resident(k.dev, 32*chunks, blocks)
	var total [1]uint64
	err = k.withMemory(s, at, func(memory device.Ptr) error {
		p := countParams{
			graph: g, total: memory + head, used: memory + head + 8, next: memory + head + 12, tasks: memory + tasks,
			grab: uint32(max(1, chunks/(fetchesPerWarp*grid.X*gpu.BlockThreads/32))),
		}
		if err := s.Fill(p.total, 0, 4); err != nil {
			return err
		}
		if err := device.Launch(s, k.count, grid, gpu.Block, &p); err != nil {
			return err
		}
		if err := device.Launch(s, k.hubs, gpu.Resident(k.dev, maxTasks*gpu.BlockThreads, blocks), gpu.Block, &p); err != nil {
			return err
		}
		return s.CopyOut(ctx, device.Bytes(total[:]), p.total)
	})
	return total[0], err
}

// Graph locates a dynamic graph in device memory. Kernels have the same struct, weft::graph::Graph
// in graph_table.cuh.
type Graph struct {
	_                    structs.HostLayout
	Records, Pool, Alive device.Ptr
	Vertices, Unit       uint32
}

// CountBatch returns the number of triangles of an undirected graph that contain at least one edge
// of a batch. Each triangle counts once. Self loops, duplicate edges and edges that are not in the
// graph add nothing. Unless only is empty, it has a flag per edge, and edges with a false flag add
// nothing either. The graph must not change during the call.
func (k *Kernels) CountBatch(ctx context.Context, s *device.Stream, g Graph, from, to device.Slice[uint32], only device.Slice[bool]) (uint64, error) {
	n := from.Len()
	if n == 0 || g.Vertices == 0 {
		return 0, ctx.Err()
	}
	width := bits.Len32(g.Vertices)
	sort := prim.Sort{Widths: prim.Widths{Key: 8}, N: 2 * n, Hi: 2 * width}
	var at prim.Carve
	head, keys, tasks := at.Alloc(16), at.Alloc(16*n), at.Alloc(4*n)
	scratch := at.Alloc(sort.ScratchBytes())
	var total [1]uint64
	err := k.withMemory(s, at, func(memory device.Ptr) error {
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
