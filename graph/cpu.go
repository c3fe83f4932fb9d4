package graph

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// cpuEngine runs operations on all cores of a host.
type cpuEngine struct {
	*store
	host    device.Host
	sorter  cpu.Sorter[uint64]
	stacks  [classes][]uint32 // free blocks of each class
	retired []retiredBlock
	count   atomic.Uint64 // number of present vertices
}

// rowGrain is the number of rows that a core processes at a time.
const rowGrain = 1 << 9

func (e *cpuEngine) countPresent(context.Context) (uint64, error) { return e.count.Load(), nil }

func (e *cpuEngine) overheadBytes() int {
	n := len(e.retired) * 16
	for _, s := range e.stacks {
		n += 4 * cap(s)
	}
	return n
}

// outcomeUnknown implements engine.
func (e *cpuEngine) outcomeUnknown() bool { return false }

func (e *cpuEngine) close() error { return nil }

// addCount implements engine.
func (e *cpuEngine) addCount(_ *device.Stream, to device.Slice[uint64], n uint64) error {
	core.AddCount(to, n)
	return nil
}

// zero clears a buffer, beginning at byte offset from.
func zero(b device.Buffer, from int) error {
	clear(b.Host[from:])
	return nil
}

// sort sorts arcs stably.
func (e *cpuEngine) sort(ctx context.Context, keys []uint64) ([]cpu.Item[uint64], error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return e.sorter.Sort(ctx, e.host, keys, 0)
}

// vertexOf returns vertex i of a batch, or i if the batch names no vertices.
func vertexOf(vertices []uint32, i int) uint32 {
	if vertices == nil {
		return uint32(i)
	}
	return vertices[i]
}

// degrees implements engine.
func (e *cpuEngine) degrees(_ context.Context, _ *device.Stream, v *view, b *batch.Batch) error {
	vertices, counts := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint32](b.Columns[batch.Counts].Host)
	e.host.Parallel(b.N, grain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			counts[i] = uint32(v.degree(vertexOf(vertices, i)))
		}
	})
	return nil
}

// offsets implements engine.
func (e *cpuEngine) offsets(_ *device.Stream, b *batch.Batch) error {
	counts, offsets := batch.View[uint32](b.Columns[batch.Counts].Host), batch.View[uint64](b.Columns[batch.Offsets].Host)
	at := uint64(0)
	for i, n := range counts {
		offsets[i] = at
		at += uint64(n)
	}
	offsets[len(counts)] = at
	return nil
}

// rows implements engine.
func (e *cpuEngine) rows(ctx context.Context, _ *device.Stream, v *view, b *batch.Batch) error {
	vertices, offsets := batch.View[uint32](b.Columns[batch.Keys].Host), batch.View[uint64](b.Columns[batch.Offsets].Host)
	ids := batch.View[uint32](b.Columns[batch.OutKeys].Host)
	vals := weights{v.weight, b.Columns[batch.Vals].Host}
	e.host.Parallel(b.N, rowGrain, func(lo, hi int) {
		for i := lo; i < hi && ctx.Err() == nil; i++ {
			r, at := v.row(vertexOf(vertices, i)), int(offsets[i])
			n := min(len(r.ids), int(offsets[i+1])-at, len(ids)-at)
			if n <= 0 {
				continue
			}
			copy(ids[at:at+n], r.ids)
			if len(vals.bytes) > 0 {
				vals.copy(at, r.weights, 0, n)
			}
		}
	})
	return ctx.Err()
}

// copyView implements engine.
func (e *cpuEngine) copyView(_ context.Context, v *view) (*view, error) {
	c := *v
	c.records, c.alive = device.Buffer{}, device.Buffer{}
	if v.vertices == 0 {
		return &c, nil
	}
	var err error
	if c.records, err = e.host.Alloc(v.vertices * recordBytes); err != nil {
		return nil, err
	}
	if c.alive, err = e.host.Alloc(bitmapBytes(v.vertices)); err != nil {
		return nil, errors.Join(err, e.host.Free(c.records))
	}
	e.host.Parallel(c.records.Size, grain*recordBytes, func(lo, hi int) { copy(c.records.Host[lo:hi], v.records.Host[lo:hi]) })
	copy(c.alive.Host, v.alive.Host)
	return &c, nil
}

// readAlive implements engine.
func (e *cpuEngine) readAlive(_ context.Context, v *view) ([]uint32, error) {
	return batch.View[uint32](v.alive.Host), nil
}

// reclaim implements engine.
func (e *cpuEngine) reclaim(_ context.Context, held func(retiredBlock) bool) error {
	e.retired = slices.DeleteFunc(e.retired, func(x retiredBlock) bool {
		if held(x) {
			return false
		}
		e.stacks[x.size] = append(e.stacks[x.size], x.block)
		e.releaseRetired(x.size)
		return true
	})
	return nil
}

// clear implements engine.
func (e *cpuEngine) clear(context.Context, *memory) error {
	e.stacks, e.retired = [classes][]uint32{}, nil
	e.count.Store(0)
	return nil
}

// image implements engine.
func (e *cpuEngine) image(_ context.Context, v *view) (*view, [classes][]uint32, []retiredBlock, error) {
	return v, e.stacks, e.retired, nil
}

