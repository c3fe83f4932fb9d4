package join

import (
	"context"
	"errors"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// build makes the table of a source, which has at most maxRows rows.
func build[K word](ctx context.Context, host device.Host, src *source[K]) (*table[K], error) {
	t := &table[K]{host: host}
	if err := t.build(ctx, src); err != nil {
		return nil, errors.Join(err, t.free())
	}
	return t, nil
}

func (t *table[K]) build(ctx context.Context, src *source[K]) (err error) {
	if err := t.chooseBuckets(ctx, src); err != nil {
		return err
	}
	b := builder[K]{table: t}
	defer func() { err = errors.Join(err, b.begin.Free()) }()
	if err := b.allocate(src.n); err != nil {
		return err
	}
	if err := t.distribute(ctx, src, 0, src.n, t.parts, &b.partitioned); err != nil {
		return err
	}
	t.nKeyed = int(b.bounds[t.parts.n])
	if n := src.n - t.nKeyed; src.plan.nulls && n > 0 {
		if t.nulls = (span{uint32(t.nKeyed), uint32(n)}); n == 1 {
			t.nulls.at = t.rows.Host()[t.nKeyed]
		}
	}
	if err := b.sort(ctx); err != nil {
		return err
	}
	return b.finish(ctx)
}

// chooseBuckets chooses between direct and hashed buckets, and sets their number and parts.
func (t *table[K]) chooseBuckets(ctx context.Context, src *source[K]) error {
	low, keyRange, err := t.extent(ctx, src)
	if err != nil {
		return err
	}
	if keyRange <= maxDirectRange(src.n) {
		t.direct, t.low, t.buckets = true, low, uint32(keyRange)+1
	} else {
		log := uint(min(bits.Len(uint(src.n-1)), maxLogBuckets))
		t.seed, t.shift, t.buckets = seed(), uint(8*unsafe.Sizeof(low))-log, 1<<log
	}
	t.parts = partsOf(t.buckets, partBuckets)
	return nil
}

const maxLogBuckets = 31

// maxDirectRange returns the largest range of the keys of n rows for which each key in the range
// has its own bucket. The buckets then take no more memory than keys of 64 bits would.
func maxDirectRange(n int) uint64 { return min(2*uint64(n)+1<<10, 1<<maxLogBuckets-2) }

// extent returns the smallest key and its distance to the largest. If the first rows already have
// too large a distance, it reads no other rows.
func (t *table[K]) extent(ctx context.Context, src *source[K]) (low K, keyRange uint64, err error) {
	// exclusive or with flip maps signed numbers to unsigned ones of the same order
	flip := K(0)
	if src.plan.signed() {
		flip = ^K(0)>>1 + 1
	}
	minMax := func(from, to int) (a, b K) {
		a, b = ^K(0), 0
		block := new(block[K])
		for ; from < to; from += blockRows {
			words, null := src.read(block, from, min(from+blockRows, to))
			for i, k := range words {
				if null == nil || !null[i] {
					a, b = min(a, k^flip), max(b, k^flip)
				}
			}
		}
		return a, b
	}
	lo, hi := minMax(0, min(src.n, blockRows))
	if lo > hi || uint64(hi-lo) <= maxDirectRange(src.n) {
		var mu sync.Mutex
		t.host.Parallel(src.n, 1<<16, func(from, to int) {
			if ctx.Err() != nil {
				return
			}
			a, b := minMax(from, to)
			mu.Lock()
			defer mu.Unlock()
			lo, hi = min(lo, a), max(hi, b)
		})
	}
	if lo > hi { // no row has a key
		return 0, 0, ctx.Err()
	}
	return lo ^ flip, uint64(hi - lo), ctx.Err()
}

// builder builds a table.
type builder[K word] struct {
	*table[K]
	partitioned[K] // keys and rows of the table
	// by group: its first row. Each part has space for one group per row.
	begin  device.Slice[uint32]
	groups []uint32  // by part: its number of groups
	temps  sync.Pool // of type *temp[K]
}

// temp holds a part while it is sorted.
type temp[K word] struct {
	keys []K
	rows []uint32
}

func (b *builder[K]) allocate(n int) (err error) {
	t := b.table
	if t.dir, err = device.Make[uint32](t.host, int(t.buckets)+2); err != nil {
		return err
	}
	if t.rows, err = device.Make[uint32](t.host, n+1); err != nil {
		return err
	}
	if t.keys, err = device.Make[K](t.host, n+2); err != nil {
		return err
	}
	t.rows.Host()[n] = 0
	b.partitioned.keys, b.partitioned.rows = t.keys.Host(), t.rows.Host()
	if t.direct {
		return nil
	}
	b.begin, err = device.Make[uint32](t.host, n)
	return err
}

// sort sorts the rows of each part by bucket and key, and fills in dir.
func (b *builder[K]) sort(ctx context.Context) error {
	b.groups = make([]uint32, b.parts.n)
	b.temps.New = func() any { return new(temp[K]) }
	b.host.Parallel(b.parts.n, 1, func(part, _ int) {
		if ctx.Err() != nil {
			return
		}
		tmp := b.temps.Get().(*temp[K])
		defer b.temps.Put(tmp)
		b.sortPart(ctx, part, tmp)
	})
	return ctx.Err()
}

func (b *builder[K]) sortPart(ctx context.Context, part int, tmp *temp[K]) {
	lo, hi := b.bounds[part], b.bounds[part+1]
	first := uint32(part) << b.parts.shift
	last := min(uint64(first)+1<<b.parts.shift, uint64(b.buckets)+1)
	dir := b.dir.Host()[first:last]
	if !b.sortBuckets(ctx, first, dir, b.partitioned.keys[lo:hi], b.partitioned.rows[lo:hi], tmp) {
		return
	}
	if b.direct {
		b.groups[part] = startsOf(dir, lo)
		copy(b.partitioned.rows[lo:hi], tmp.rows)
		return
	}
	b.groups[part] = b.writeGroups(dir, lo, tmp)
}

// checkInterval is the number of rows of a part between checks of the context. If most rows have
// the same key, one part holds most rows.
const checkInterval = 1 << 20

// sortBuckets copies a part to tmp, sorted by bucket, and sets dir to the end of each bucket there.
// It returns false if the context ended.
func (b *builder[K]) sortBuckets(ctx context.Context, first uint32, dir []uint32, keys []K, rows []uint32, tmp *temp[K]) bool {
	if cap(tmp.keys) < len(keys) {
		tmp.keys, tmp.rows = make([]K, len(keys)), make([]uint32, len(keys))
	}
	tmp.keys, tmp.rows = tmp.keys[:len(keys)], tmp.rows[:len(keys)]
	var buckets [blockRows]uint32
	clear(dir)
	for at := 0; at < len(keys); at += blockRows {
		if at%checkInterval == 0 && ctx.Err() != nil {
			return false
		}
		block := keys[at:min(at+blockRows, len(keys))]
		b.bucketsOf(block, buckets[:])
		for _, x := range buckets[:len(block)] {
			dir[x-first]++
		}
	}
	sum := uint32(0)
	for i, n := range dir {
		dir[i] = sum
		sum += n
	}
	for at := 0; at < len(keys); at += blockRows {
		if at%checkInterval == 0 && ctx.Err() != nil {
			return false
		}
		block := keys[at:min(at+blockRows, len(keys))]
		b.bucketsOf(block, buckets[:])
		for i, x := range buckets[:len(block)] {
			to := dir[x-first]
			dir[x-first] = to + 1
			tmp.keys[to] = block[i]
			tmp.rows[to] = rows[at+i]
		}
	}
	return true
}

// startsOf replaces the ends of buckets by their starts, for a part that begins at lo. It returns
// the number of buckets with rows.
func startsOf(dir []uint32, lo uint32) (nonEmpty uint32) {
	start := uint32(0)
	for i, end := range dir {
		if dir[i] = lo + start; end > start {
			nonEmpty++
		}
		start = end
	}
	return nonEmpty
}

// writeGroups writes the groups of a part that begins at lo, whose rows are in tmp, sorted by
// bucket. It sets dir to the first group of each bucket, and returns the number of groups.
func (b *builder[K]) writeGroups(dir []uint32, lo uint32, tmp *temp[K]) uint32 {
	keys, rows, begin := b.partitioned.keys[lo:], b.partitioned.rows[lo:], b.begin.Host()[lo:]
	start, groups := uint32(0), uint32(0)
	for i, end := range dir {
		dir[i] = lo + groups
		switch end - start {
		case 0:
		case 1:
			keys[groups], rows[start], begin[groups] = tmp.keys[start], tmp.rows[start], lo+start
			groups++
		default:
			groupKeys, groupRows := tmp.keys[start:end], tmp.rows[start:end]
			for at := start; at < end; groups++ {
				keys[groups], begin[groups] = groupKeys[0], lo+at
				groupKeys, groupRows, at = moveFirstKey(groupKeys, groupRows, rows, at)
			}
		}
		start = end
	}
	return groups
}

// moveFirstKey moves the rows with the first key to rows[at:]. It returns the other keys and rows
// in their order, and the end of the moved rows.
func moveFirstKey[K word](keys []K, rowIDs []uint32, rows []uint32, at uint32) ([]K, []uint32, uint32) {
	first, left := keys[0], 0
	for i, k := range keys {
		if k == first {
			rows[at] = rowIDs[i]
			at++
		} else {
			keys[left], rowIDs[left] = k, rowIDs[i]
			left++
		}
	}
	return keys[:left], rowIDs[:left], at
}

// finish removes the gaps between parts, and frees the memory that the table does not need.
func (b *builder[K]) finish(ctx context.Context) error {
	t := b.table
	bases := make([]uint32, t.parts.n) // by part: its first group
	for part, n := range b.groups {
		bases[part] = uint32(t.groups)
		t.groups += int(n)
	}
	dir := t.dir.Host()
	if t.direct {
		dir[t.buckets], dir[t.buckets+1] = uint32(t.nKeyed), uint32(t.nKeyed)
		return t.keys.Free()
	}
	dir[t.buckets], dir[t.buckets+1] = uint32(t.groups), uint32(t.groups)
	if t.groups < t.nKeyed {
		if err := b.compact(ctx, bases); err != nil {
			return err
		}
	}
	if keys := t.keys.Host(); t.groups > 0 {
		keys[t.groups], keys[t.groups+1] = keys[0], keys[0]
	}
	return nil
}

// compact removes the gaps between the groups of different parts. Two groups without rows follow
// the last group.
func (b *builder[K]) compact(ctx context.Context, bases []uint32) (err error) {
	t, old := b.table, b.table.keys
	if t.keys, err = device.Make[K](t.host, t.groups+2); err != nil {
		t.keys = old
		return err
	}
	defer func() { err = errors.Join(err, old.Free()) }()
	if t.begin, err = device.Make[uint32](t.host, t.groups+2); err != nil {
		return err
	}
	t.host.Parallel(t.parts.n, 1, func(part, _ int) {
		if ctx.Err() != nil {
			return
		}
		lo, base, n := b.bounds[part], bases[part], b.groups[part]
		copy(t.keys.Host()[base:], old.Host()[lo:lo+n])
		copy(t.begin.Host()[base:], b.begin.Host()[lo:lo+n])
		first := uint64(part) << t.parts.shift
		dir := t.dir.Host()[first:min(first+1<<t.parts.shift, uint64(t.buckets))]
		for i := range dir {
			dir[i] -= lo - base
		}
	})
	begin := t.begin.Host()
	begin[t.groups], begin[t.groups+1] = uint32(t.nKeyed), uint32(t.nKeyed)
	return ctx.Err()
}
