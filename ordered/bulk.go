package ordered

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// bulkLoad writes n pairs to the leaves of an empty forest. It calls write for each leaf, with the
// index of the leaf's first pair and the number of its pairs. After an error, or if ctx ends, the
// forest is empty.
func (f *forest[K, V]) bulkLoad(ctx context.Context, dev device.Host, n int, write func(l *leaf[K, V], first, n int)) error {
	leaves := (n + f.fill - 1) / f.fill
	if err := f.reserve(leaves); err != nil {
		return err
	}
	ids, err := f.allocLeaves(leaves)
	if err != nil {
		return err
	}
	x := f.spare
	x.layOutArrays(leaves)
	dev.Parallel(leaves, chunkLeaves, func(lo, hi int) {
		if ctx.Err() != nil {
			return
		}
		for i := lo; i < hi; i++ {
			first, end := n/leaves*i+min(i, n%leaves), n/leaves*(i+1)+min(i+1, n%leaves)
			l := f.at(ids[i])
			write(l, first, end-first)
			x.seps[0][i], x.ids[i], x.sizes[i] = l.keys[0], ids[i], uint8(end-first)
			f.created[ids[i]] = f.clock
		}
	})
	if err := ctx.Err(); err != nil {
		f.freeLeaves(ids...)
		return err
	}
	x.complete()
	f.tally = core.Tally{Live: uint64(n), Used: uint64(n)}
	f.spare = nil
	return f.replace(x)
}

// loadAscending loads a batch into an empty forest, provided that all its operations are Puts
// without results and its keys ascend. Otherwise it returns false.
func (e *cpuEngine[K, V]) loadAscending(ctx context.Context, b *batch.Batch) (loaded bool, err error) {
	c := &b.Columns
	if b.Kind != op.Put || c[batch.Kinds].Given() || c[batch.OK].Given() {
		return false, nil
	}
	keys, vals := batch.View[K](c[batch.Keys].Host), batch.View[V](c[batch.Vals].Host)
	return cpu.WhileAscending(ctx, keys, e.order, func(ctx context.Context, wrote func(first int, ascends bool)) error {
		return e.forest().bulkLoad(ctx, e.Device, len(keys), func(l *leaf[K, V], first, n int) {
			wrote(first, l.setAscending(keys[first:first+n], vals[first:first+n], e.order))
		})
	})
}

// setAscending sets the pairs of the leaf, converts their keys to stored form, and reports whether
// the keys ascend.
func (l *leaf[K, V]) setAscending(keys []K, vals []V, order K) bool {
	to, falls, last := l.keys[:len(keys)], 0, keys[0]^order
	for i, k := range keys[1:] {
		k ^= order
		falls |= lessEq(k, last)
		to[i+1], last = k, k
	}
	to[0] = keys[0] ^ order
	copy(l.vals[:], vals)
	for i := len(keys); i < leafPairs; i++ {
		l.keys[i] = last
	}
	return falls == 0
}
