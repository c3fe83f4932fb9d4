// Package traversal implements kernels of graph algorithms on compressed sparse rows: PageRank,
// breadth-first search, connected components, shortest paths and cores. It also transposes graphs.
//
// Degrees differ by a factor of millions, so kernels that follow arcs do not assign vertices to
// threads. Instead, each warp takes a tile with an equal number of arcs and searches for the
// vertices that these arcs leave. Threads that write to the same vertex add integers or take
// minima, so results equal those of a CPU bit for bit.
//
// The host submits rounds, several at a time if each has little work, and then reads a few words of
// results. A call waits for all work that it has submitted, even after an error.
package traversal

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

//go:generate go run ../../../cmd/weftgen -target 80+ptx83,90+ptx83 -struct weft::traversal::Iteration ranks.cuh
//go:generate go run ../../../cmd/weftgen -target 80+ptx83,90+ptx83 -struct weft::traversal::Level levels.cuh
//go:generate go run ../../../cmd/weftgen -target 80+ptx83,90+ptx83 -struct weft::traversal::Tally tally.cuh
//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 traversal.cu
//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -type graph::Graph=.DynamicGraph -type traversal::Batch=batchRef -type traversal::Kept=keptRef -type traversal::Rows=.rows -type traversal::Frontier=.frontier following.cu

// Constants compiled into the kernels.
const (
	tileArcs = 256 // arcs per warp
	arcBits  = 34  // low bits of a list's size, which count arcs; the upper bits count vertices
)

// The limits of a graph. The size of a list is one word: arcBits bits count arcs, and the other
// bits count vertices.
const (
	MaxVertices = 1<<(64-arcBits) - 1
	MaxArcs     = 1<<arcBits - 1
)

// Graph locates a graph in device memory: Vertices+1 offsets (uint64) and the targets of all arcs
// (uint32), both aligned to 16 bytes.
type Graph struct {
	Offsets, Targets device.Ptr
	Vertices, Arcs   int
	Directed         bool
}

func (g Graph) rows() rows {
	return rows{offsets: g.Offsets, targets: g.Targets, arcs: uint64(g.Arcs), vertices: uint32(g.Vertices)}
}

func (g Graph) check() error {
	if g.Vertices > MaxVertices || g.Arcs > MaxArcs {
		return fmt.Errorf("%w: %d vertices and %d arcs; a GPU takes up to %d and %d", device.ErrUnsupported, g.Vertices, g.Arcs, MaxVertices, MaxArcs)
	}
	return nil
}

// Kernels holds the kernels loaded on a device. They are safe for concurrent use.
type Kernels struct {
	dev  device.Device
	prim *prim.Kernels

	turnSources, turnOffsets                                                            device.Kernel
	rankStart, rankCut, rankGather, rankApply                                           device.Kernel
	searchStart, searchDown, searchUp                                                   device.Kernel
	uniteStart, uniteFirst, uniteFlatten, uniteSample, unitePick, uniteRest, uniteCount device.Kernel
	pathCheck, pathMean, pathStart, pathRelax, pathLeast, pathGather, pathCount         device.Kernel
	coreStart, coreLoops, corePeel, coreLeast, coreGather                               device.Kernel
}

// Load loads the kernels onto a device. It returns device.ErrNoKernels if the device runs no
// kernels.
func Load(dev device.Device) (k *Kernels, err error) {
	k = &Kernels{dev: dev}
	if k.prim, err = prim.Load(dev); err != nil {
		return nil, err
	}
	return k, gpu.Load(dev, &traversalImage, []gpu.Entry{
		{Name: "turn_sources", To: &k.turnSources}, {Name: "turn_offsets", To: &k.turnOffsets},
		{Name: "rank_start", To: &k.rankStart}, {Name: "rank_cut", To: &k.rankCut},
		{Name: "rank_gather", To: &k.rankGather}, {Name: "rank_apply", To: &k.rankApply},
		{Name: "search_start", To: &k.searchStart}, {Name: "search_down", To: &k.searchDown}, {Name: "search_up", To: &k.searchUp},
		{Name: "unite_start", To: &k.uniteStart}, {Name: "unite_first", To: &k.uniteFirst}, {Name: "unite_flatten", To: &k.uniteFlatten}, {Name: "unite_sample", To: &k.uniteSample},
		{Name: "unite_pick", To: &k.unitePick}, {Name: "unite_rest", To: &k.uniteRest}, {Name: "unite_count", To: &k.uniteCount},
		{Name: "path_check", To: &k.pathCheck}, {Name: "path_mean", To: &k.pathMean}, {Name: "path_start", To: &k.pathStart},
		{Name: "path_relax", To: &k.pathRelax}, {Name: "path_least", To: &k.pathLeast}, {Name: "path_gather", To: &k.pathGather}, {Name: "path_count", To: &k.pathCount},
		{Name: "core_start", To: &k.coreStart}, {Name: "core_loops", To: &k.coreLoops}, {Name: "core_peel", To: &k.corePeel},
		{Name: "core_least", To: &k.coreLeast}, {Name: "core_gather", To: &k.coreGather},
	})
}

