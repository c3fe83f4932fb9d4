package lsm

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/inorder"
)

// cpuEngine runs on the cores of the host. K and V are the types of keys and values as unsigned
// integers.
//
// A change makes the next generation. It sorts the batch, computes the result for each key, and
// merges the results with the newest levels. Each of these steps uses all cores.
type cpuEngine[K, V uint32 | uint64] struct {
	inorder.Engine[K]
	pool *pool
}

func newCPUEngine[K, V uint32 | uint64](dev device.Host, p *pool, flip uint64) (engine, *core.Leases, error) {
	e := &cpuEngine[K, V]{inorder.Engine[K]{Engine: cpu.Engine{Device: dev}, Flip: K(flip)}, p}
	e.Leases = core.NewLeases(&generation{pool: p})
	return e, e.Leases, nil
}

func (e *cpuEngine[K, V]) current() *generation    { return e.Parts().(*generation) }
func (e *cpuEngine[K, V]) base() int               { return e.pool.base }
func (e *cpuEngine[K, V]) bytes() (used, held int) { return e.pool.bytes(e.current()) }
func (e *cpuEngine[K, V]) levels() []int           { return e.current().sizes() }
func (e *cpuEngine[K, V]) trim() error             { return e.pool.spare.Trim() }
func (e *cpuEngine[K, V]) bound() (maxUsed, counted uint64) {
	return e.current().tally.Used, e.current().tally.Used
}

// Close implements core.Engine.
func (e *cpuEngine[K, V]) Close() error { return e.pool.spare.Close() }

// Clear implements core.Engine.
func (e *cpuEngine[K, V]) Clear(context.Context) error {
	return e.Leases.Replace(&generation{pool: e.pool})
}

// array has the entries of a level or of a run, which is the sorted result of a batch.
type array[K, V uint32 | uint64] struct {
	inorder.Keys[K]
	vals   []V
	deltas []int8
	sums   []uint32
}

// arrayOf returns the first n entries in the memory of a level.
func arrayOf[K, V uint32 | uint64](p *pool, l *level, n int) (a array[K, V]) {
	if n == 0 {
		return a
	}
	a.Keys, a.vals = inorder.Pairs[K, V](p.Layout, l.buf.Host, l.capacity, n)
	a.deltas = batch.View[int8](l.buf.Host[p.deltasAt(l.capacity):][:n])
	a.sums = batch.View[uint32](l.buf.Host[p.sumsAt(l.capacity):][:4*(nodes(n)+1)])
	return a
}

// runOf allocates a run of n entries. A run has no index and no sums.
func runOf[K, V uint32 | uint64](n int) array[K, V] {
	a := array[K, V]{vals: make([]V, n), deltas: make([]int8, n)}
	a.Keys.Keys = make([]K, n)
	return a
}

// part returns entries [from,to), without index and sums.
func (a *array[K, V]) part(from, to int) array[K, V] {
	p := array[K, V]{vals: a.vals[from:to], deltas: a.deltas[from:to]}
	p.Keys.Keys = a.Keys.Keys[from:to]
	return p
}

func (a *array[K, V]) put(i int, key K, val V, delta int8) {
	a.Keys.Keys[i], a.vals[i], a.deltas[i] = key, val, delta
}

// fill writes the index and the sums.
func (a *array[K, V]) fill(dev device.Host) {
	a.Fill(dev)
	n := len(a.deltas)
	dev.Parallel(nodes(n), 1<<12, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			sum := uint32(0)
			for _, d := range a.deltas[i<<inorder.FanBits : min((i+1)<<inorder.FanBits, n)] {
				sum += uint32(d)
			}
			a.sums[i] = sum
		}
	})
	sum := uint32(0)
	for i, partial := range a.sums[:nodes(n)] {
		a.sums[i] = sum
		sum += partial
	}
	a.sums[nodes(n)] = sum
}

// sumBefore returns the sum of the deltas before entry at.
func (a *array[K, V]) sumBefore(at int) uint32 {
	if len(a.sums) == 0 {
		return 0
	}
	sum := a.sums[at>>inorder.FanBits]
	for _, d := range a.deltas[at&^(inorder.Fan-1) : at] {
		sum += uint32(d)
	}
	return sum
}

// hasKey returns 1 if entry at has the given key, and 0 otherwise.
func (a *array[K, V]) hasKey(at int, key K) int {
	if at < len(a.deltas) && a.Keys.Keys[at] == key {
		return 1
	}
	return 0
}

// tree has the levels of a generation, from the newest on.
type tree[K, V uint32 | uint64] []array[K, V]

func treeOf[K, V uint32 | uint64](p core.Parts) (t tree[K, V]) {
	g := p.(*generation)
	for _, l := range g.levels {
		t = append(t, arrayOf[K, V](g.pool, l, l.n))
	}
	return t
}

// unitPairs is the number of pairs in a unit. Extent counts units, and Export copies whole units.
// Unit i begins at rank i*unitPairs.
const unitPairs = 1 << 12

// Extent implements core.Engine.
func (e *cpuEngine[K, V]) Extent(l *core.Lease) (units uint32, rows int) { return extent(l) }

func extent(l *core.Lease) (units uint32, rows int) {
	return uint32((l.Parts.(*generation).tally.Live + unitPairs - 1) / unitPairs), unitPairs
}

// Export implements core.Engine.
func (e *cpuEngine[K, V]) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	from, to := int(lo)*unitPairs, min(int(hi)*unitPairs, int(l.Parts.(*generation).tally.Live))
	if n = to - from; n > out.N {
		return n, nil
	}
	keys, vals := batch.View[K](out.Columns[batch.Keys].Host), batch.View[V](out.Columns[batch.Vals].Host)
	t := treeOf[K, V](l.Parts)
	e.Device.Parallel(n, unitPairs, func(i, end int) {
		w := walk[K, V]{tree: t}
		w.seek(t.selectKey(uint32(from + i)))
		for ; i < end && w.next(); i++ {
			keys[i], vals[i] = w.key^e.Flip, w.val()
		}
	})
	return n, ctx.Err()
}
