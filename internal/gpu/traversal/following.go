package traversal

import (
	"context"
	"errors"
	"structs"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

// DynamicKernels holds the kernels that update components and ranks when a batch changes a graph,
// and the kernels that compute these initially. They are safe for concurrent use.
type DynamicKernels struct {
	*Kernels
	edgesCheck                                                                      device.Kernel
	forestGrow, forestUnite                                                         device.Kernel
	followBegin, followAgrees, followShare, followSweep, followList                 device.Kernel
	followTouch, followEdges, followSettle, followHand, followSpread, followRefresh device.Kernel
}

// LoadDynamic loads the kernels onto a device. It returns device.ErrNoKernels if the device runs no
// kernels.
func LoadDynamic(dev device.Device) (k *DynamicKernels, err error) {
	k = &DynamicKernels{}
	if k.Kernels, err = Load(dev); err != nil {
		return nil, err
	}
	return k, gpu.Load(dev, &followingImage, []gpu.Entry{
		{Name: "edges_check", To: &k.edgesCheck}, {Name: "forest_grow", To: &k.forestGrow}, {Name: "forest_unite", To: &k.forestUnite},
		{Name: "follow_begin", To: &k.followBegin}, {Name: "follow_agrees", To: &k.followAgrees},
		{Name: "follow_share", To: &k.followShare}, {Name: "follow_sweep", To: &k.followSweep}, {Name: "follow_list", To: &k.followList},
		{Name: "follow_touch", To: &k.followTouch}, {Name: "follow_edges", To: &k.followEdges}, {Name: "follow_settle", To: &k.followSettle},
		{Name: "follow_hand", To: &k.followHand}, {Name: "follow_spread", To: &k.followSpread}, {Name: "follow_refresh", To: &k.followRefresh},
	})
}

// Edges are the edges of a batch in device memory. If Done is not 0, edges with a zero in Done are
// ignored.
type Edges struct {
	From, To, Done device.Ptr
	N              int
}

func (e Edges) ref() batchRef { return batchRef{from: e.From, to: e.To, done: e.Done, n: uint64(e.N)} }

// EdgeCheck is the result of a check. Vertices is the smallest number of vertices that includes the
// ends of all edges. Bad is the index of the first edge with an end beyond the limit, or -1.
type EdgeCheck struct{ Vertices, Bad int }

// edgeCheckOf decodes the words that kernel edges_check writes.
func edgeCheckOf(words []uint64) EdgeCheck {
	return EdgeCheck{Vertices: int(^words[1]), Bad: int(words[0])}
}

// submitCheck submits the check of edges. Before, both words must have all bits set.
func (k *DynamicKernels) submitCheck(c *call, words device.Ptr, e Edges, limit int) {
	launch(c, k.edgesCheck, e.N, &checkParams{batch: e.ref(), told: words, limit: uint64(limit)})
}

// Check checks the ends of edges against a limit. It changes nothing.
func (k *DynamicKernels) Check(ctx context.Context, s *device.Stream, e Edges, limit int) (EdgeCheck, error) {
	c := k.begin(ctx, s, Graph{})
	words := c.alloc(16)[0]
	c.write(words, ^uint64(0), ^uint64(0))
	k.submitCheck(c, words, e, limit)
	got := c.read(words, 2)
	return edgeCheckOf(got), c.end()
}

// ---- components ----------------------------------------------------------------

// UniteWords is the number of 64-bit words of memory that Unite requires.
const UniteWords = 3

// Unite merges the trees of both ends of each edge, in a forest with the given number of vertices.
// It changes nothing if any end is beyond these vertices or the limit. It returns the number of
// trees that were merged into another.
func (k *DynamicKernels) Unite(ctx context.Context, s *device.Stream, words, parents device.Ptr, vertices int, e Edges, limit int) (united int, check EdgeCheck, err error) {
	c := k.begin(ctx, s, Graph{})
	p := forestParams{batch: e.ref(), told: words, united: words + 16, parents: parents, vertices: uint32(vertices)}
	c.write(words, ^uint64(0), ^uint64(0), 0)
	k.submitCheck(c, words, e, limit)
	launch(c, k.forestUnite, e.N, &p)
	got := c.read(words, UniteWords)
	return int(got[2]), edgeCheckOf(got), c.end()
}

// AddVertices makes each of the vertices [from,to) a separate tree.
func (k *DynamicKernels) AddVertices(ctx context.Context, s *device.Stream, parents device.Ptr, from, to int) error {
	c := k.begin(ctx, s, Graph{})
	launch(c, k.forestGrow, to-from, &forestParams{parents: parents, from: uint32(from), vertices: uint32(to)})
	return c.end()
}

// Flatten makes each vertex point to the root of its tree.
func (k *DynamicKernels) Flatten(ctx context.Context, s *device.Stream, parents device.Ptr, vertices int) error {
	c := k.begin(ctx, s, Graph{})
	launch(c, k.uniteFlatten, vertices, &uniteParams{rows: rows{vertices: uint32(vertices)}, labels: parents})
	return c.end()
}

// ---- ranks ---------------------------------------------------------------------

// DynamicGraph locates a dynamic graph in device memory. Kernels have the same struct,
// weft::graph::Graph in graph_table.cuh.
type DynamicGraph struct {
	_                    structs.HostLayout
	Records, Pool, Alive device.Ptr
	Vertices, Unit       uint32
}

// RankState is the state of ranks that follow a dynamic graph, in device memory.
type RankState struct {
	Ranks       device.Slice[uint64]
	Directed    bool
	Damping     uint64 // damping factor times 2^64
	Base        uint64 // rank that every vertex gets regardless of its arcs
	Limit       uint64 // maximum rank that a vertex may keep without pushing it
	Distributed uint64 // rank of vertices without neighbors, as far as it has been pushed

	buf device.Buffer
	ref keptRef
}

// Tally is the result of a pass. Dangling, Residual, Arcs and Load are the amounts by which the
// pass changed sums; negative amounts are modulo 2^64. Changed and Active are the lengths of lists.
// Mismatch is the first vertex with a row that contradicts the recorded edges, or -1.
type Tally struct {
	Dangling, Residual, Arcs, Load uint64
	Changed, Active                int
	Mismatch                       int
}

// The size of a tally, and offsets of fields, in bytes.
const (
	tallyBytes = int(unsafe.Sizeof(tally{}))
	changedAt  = unsafe.Offsetof(tally{}.changed)
	wrongAt    = unsafe.Offsetof(tally{}.wrong)
)

// Grow grows the state to the given number of vertices. The state of new vertices is 0.
func (k *DynamicKernels) Grow(ctx context.Context, s *device.Stream, old *RankState, vertices int) (err error) {
	to := *old
	n, before := vertices, old.Ranks.Len()
	if to.Ranks, err = device.Make[uint64](k.dev, n); err != nil {
		return err
	}
	var all prim.Carve
	wide, narrow := func() device.Ptr { return all.Alloc(8 * n) }, func() device.Ptr { return all.Alloc(4 * n) }
	at := keptRef{handed: wide(), sums: wide(), next: wide(), degrees: narrow(), marks: narrow(), changed: narrow(), active: narrow(), vertices: uint32(n)}
	at.front = frontier{list: narrow(), starts: wide()}
	at.tally = all.Alloc(tallyBytes)
	if to.buf, err = k.dev.Alloc(int(all)); err != nil {
		return errors.Join(err, to.Ranks.Free())
	}
	for _, p := range []*device.Ptr{&at.handed, &at.sums, &at.next, &at.degrees, &at.marks, &at.changed, &at.active, &at.front.list, &at.front.starts, &at.tally} {
		*p += to.buf.Ptr
	}
	at.front.size = at.tally + device.Ptr(unsafe.Offsetof(tally{}.front))
	to.ref = at
	c := k.begin(ctx, s, Graph{})
	c.fill(to.Ranks.Ptr(), 0, 2*n)
	c.fill(to.buf.Ptr, 0, int(all)/4)
	c.write(at.tally+device.Ptr(wrongAt), ^uint64(0))
	if from := old.ref; before > 0 {
		c.copy(to.Ranks.Ptr(), old.Ranks.Ptr(), 8*before)
		for _, a := range [][2]device.Ptr{{at.handed, from.handed}, {at.sums, from.sums}} {
			c.copy(a[0], a[1], 8*before)
		}
		for _, a := range [][2]device.Ptr{{at.degrees, from.degrees}, {at.marks, from.marks}, {at.changed, from.changed}, {at.active, from.active}} {
			c.copy(a[0], a[1], 4*before)
		}
		c.copy(at.tally, from.tally, tallyBytes)
	}
	if err := c.end(); err != nil {
		return errors.Join(err, to.Free(k.dev))
	}
	old.Ranks, to.Ranks = to.Ranks, old.Ranks
	old.buf, to.buf = to.buf, old.buf
	old.ref = at
	return to.Free(k.dev)
}

// Free frees the memory. Further calls do nothing.
func (x *RankState) Free(dev device.Device) error {
	err := x.Ranks.Free()
	if x.buf.Size > 0 {
		err = errors.Join(err, dev.Free(x.buf))
		x.buf = device.Buffer{}
	}
	return err
}

func (x *RankState) params() followParams {
	at := x.ref
	at.ranks, at.damping, at.base, at.limit, at.spread = x.Ranks.Ptr(), x.Damping, x.Base, x.Limit, x.Distributed
	if x.Directed {
		at.directed = 1
	}
	return followParams{kept: at}
}

// clearSums zeroes the sums of the tally. The lists and their lengths remain.
func (x *RankState) clearSums(c *call) { c.fill(x.ref.tally, 0, int(changedAt)/4) }

// readTally waits for the submitted passes and returns the tally.
func (x *RankState) readTally(c *call) (t Tally) {
	got := batch.View[tally](device.Bytes(c.read(x.ref.tally, tallyBytes/8)))[0]
	t = Tally{Dangling: got.idle, Residual: got.waiting, Arcs: got.arcs, Load: got.load, Changed: int(got.changed), Active: int(got.active), Mismatch: -1}
	if got.wrong != ^uint64(0) {
		t.Mismatch = int(got.wrong)
	}
	return t
}

// DegreeOf returns the degree of vertex v according to the recorded edges.
func (k *DynamicKernels) DegreeOf(ctx context.Context, s *device.Stream, x *RankState, v int) (degree uint32, err error) {
	c := k.begin(ctx, s, Graph{})
	c.do(func() error {
		return s.CopyOut(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&degree)), 4), x.ref.degrees+device.Ptr(4*v))
	})
	return degree, c.end()
}

