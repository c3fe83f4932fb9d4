package graph

import (
	"context"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
)

// edgesAtOnce is the number of edges that a core looks up at a time. The core first prefetches all
// their records, and then their rows.
const edgesAtOnce = 16

type finder struct {
	*view
	from, to []uint32
	ok       []bool  // may be nil
	vals     weights // may be empty
}

// find implements engine.
func (e *cpuEngine) find(_ context.Context, _ *device.Stream, v *view, b *batch.Batch, _ device.Ptr) (uint64, error) {
	f := finder{
		view: v, from: batch.View[uint32](b.Columns[batch.Keys].Host), to: batch.View[uint32](b.Columns[batch.Keys2].Host),
		ok: batch.View[bool](b.Columns[batch.OK].Host), vals: weights{v.weight, b.Columns[batch.Vals].Host},
	}
	var hits atomic.Uint64
	e.host.Parallel(b.N, 1<<12, func(lo, hi int) {
		n := uint64(0)
		for ; lo < hi; lo += edgesAtOnce {
			end := min(lo+edgesAtOnce, hi)
			f.prefetch(lo, end)
			for i := lo; i < end; i++ {
				if f.findEdge(i) {
					n++
				}
			}
		}
		hits.Add(n)
	})
	return hits.Load(), nil
}

// prefetch prefetches the records for edges lo to hi-1. For rows in blocks it also prefetches the
// two cache lines at which a search begins.
func (f *finder) prefetch(lo, hi int) {
	var records [edgesAtOnce]uint32
	n := 0
	for _, u := range f.from[lo:hi] {
		if int(u) < f.vertices {
			records[n] = u
			n++
		}
	}
	if n == 0 {
		return
	}
	const shift = 5 // log2 of recordBytes
	cpu.Prefetch(unsafe.Pointer(unsafe.SliceData(f.records.Host)), records[:n], shift)
	var rows [edgesAtOnce]unsafe.Pointer
	blocks := 0
	for _, u := range records[:n] {
		words := f.words(u)
		if words[recordClass] == 0 {
			continue
		}
		at := int(words[recordBlock]) * f.unit()
		const pair = 32 // entries of two cache lines
		if degree := int(words[recordDegree]); degree > pair {
			at += (degree/2 - pair/2) * 4
		}
		rows[blocks] = unsafe.Pointer(&f.pool.Host[at])
		blocks++
	}
	cpu.PrefetchPairs(rows[:blocks])
}

// findEdge looks up edge i and writes its results.
func (f *finder) findEdge(i int) bool {
	r := f.row(f.from[i])
	at := upperBound(r.ids, f.to[i]) - 1 // the newest parallel edge
	found := at >= 0 && r.ids[at] == f.to[i]
	if f.ok != nil {
		f.ok[i] = found
	}
	if len(f.vals.bytes) > 0 {
		if found {
			f.vals.set(i, r.weights, at)
		} else {
			clear(f.vals.bytes[i*f.weight : (i+1)*f.weight])
		}
	}
	return found
}

// upperBound returns the number of elements of ascending ids that are at most v. No branch depends
// on a comparison: the position of an edge is unpredictable, and a mispredicted branch would cost
// more than reading the row of a usual vertex.
func upperBound(ids []uint32, v uint32) (at int) {
	for n := len(ids); n > 0; {
		half := (n + 1) / 2
		_, larger := bits.Sub32(v, ids[at+half-1], 0)
		at += half & (int(larger) - 1)
		n -= half
	}
	return at
}
