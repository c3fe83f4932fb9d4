package linear

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/deal"
)

// Tuning of the CPU engine.
const (
	// group is how many operations are worked on while the memory of as many
	// more is on its way. A core tracks 10 to 16 misses at once. Lookups of
	// 10^7 keys at load .5 took 28.7, 29.6, 32.4 and 34.0 ns with groups of 8,
	// 16, 32 and 64; misses 41.1, 40.8, 42.3, 44.1.
	group = 16

	// grain is the number of lookups a core takes at a time, a few hundred
	// microseconds' work.
	grain = 1 << 13

	// pieceOps is the number of changes that are dealt out to the cores at a
	// time; their keys and the deal stay in the second-level cache. Contexts
	// are looked at between pieces.
	pieceOps = 1 << 17

	// aloneOps is the number of changes below which dealing them out costs
	// more than it gains.
	aloneOps = 1 << 11
)

// cpuEngine runs on the cores of the host. K and V are the types of a batch's
// columns as unsigned integers, SK and SV those of a slot.
//
// Lookups read without locks. Changes need no atomic operations either: the
// lines are dealt out to the cores, and each core runs, in batch order, the
// operations whose path begins in its part. An operation whose path leaves the
// part is put off and run alone at the end. All operations on one key have one
// path, so they share a core and a fate, and the batch's order is kept.
type cpuEngine[K, SK storedKey, V, SV storedVal] struct {
	dev device.Host
	gen *generation

	deal deal.Dealer
}

func newCPUEngine[K storedKey, V storedVal, SK storedKey, SV storedVal](dev device.Host, g geometry) (engine, error) {
	e := &cpuEngine[K, SK, V, SV]{dev: dev}
	gen, err := e.allocate(context.Background(), g)
	if err != nil {
		return nil, err
	}
	e.gen = gen
	return e, nil
}

// allocate makes an empty generation.
func (e *cpuEngine[K, SK, V, SV]) allocate(ctx context.Context, g geometry) (*generation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	buf, err := e.dev.Alloc(g.bytes())
	if err != nil {
		return nil, fmt.Errorf("linear: table of %d bytes: %w", g.bytes(), err)
	}
	gen := &generation{geometry: g, buf: buf, refs: 1, order: core.SpreadOver(g.lines)}
	if err := e.wipe(ctx, gen); err != nil {
		return nil, errors.Join(err, e.dev.Free(buf))
	}
	return gen, nil
}

// wipe empties a generation, unless ctx ends.
func (e *cpuEngine[K, SK, V, SV]) wipe(ctx context.Context, g *generation) error {
	words := batch.View[uint64](g.buf.Host)
	e.dev.Parallel(len(words), 1<<17, func(lo, hi int) {
		if ctx.Err() != nil {
			return
		}
		part := words[lo:hi]
		for i := range part {
			part[i] = ^uint64(0)
		}
	})
	*countersOf(g) = counters{}
	return ctx.Err()
}

func countersOf(g *generation) *counters {
	return (*counters)(unsafe.Pointer(&g.buf.Host[(int(g.lines)+extraLines-1)*lineBytes]))
}

func (e *cpuEngine[K, SK, V, SV]) geometry() geometry { return e.gen.geometry }

func (e *cpuEngine[K, SK, V, SV]) counts(context.Context) (counters, error) {
	return *countersOf(e.gen), nil
}

func (e *cpuEngine[K, SK, V, SV]) settle(context.Context) error { return nil }

// lost is nothing: changeOn reports what found no room.
func (e *cpuEngine[K, SK, V, SV]) lost(context.Context) (int, error) { return 0, nil }

func (e *cpuEngine[K, SK, V, SV]) clear(context.Context) error {
	return e.wipe(context.Background(), e.gen)
}

func (e *cpuEngine[K, SK, V, SV]) hold() *generation {
	e.gen.refs++
	return e.gen
}

func (e *cpuEngine[K, SK, V, SV]) revert(to *generation) error {
	var from *generation
	from, e.gen = e.gen, to
	return e.release(from)
}

func (e *cpuEngine[K, SK, V, SV]) release(g *generation) error {
	if g.refs--; g.refs > 0 {
		return nil
	}
	return e.dev.Free(g.buf)
}

func (e *cpuEngine[K, SK, V, SV]) close() error { return e.release(e.gen) }

// ---- lookups ----------------------------------------------------------------