// Init sets the ranks of all vertices of a graph to the same value.
func (k *DynamicKernels) Init(ctx context.Context, s *device.Stream, x *RankState, g Graph) error {
	c, p := k.begin(ctx, s, g), x.params()
	p.rows = g.rows()
	launch(c, k.followBegin, g.Vertices, &p)
	return c.end()
}

// CheckDegrees searches for a vertex with a row that contradicts the recorded edges, or that leads
// to a vertex that does not exist.
func (k *DynamicKernels) CheckDegrees(ctx context.Context, s *device.Stream, x *RankState, g Graph) (Tally, error) {
	c, p := k.begin(ctx, s, g), x.params()
	p.rows = g.rows()
	x.clearSums(c)
	launch(c, k.followAgrees, max(x.Ranks.Len(), g.Arcs), &p)
	t := x.readTally(c)
	return t, c.end()
}

// Sweep makes all vertices push their ranks repeatedly until proceed returns false. into is the
// transposed graph. proceed receives the total rank of vertices without neighbors, and the total
// rank that has not been pushed. At last, Sweep lists the vertices that must still push.
func (k *DynamicKernels) Sweep(ctx context.Context, s *device.Stream, x *RankState, into Graph, proceed func(idle, waiting uint64) (bool, error)) (Tally, error) {
	c, p, n := k.begin(ctx, s, into), x.params(), x.Ranks.Len()
	tiles := (into.Arcs + tileArcs - 1) / tileArcs
	parts := c.alloc(4*(tiles+1), 8*iterationWords)
	r := rankParams{out: into.rows(), into: into.rows(), firsts: parts[0], sums: p.kept.sums, before: parts[1]}
	c.write(r.before, 0, ^uint64(0)) // so that the launch runs
	if into.Arcs > 0 {
		launch(c, k.rankCut, tiles+1, &cutParams{rows: r.into, firsts: r.firsts, tiles: uint64(tiles)})
	}
	x.clearSums(c)
	launch(c, k.followShare, n, &p)
	dangling := x.readTally(c).Dangling
	for more := true; more && c.err == nil; {
		p.kept.spread, r.shares = dangling, p.kept.handed
		c.fill(p.kept.sums, 0, 2*n)
		if into.Arcs > 0 {
			launchBlocks(c, k.rankGather, into.Arcs/(tileArcs/32)+32, registerBlocks, &r)
		}
		x.clearSums(c)
		launch(c, k.followSweep, n, &p)
		t := x.readTally(c)
		x.Distributed, dangling = dangling, t.Dangling
		c.do(func() (err error) {
			more, err = proceed(t.Dangling, t.Residual)
			return err
		})
		if more {
			p.kept.handed, p.kept.next = p.kept.next, p.kept.handed
			x.ref.handed, x.ref.next = p.kept.handed, p.kept.next
		}
	}
	c.fill(x.ref.tally, 0, tallyBytes/4-2) // all except wrong
	launch(c, k.followList, n, &p)
	t := x.readTally(c)
	return t, c.end()
}

