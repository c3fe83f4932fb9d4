package btree

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/prim"
	"github.com/weftgo/weft/internal/op"
)

// maxLoad is the maximum number of pairs to load at once. It may exceed maxOps, the limit for other
// changes. Pairs beyond the load are inserted at a tenth of the rate.
const maxLoad = 1 << 28

// isLoad implements engine.
func (e *gpuEngine) isLoad(b *batch.Batch) bool {
	mixed := b.Columns[batch.Kinds].Given()
	return b.Flags&batch.Order != 0 && !mixed && (b.Kind == op.Put || b.Kind == op.PutNew) && e.isEmpty() && b.N >= e.fill
}

// sortsValues reports whether a load of b sorts values with their keys. This requires that no
// results of single operations are needed. Each key then gets its first or its last value.
func (e *gpuEngine) sortsValues(b *batch.Batch) bool {
	c := &b.Columns
	return !c[batch.OK].Given() && !c[batch.Out].Given() && c[batch.Vals].Width == e.Widths.Val
}

// layOutLoad lays out the memory of a load from an address on. The layout takes sixteen bytes per
// pair if keys and values have 32 bits. Steps after the sort reuse the memory of the sort.
func (e *gpuEngine) layOutLoad(b *batch.Batch, at device.Ptr) (m changeMemory) {
	n, c := b.N, prim.Carve(at)
	w := prim.Widths{Key: e.Widths.Key, Val: 4}
	if e.sortsValues(b) {
		w.Val = e.Widths.Val
	}
	m.sort = prim.Sort{Widths: w, N: n, Hi: 8 * w.Key, Signed: e.flip != 0, To: prim.Rows{Keys: c.Alloc(n * w.Key), Vals: c.Alloc(n * w.Val)}}
	sorting := c
	m.sorting = sorting.Alloc(m.sort.ScratchBytes())
	m.keys = c.Alloc(n * w.Key)
	m.group = prim.Group{N: n, Key: w.Key, Keys: m.sort.To.Keys, Offsets: c.Alloc(4 * (n + 1)), Count: c.Alloc(4), Distinct: m.keys}
	if !e.sortsValues(b) {
		m.vals, m.states = c.Alloc(n*e.Widths.Val), c.Alloc(n)
	}
	m.scratch = c.Alloc(m.group.ScratchBytes())
	m.end = device.Ptr(max(c, sorting))
	return m
}

// load submits the kernels that make a tree of a batch of insertions. The tree replaces an empty
// one.
func (e *gpuEngine) load(s *device.Stream, b *batch.Batch, at int, submit func(*device.Stream, func() error) error) error {
	if err := e.growBuffer(&e.work, int(e.layOutLoad(b, device.Ptr(at)).end)); err != nil {
		return err
	}
	m := e.layOutLoad(b, e.work.Ptr+device.Ptr(at))
	to, err := e.makeTree(nodesFor(b.N, e.fill))
	if err != nil {
		return err
	}
	if err = submit(s, func() error { return e.launchLoad(s, to, b, &m) }); err != nil {
		return errors.Join(err, s.Sync(context.Background()), to.Free())
	}
	return e.publish(to, b.N)
}

func (e *gpuEngine) launchLoad(s *device.Stream, to *tree, b *batch.Batch, m *changeMemory) error {
	c := &b.Columns
	p := bulkParams{keys: m.keys, vals: m.vals, count: m.group.Count}
	m.sort.From.Keys = c[batch.Keys].Ptr
	if e.sortsValues(b) {
		m.sort.From.Vals = c[batch.Vals].Ptr
		p.vals, p.starts = m.sort.To.Vals, m.group.Offsets
		if b.Kind == op.Put {
			p.last = 1
		}
	}
	if err := e.sortKeys(s, m); err != nil {
		return err
	}
	if !e.sortsValues(b) {
		if err := e.resolveKeys(s, b, m, 0); err != nil {
			return err
		}
	}
	return e.layOutTree(s, to, p, b.N)
}

// publish makes a new tree with up to the given number of pairs the current generation.
func (e *gpuEngine) publish(to *tree, pairs int) error {
	e.cached, e.stale = control{}, true
	to.maxUsed = nodesFor(pairs, e.fill)
	return e.leases.Replace(to)
}

// layOutTree submits the kernel that writes a tree of at most n pairs.
func (e *gpuEngine) layOutTree(s *device.Stream, to *tree, p bulkParams, n int) error {
	p.to, p.fill = e.refOf(to), uint64(e.fill)
	return device.Launch(s, e.bulk, gpu.Wave(e.Dev, bulkLanes*nodesFor(n, e.fill)), gpu.Block, &p)
}

// bulkLanes is the number of lanes that write a node (btree.cu).
const bulkLanes = 16

// maxWork returns the maximum size of the work memory that is kept after a load. It is twice the
// size that the largest other change needs.
func (e *gpuEngine) maxWork() int { return 2 * int(e.layOut(maxOps, 0).end) }

// trimWork frees the work memory if it has more than maxBytes bytes. All changes must be done.
func (e *gpuEngine) trimWork(maxBytes int) error {
	if e.work.Size <= maxBytes {
		return nil
	}
	old := e.work
	e.work = device.Buffer{}
	return e.Dev.Free(old)
}