func (e *cpuEngine[K, SK, V, SV]) get(ctx context.Context, b *batch.Batch) (int, error) {
	keys, vals, found := batch.View[K](b.Keys.Host), batch.View[V](b.Vals.Host), batch.View[bool](b.OK.Host)
	t := tableOf[SK, SV](e.gen)
	var hits atomic.Int64
	// A context is looked at every few milliseconds of work.
	const piece = 1 << 20
	for lo := 0; lo < b.N; lo += piece {
		if err := ctx.Err(); err != nil {
			return int(hits.Load()), err
		}
		n := min(piece, b.N-lo)
		e.dev.Parallel(n, grain, func(from, to int) {
			from, to = from+lo, to+lo
			var v []V
			var f []bool
			if vals != nil {
				v = vals[from:to]
			}
			if found != nil {
				f = found[from:to]
			}
			hits.Add(int64(getRange(t, keys[from:to], v, f)))
		})
	}
	return int(hits.Load()), nil
}

func (e *cpuEngine[K, SK, V, SV]) present(ctx context.Context, _ *device.Stream, b *batch.Batch) (int, error) {
	return e.get(ctx, &batch.Batch{N: b.N, Keys: b.Keys})
}

// getOn and changeOn: the memory of a CPU device is host memory.

func (e *cpuEngine[K, SK, V, SV]) getOn(s *device.Stream, b *batch.Batch) error {
	if err := s.Sync(context.Background()); err != nil { // it may be closed
		return err
	}
	_, err := e.get(context.Background(), b)
	return err
}

// getRange looks up keys on one core. While a group of them is looked at, the
// cache lines that the paths of the next group begin with are on their way.
// Searches that go beyond theirs are put off to the end of the group.
func getRange[K, SK storedKey, V, SV storedVal](t cpuTable[SK, SV], keys []K, vals []V, found []bool) (hits int) {
	var homes [2][group]uint32
	ask(t, keys[:min(group, len(keys))], &homes[0])
	for lo, turn := 0, 0; lo < len(keys); lo, turn = lo+group, turn^1 {
		hi := min(lo+group, len(keys))
		ask(t, keys[hi:min(hi+group, len(keys))], &homes[turn^1])

		var far, next [group]uint32
		late := 0
		for i, k := range keys[lo:hi] {
			h := homes[turn][i]
			s, over := t.findNear(stored(SK(k)), h)
			if !over {
				far[late], next[late] = uint32(i), t.next(h, near)
				late++
				continue
			}
			hits += answer(s, lo+i, vals, found)
		}
		t.prefetch(next[:late])
		for _, i := range far[:late] {
			s := t.findFar(stored(SK(keys[lo+int(i)])), homes[turn][i])
			hits += answer(s, lo+int(i), vals, found)
		}
	}
	return hits
}

// ask works out where the paths of a group begin, and prefetches it.
func ask[K, SK storedKey, SV storedVal](t cpuTable[SK, SV], keys []K, homes *[group]uint32) {
	for i, k := range keys {
		homes[i] = home(t.geometry, SK(k))
	}
	t.prefetch(homes[:len(keys)])
}

// answer writes what was found for key i, and counts it.
func answer[SK storedKey, V, SV storedVal](s *slot[SK, SV], i int, vals []V, found []bool) (hits int) {
	var v V
	if s != nil {
		v, hits = *(*V)(unsafe.Pointer(&s.val)), 1
	}
	if vals != nil {
		vals[i] = v
	}
	if found != nil {
		found[i] = s != nil
	}
	return hits
}

// ---- changes ----------------------------------------------------------------

func (e *cpuEngine[K, SK, V, SV]) change(ctx context.Context, b *batch.Batch) (done int, failed []uint32, err error) {
	w := e.widths()
	for lo := 0; lo < b.N; lo += pieceOps {
		if err := ctx.Err(); err != nil {
			return lo, failed, err
		}
		hi := min(lo+pieceOps, b.N)
		c := newChanger[K, SK, V, SV](e.gen, b.Sub(lo, hi, w))
		if hi-lo < aloneOps || e.dev.Properties().Units == 1 {
			c.run(e.deal.All(hi - lo))
			c.count()
		} else {
			e.changeTogether(c)
		}
		for _, i := range c.failed {
			failed = append(failed, uint32(lo)+i)
		}
	}
	return b.N, failed, nil
}

