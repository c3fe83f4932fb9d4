package btree

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
)

// order is a list of a GPU tree's leaves in key order. It has the first key of each leaf, and the
// number of pairs before that leaf. It is valid until the tree changes.
type order struct {
	buf   device.Buffer
	nodes int // capacity in nodes of the tree; 0 if not built
}

func (o *order) free(dev device.Device) error {
	if o.buf.Size == 0 {
		return nil
	}
	return dev.Free(o.buf)
}

// layOut lays out the arrays of the list from an address on. key is the size of a key in bytes.
func (o *order) layOut(at device.Ptr, nodes, key int) (r orderRef, end device.Ptr) {
	c := prim.Carve(at)
	r = orderRef{firsts: c.Alloc(nodes * key), ids: c.Alloc(4 * nodes), before: c.Alloc(8 * (nodes + 1)), count: c.Alloc(4)}
	return r, device.Ptr(c)
}

func (t *tree) keyBytes() int { return t.slot / 2 }

// orderRef returns the parameter that gives kernels the list of leaves as of the given time. Time 0
// is the present.
func (t *tree) orderRef(time uint64) orderRef {
	o := t.orderAt(time)
	r, _ := o.layOut(o.buf.Ptr, o.nodes, t.keyBytes())
	return r
}

// listLeaves submits kernels that list the leaves of a tree in key order, as of the given time,
// unless such a list exists. They run after earlier changes and before later changes.
func (e *gpuEngine) listLeaves(s *device.Stream, t *tree, time uint64) error {
	o := t.orderAt(time)
	if o.nodes != 0 {
		return nil
	}
	n, key := t.maxUsed, t.keyBytes()
	_, size := o.layOut(0, n, key)
	if err := e.growBuffer(&o.buf, int(size)); err != nil {
		return err
	}
	r, _ := o.layOut(o.buf.Ptr, n, key)
	c := prim.Carve(0)
	sort := prim.Sort{Widths: prim.Widths{Key: key, Val: 4}, N: n, Hi: 8 * key, To: prim.Rows{Keys: r.firsts, Vals: r.ids}}
	scan := prim.Scan{N: n, Width: 8, Offsets: r.before}
	firsts, ids, sizes := c.Alloc(n*key), c.Alloc(4*n), c.Alloc(4*n)
	scratch := c.Alloc(max(sort.ScratchBytes(), scan.ScratchBytes()))
	if err := e.growBuffer(&e.sorts, int(c)); err != nil {
		return err
	}
	at := e.sorts.Ptr
	sort.From, scan.Counts = prim.Rows{Keys: at + firsts, Vals: at + ids}, at+sizes
	work := device.Buffer{Ptr: at + scratch, Size: int(c) - int(scratch)}
	if err := s.Fill(r.count, 0, 1); err != nil {
		return err
	}
	if err := s.Fill(at+firsts, ^uint32(0), int(sizes-firsts)/4); err != nil {
		return err
	}
	collect := collectParams{tree: e.refOf(t), firsts: at + firsts, ids: at + ids, count: r.count}
	if err := e.launchCollect(s, t, &collect, n, time); err != nil {
		return err
	}
	if err := e.prims.Sort(s, &sort, work); err != nil {
		return err
	}
	p := sizesParams{tree: collect.tree, ids: r.ids, count: r.count, sizes: at + sizes, n: uint64(n)}
	if err := device.Launch(s, e.sizes, gpu.Wave(e.Dev, n), gpu.Block, &p); err != nil {
		return err
	}
	if err := e.prims.Scan(s, &scan, work); err != nil {
		return err
	}
	o.nodes = n
	return nil
}

// launchCollect launches the kernel that collects the leaves that have pairs at the given time.
func (e *gpuEngine) launchCollect(s *device.Stream, t *tree, p *collectParams, n int, time uint64) error {
	if time == 0 {
		return device.Launch(s, e.collect, gpu.Wave(e.Dev, n), gpu.Block, p)
	}
	params := thenCollectParams{collect: *p, past: t.readRef(), time: time}
	return device.Launch(s, e.thenCollect, gpu.Wave(e.Dev, n), gpu.Block, &params)
}