// ApplyEdges records edges that were inserted in or deleted from a graph. It activates their ends,
// which push first.
func (k *DynamicKernels) ApplyEdges(ctx context.Context, s *device.Stream, x *RankState, g DynamicGraph, inserted, deleted Edges) (Tally, error) {
	c, p := k.begin(ctx, s, Graph{}), x.params()
	p.graph = g
	x.clearSums(c)
	for _, kernel := range []device.Kernel{k.followTouch, k.followEdges} {
		for i, e := range []Edges{inserted, deleted} {
			if p.batch, p.deleted = e.ref(), uint32(i); e.N > 0 {
				launch(c, kernel, e.N, &p)
			}
		}
	}
	launch(c, k.followSettle, min(x.Ranks.Len(), 2*(inserted.N+deleted.N)), &p)
	t := x.readTally(c)
	return t, c.end()
}

// Push makes the active vertices push. It then computes new ranks for vertices with changed sums,
// or for all vertices if all is set.
func (k *DynamicKernels) Push(ctx context.Context, s *device.Stream, x *RankState, g DynamicGraph, active, load int, all bool) (Tally, error) {
	c, p, n := k.begin(ctx, s, Graph{}), x.params(), x.Ranks.Len()
	p.graph = g
	if all {
		p.all = 1
	}
	x.clearSums(c)
	launch(c, k.followHand, active, &p)
	launch(c, k.followSpread, max(load, active), &p)
	launch(c, k.followRefresh, n, &p)
	c.fill(x.ref.tally+device.Ptr(changedAt), 0, 2)
	t := x.readTally(c)
	return t, c.end()
}