// changeTogether runs the changes of a piece on all cores.
func (e *cpuEngine[K, SK, V, SV]) changeTogether(c *changer[K, SK, V, SV]) {
	parts := e.deal.Out(e.dev, c.table.lines, len(c.keys), func(lo, hi int, lines []uint32) {
		for i, k := range c.keys[lo:hi] {
			lines[i] = home(c.table.geometry, SK(k)) / lineSectors
		}
	})
	late, failed := make([][]uint32, len(parts)), make([][]uint32, len(parts))
	var fresh, live atomic.Int64
	e.dev.Parallel(len(parts), 1, func(from, _ int) {
		own := *c
		own.part = parts[from]
		own.fresh, own.live = 0, 0
		own.run(own.part.Ops)
		late[from], failed[from] = own.late, own.failed
		fresh.Add(own.fresh)
		live.Add(own.live)
	})
	c.fresh, c.live = fresh.Load(), live.Load()
	c.part = deal.Share{Hi: c.table.lines + 1}
	c.failed = slices.Concat(failed...)
	for _, ops := range late {
		c.run(ops)
	}
	slices.Sort(c.failed)
	c.count()
}

func (e *cpuEngine[K, SK, V, SV]) changeOn(s *device.Stream, b *batch.Batch) (failed []uint32, err error) {
	if err := s.Sync(context.Background()); err != nil {
		return nil, err
	}
	_, failed, err = e.change(context.Background(), b)
	return failed, err
}

func (e *cpuEngine[K, SK, V, SV]) widths() batch.Widths {
	var k K
	var v V
	var s slot[SK, SV]
	return batch.Widths{Key: int(unsafe.Sizeof(k)), Val: int(unsafe.Sizeof(v)), Slot: int(unsafe.Sizeof(s))}
}

// ---- whole tables -----------------------------------------------------------

func (e *cpuEngine[K, SK, V, SV]) export(_ context.Context, g *generation, lo, hi uint32, keys, vals []byte) (int, error) {
	t := tableOf[SK, SV](g)
	k, v := batch.View[K](keys), batch.View[V](vals)
	n := 0
	var lines [2]spreadLines // what is read, and what is on its way
	t.ask(g.order, lo, hi, &lines[0])
	for turn := 0; lo < hi; turn ^= 1 {
		lo += uint32(lines[turn].n)
		t.ask(g.order, lo, hi, &lines[turn^1])
		for _, line := range lines[turn].at[:lines[turn].n] {
			name := SK(0) // what turns the stored name into the key
			if line == g.lines {
				name = ^name
			}
			slots := t.line(line)
			for i := range slots {
				key := slots[i].key
				if isMark(key) {
					continue
				}
				k[n] = K(key ^ name)
				if v != nil {
					v[n] = *(*V)(unsafe.Pointer(&slots[i].val))
				}
				n++
			}
		}
	}
	return n, nil
}

// spreadLines are some consecutive lines of the order in which a table is read.
type spreadLines struct {
	at [group]uint32
	n  int
}

// ask works out which lines are number lo and on, up to hi, and prefetches them.
// The last number is that of the extra line.
func (t *cpuTable[K, V]) ask(order core.Spread, lo, hi uint32, to *spreadLines) {
	var sectors [2 * group]uint32 // a line is two lines of a cache
	at := order.At(lo)
	for to.n = 0; to.n < group && lo < hi; to.n++ {
		if to.at[to.n] = at; lo == t.lines {
			to.at[to.n] = lo
		}
		sectors[2*to.n] = to.at[to.n] * lineSectors
		sectors[2*to.n+1] = sectors[2*to.n] + near
		at = order.Next(at)
		lo++
	}
	t.prefetch(sectors[:2*to.n])
}

func (e *cpuEngine[K, SK, V, SV]) probeLengths(context.Context) (uint64, uint32, error) {
	t := tableOf[SK, SV](e.gen)
	var sum atomic.Uint64
	var longest atomic.Uint32
	e.dev.Parallel(int(t.lines), 1<<10, func(lo, hi int) {
		s, l := t.probeLengths(uint32(lo), uint32(hi))
		sum.Add(s)
		for old := longest.Load(); l > old && !longest.CompareAndSwap(old, l); {
			old = longest.Load()
		}
	})
	return sum.Load(), longest.Load(), nil
}