// call is a call of an algorithm in progress. It owns memory that end frees. After an error its
// methods submit nothing.
type call struct {
	*Kernels
	ctx  context.Context
	s    *device.Stream
	bufs []device.Buffer
	err  error
}

func (k *Kernels) begin(ctx context.Context, s *device.Stream, g Graph) *call {
	return &call{Kernels: k, ctx: ctx, s: s, err: errors.Join(g.check(), ctx.Err())}
}

func (c *call) do(f func() error) {
	if c.err == nil {
		c.err = f()
	}
}

// alloc allocates one buffer, and returns the addresses of arrays of the given sizes in it.
func (c *call) alloc(sizes ...int) []device.Ptr {
	var all prim.Carve
	for _, n := range sizes {
		all.Alloc(n)
	}
	var buf device.Buffer
	c.do(func() (err error) {
		if buf, err = c.dev.Alloc(max(1, int(all))); err == nil {
			c.bufs = append(c.bufs, buf)
		}
		return err
	})
	parts, at := make([]device.Ptr, len(sizes)), prim.Carve(buf.Ptr)
	for i, n := range sizes {
		parts[i] = at.Alloc(n)
	}
	return parts
}

// end waits for all submitted work, frees the memory and returns the error.
func (c *call) end() error {
	err := errors.Join(c.err, c.s.Sync(context.Background()))
	for _, buf := range c.bufs {
		err = errors.Join(err, c.dev.Free(buf))
	}
	return err
}

// blocksPerUnit is the number of blocks that fill a multiprocessor in kernels that stride.
// registerBlocks is for kernels that need more registers: it fills a multiprocessor several times,
// so that no partial wave remains at the end.
const blocksPerUnit, registerBlocks = 8, 64

func launch[P any](c *call, k device.Kernel, n int, p *P) { launchBlocks(c, k, n, blocksPerUnit, p) }

func launchBlocks[P any](c *call, k device.Kernel, n, blocks int, p *P) {
	c.do(func() error { return device.Launch(c.s, k, gpu.Resident(c.dev, n, blocks), gpu.Block, p) })
}

// read waits for all submitted work and returns n words of device memory. After an error the words
// are 0.
func (c *call) read(from device.Ptr, n int) []uint64 {
	words := make([]uint64, n)
	c.do(func() error { return c.s.CopyOut(c.ctx, device.Bytes(words), from) })
	return words
}

func (c *call) write(to device.Ptr, words ...uint64) {
	c.do(func() error { return c.s.CopyIn(to, device.Bytes(words)) })
}

func (c *call) fill(to device.Ptr, pattern uint32, n int) {
	c.do(func() error { return c.s.Fill(to, pattern, n) })
}

func (c *call) copy(to, from device.Ptr, bytes int) {
	c.do(func() error { return c.s.Copy(to, from, bytes) })
}

// frontierPair is two lists of vertices that rounds use alternately. Each has capacity for all
// vertices.
type frontierPair [2]frontier

// lists allocates a pair of lists. The caller sets where their sizes are.
func (c *call) lists(vertices int) (l frontierPair) {
	parts := c.alloc(4*vertices, 8*vertices, 4*vertices, 8*vertices)
	for i := range l {
		l[i] = frontier{list: parts[2*i], starts: parts[2*i+1]}
	}
	return l
}

// sized returns the list that a round reads. Its size is at the given address.
func (l *frontierPair) sized(round int, size device.Ptr) frontier {
	f := l[round%2]
	f.size = size
	return f
}

func verticesOf(size uint64) int { return int(size >> arcBits) }
func arcsOf(size uint64) int     { return int(size & MaxArcs) }
