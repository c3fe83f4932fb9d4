package slab

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/deal"
)

const (
	// bulkGrain is the number of buckets that a core takes at a time when all
	// are gone through.
	bulkGrain = 1 << 12
	// flushPiece is the number of buckets between two looks at the context.
	flushPiece = 1 << 20
)

// ---- rehash -----------------------------------------------------------------

func (e *cpuEngine[K, SK, V, SV]) rehash(ctx context.Context, buckets uint32, units int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g := e.gen.geometry
	g.buckets = buckets
	to, err := e.allocate(g, units)
	if err != nil {
		return err
	}
	if err := e.move(ctx, e.gen, to); err != nil {
		return errors.Join(fmt.Errorf("rehash to %d buckets: %w", buckets, err), e.release(to))
	}
	old := e.gen
	e.gen = to
	return e.release(old)
}

// move copies the live pairs of one generation to an empty other, on all
// cores.
func (e *cpuEngine[K, SK, V, SV]) move(ctx context.Context, from, to *generation) error {
	shares := min(deal.SharesPerCore*e.dev.Properties().Units, int(to.buckets))
	movers := make([]mover[SK, SV], shares+1)
	ref := to.pool.Ref()
	e.dev.Parallel(len(movers), 1, func(i, _ int) {
		m := mover[SK, SV]{src: tableOf[SK, SV](from), dst: tableOf[SK, SV](to), units: cpuAllocOf(to).resident(ref)}
		if i < shares {
			cut := func(i int) uint32 { return uint32(uint64(to.buckets) * uint64(i) / uint64(shares)) }
			m.move(cut(i), cut(i+1))
		} else {
			m.moveExtra()
		}
		movers[i] = m
	})
	n, late := uint64(0), 0
	for i := range movers {
		n += movers[i].moved
		late += len(movers[i].late)
	}
	if late > 0 {
		if err := to.pool.Reserve(ctx, late); err != nil {
			return err
		}
		m := mover[SK, SV]{dst: tableOf[SK, SV](to), units: cpuAllocOf(to).resident(to.pool.Ref())}
		for i := range movers {
			for j := range movers[i].late {
				m.put(movers[i].late[j].bucket, &movers[i].late[j].slot)
			}
		}
		n += m.moved
	}
	*countersOf(to) = counters{live: n, used: n}
	return nil
}

// mover copies pairs to a range of new buckets. Those that find no unit in the
// pool are late: they wait until it has grown. A bucket that can't go on
// without a unit does not go on later, so the pairs of a key stay in order.
type mover[K storedKey, V storedVal] struct {
	src, dst cpuTable[K, V]
	units    resident
	moved    uint64
	late     []latePair[K, V]
}

type latePair[K storedKey, V storedVal] struct {
	bucket uint32
	slot   slot[K, V]
}

// move copies the pairs of new buckets [lo,hi). Buckets are in order of the
// hash in any size of table, so these come from a range of old buckets, whose
// first and last may have pairs for others, too.
func (m *mover[K, V]) move(lo, hi uint32) {
	from, to := uint64(m.src.buckets), uint64(m.dst.buckets)
	first, last := uint64(lo)*from/to, (uint64(hi)*from-1)/to
	for s := range m.src.live(uint32(first), uint32(last)+1) {
		if b := bucketOf(m.dst.geometry, s.key); b >= lo && b < hi {
			m.put(b, s)
		}
	}
}

// moveExtra copies the pairs of the extra bucket.
func (m *mover[K, V]) moveExtra() {
	for s := range m.src.live(m.src.buckets, m.src.buckets+1) {
		m.put(m.dst.buckets, s)
	}
}

func (m *mover[K, V]) put(bucket uint32, s *slot[K, V]) {
	at := m.dst.end(m.dst.base(bucket), &m.units)
	if at == nil {
		m.late = append(m.late, latePair[K, V]{bucket, *s})
		return
	}
	*at = *s
	m.moved++
}

// ---- flush ------------------------------------------------------------------

// flush stops between buckets when ctx ends.
func (e *cpuEngine[K, SK, V, SV]) flush(ctx context.Context) (err error) {
	t, pool := tableOf[SK, SV](e.gen), cpuAllocOf(e.gen)
	var dropped atomic.Uint64
	all := int(t.buckets) + 1
	for first := 0; first < all; first += flushPiece {
		if err = ctx.Err(); err != nil {
			break
		}
		e.dev.Parallel(min(flushPiece, all-first), bulkGrain, func(lo, hi int) {
			n := 0
			for b := lo; b < hi; b++ {
				n += t.flush(t.base(uint32(first+b)), pool)
			}
			dropped.Add(uint64(n))
		})
	}
	countersOf(e.gen).used -= dropped.Load()
	return err
}