// compact implements engine.
func (e *cpuEngine) compact(ctx context.Context) (*memory, error) {
	v := e.currentView()
	to, err := newMemory(e.dev, e.shape, e.opts.MaxVertices)
	if err != nil {
		return nil, err
	}
	var needed [classes]int
	for u := range v.vertices {
		needed[v.words(uint32(u))[recordClass]]++
	}
	needed[0] = 0
	var compacted blocks
	from, units := compacted.blockSources(&needed)
	compacted.countAllocated(&needed, units)
	err = to.records.grow(v.vertices * recordBytes)
	if err == nil {
		err = to.alive.grow(bitmapBytes(v.vertices))
	}
	if err == nil {
		err = to.pool.grow(units * e.unit())
	}
	if err != nil {
		return nil, errors.Join(err, to.Free())
	}
	clear(to.records.buf.Host)
	clear(to.alive.buf.Host)
	n := to.view(v.vertices)
	copy(n.records.Host, v.records.Host[:v.vertices*recordBytes])
	copy(n.alive.Host, v.alive.Host[:bitmapBytes(v.vertices)])
	var ranks [classes]int
	for u := range v.vertices {
		words := n.words(uint32(u))
		if class := words[recordClass]; class != 0 {
			words[recordBlock], words[recordBorn] = from[class].fresh(class, ranks[class]), e.epoch
			ranks[class]++
		}
	}
	e.host.Parallel(v.vertices, rowGrain, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			if words := n.words(uint32(u)); words[recordClass] != 0 {
				r, d := v.row(uint32(u)), n.row(uint32(u))
				copy(d.ids, r.ids)
				d.weights.copy(0, r.weights, 0, len(r.ids))
			}
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, to.Free())
	}
	e.stacks, e.retired, e.blocks = [classes][]uint32{}, nil, compacted
	return to, nil
}

// ---- vertices -------------------------------------------------------------------

// insertVertices implements engine.
func (e *cpuEngine) insertVertices(_ context.Context, _ *device.Stream, b *batch.Batch) (uint64, error) {
	ids := batch.View[uint32](b.Columns[batch.Keys].Host)
	records := e.vertices
	for _, u := range ids {
		records = max(records, int(u)+1)
	}
	if err := e.reserve(e.units, records, zero); err != nil {
		return 0, err
	}
	e.vertices = records
	before := e.count.Load()
	alive := batch.View[uint32](e.memory().alive.buf.Host)
	for _, u := range ids {
		e.markLive(alive, u)
	}
	return e.count.Load() - before, nil
}

// markLive marks a vertex as present. Several cores may call it concurrently.
func (e *cpuEngine) markLive(alive []uint32, u uint32) {
	word, bit := &alive[u/32], uint32(1)<<(u%32)
	if atomic.LoadUint32(word)&bit == 0 && atomic.OrUint32(word, bit)&bit == 0 {
		e.count.Add(1)
	}
}

// deleteVertices implements engine.
func (e *cpuEngine) deleteVertices(ctx context.Context, _ *device.Stream, b *batch.Batch) (uint64, error) {
	v := e.currentView()
	toDelete := make([]uint32, (v.vertices+31)/32)
	var n uint64
	for _, u := range batch.View[uint32](b.Columns[batch.Keys].Host) {
		if v.hasVertex(u) && toDelete[u/32]>>(u%32)&1 == 0 {
			toDelete[u/32] |= 1 << (u % 32)
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	w := bits.Len(uint(v.vertices))
	items, err := e.sort(ctx, e.arcsTo(v, toDelete, w))
	if err != nil {
		return 0, err
	}
	c := &cpuChange{cpuEngine: e, items: items, bits: w, vertices: v.vertices, kind: op.Delete}
	if err := c.run(ctx); err != nil {
		return 0, err
	}
	alive := batch.View[uint32](v.alive.Host)
	for i, word := range toDelete {
		alive[i] &^= word
	}
	e.count.Add(-n)
	return n, nil
}

// arcsTo returns the keys of all arcs from and to the vertices in toDelete. w is the number of bits
// of a vertex in a key. In an undirected graph it adds both directions of each edge. In a directed
// graph it scans all rows.
func (e *cpuEngine) arcsTo(v *view, toDelete []uint32, w int) []uint64 {
	isDeleted := func(u uint32) bool { return toDelete[u/32]>>(u%32)&1 != 0 }
	parts := make([][]uint64, (v.vertices+rowGrain-1)/rowGrain)
	e.host.Parallel(v.vertices, rowGrain, func(lo, hi int) {
		var keys []uint64
		for u := uint32(lo); u < uint32(hi); u++ {
			all := isDeleted(u)
			if !all && !e.opts.Directed {
				continue
			}
			for _, x := range v.row(u).ids {
				if all || isDeleted(x) {
					keys = append(keys, uint64(u)<<w|uint64(x))
				}
				if all && !e.opts.Directed {
					keys = append(keys, uint64(x)<<w|uint64(u))
				}
			}
		}
		parts[lo/rowGrain] = keys
	})
	return slices.Concat(parts...)
}