// flush moves the live slots of a bucket to its front, gives back the slabs
// that this empties, and returns the number of dead slots dropped.
func (t *cpuTable[K, V]) flush(base unsafe.Pointer, pool *cpuAlloc) (dropped int) {
	to, n := base, 0 // where the next live slot goes
	for from := base; from != nil; from = t.next(from) {
		slots := t.slots(from)
		for i := range slots {
			switch slots[i].key {
			case mark[K](markEmpty):
				continue
			case mark[K](markDead):
				dropped++
				continue
			}
			if n == len(slots) {
				to, n = t.next(to), 0
			}
			if dropped > 0 {
				t.slots(to)[n] = slots[i]
			}
			n++
		}
	}
	if dropped > 0 || linkOf(to).next != noUnit {
		t.cut(to, n, pool)
		linkOf(base).tail = noUnit
	}
	return dropped
}

// cut ends a bucket with the first n slots of a slab: what follows becomes
// ones, and units go back.
func (t *cpuTable[K, V]) cut(slab unsafe.Pointer, n int, pool *cpuAlloc) {
	var s slot[K, V]
	unit := linkOf(slab).next
	ones(slab, n*int(unsafe.Sizeof(s)), linkAt)
	linkOf(slab).next = noUnit
	for unit != noUnit {
		slab := t.unit(unit)
		next := linkOf(slab).next
		ones(slab, 0, slabBytes)
		pool.free(unit)
		unit = next
	}
}

// ones fills bytes [lo,hi) of a slab.
func ones(slab unsafe.Pointer, lo, hi int) {
	words := (*[slabBytes / 4]uint32)(slab)
	for i := lo / 4; i < hi/4; i++ {
		words[i] = ^uint32(0)
	}
}

// ---- reading ----------------------------------------------------------------

// export copies the pairs of whole buckets, or only counts them once the
// columns are full.
func (e *cpuEngine[K, SK, V, SV]) export(_ context.Context, g *generation, lo, hi uint32, keys, vals []byte) (int, error) {
	t := tableOf[SK, SV](g)
	k, v := batch.View[K](keys), batch.View[V](vals)
	n := 0
	var buckets [2]spreadBuckets // what is read, and what is on its way
	t.ask(g.order, lo, hi, &buckets[0])
	for turn := 0; lo < hi; turn ^= 1 {
		lo += uint32(buckets[turn].n)
		t.ask(g.order, lo, hi, &buckets[turn^1])
		for _, bucket := range buckets[turn].at[:buckets[turn].n] {
			name := SK(0) // what turns the stored name into the key
			if bucket == g.buckets {
				name = ^name
			}
			for slab := t.base(bucket); slab != nil; slab = t.next(slab) {
				slots := t.slots(slab)
				for i := range slots {
					key := slots[i].key
					if isMark(key) {
						continue
					}
					if n < len(k) {
						k[n] = K(key ^ name)
						if v != nil {
							v[n] = *(*V)(unsafe.Pointer(&slots[i].val))
						}
					}
					n++
				}
			}
		}
	}
	return n, nil
}

// spreadBuckets are some consecutive buckets of the order in which a table is
// read.
type spreadBuckets struct {
	at [group]uint32
	n  int
}

// ask works out which buckets are number lo and on, up to hi, and prefetches
// their base slabs. The last number is that of the extra bucket.
func (t *cpuTable[K, V]) ask(order core.Spread, lo, hi uint32, to *spreadBuckets) {
	var slabs [group]unsafe.Pointer
	at := order.At(lo)
	for to.n = 0; to.n < len(slabs) && lo < hi; to.n++ {
		if to.at[to.n] = at; lo == t.buckets {
			to.at[to.n] = lo
		}
		slabs[to.n] = t.base(to.at[to.n])
		at = order.Next(at)
		lo++
	}
	prefetch(&slabs[0], to.n)
}

// chains counts in class i the buckets of i slabs, the extra bucket among them.
func (e *cpuEngine[K, SK, V, SV]) chains(context.Context) (classes [chainLengths]uint64, err error) {
	t := tableOf[SK, SV](e.gen)
	var sum [chainLengths]atomic.Uint64
	e.dev.Parallel(int(t.buckets)+1, bulkGrain, func(lo, hi int) {
		var own [chainLengths]uint64
		for b := lo; b < hi; b++ {
			length := 0
			for slab := t.base(uint32(b)); slab != nil && length < chainLengths-1; slab = t.next(slab) {
				length++
			}
			own[length]++
		}
		for i, n := range own {
			sum[i].Add(n)
		}
	})
	for i := range sum {
		classes[i] = sum[i].Load()
	}
	return classes, nil
}
