package core_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// ---- the structure --------------------------------------------------------------

// A bag holds pairs in units of a pool, in no order. It models a small table.

const unitPairs = 8

type family struct {
	*core.Group
	dev   device.Host
	owner *alloc.Owner

	mu      sync.Mutex
	bags    int  // number of generations
	closing bool // units are freed together with the owner
}

// bag is one generation of a table.
type bag struct {
	family   *family
	units    []uint32
	counters core.Tally
}

func (f *family) bag() *bag {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bags++
	return &bag{family: f}
}

func (b *bag) Tally() *core.Tally { return &b.counters }

// Free returns the units to the owner. If the family is closed, the last bag frees the owner with
// all units.
func (b *bag) Free() (err error) {
	f := b.family
	f.mu.Lock()
	f.bags--
	closing, last := f.closing, f.bags == 0
	f.mu.Unlock()
	switch {
	case !closing:
		_, err = f.owner.Free(ctx, b.units)
	case last:
		err = f.owner.Close()
	}
	return err
}

func (f *family) Close() error {
	f.mu.Lock()
	f.closing = true
	f.mu.Unlock()
	return f.Group.Close()
}

func (b *bag) at(local *alloc.Local, i int) *pair {
	return &(*[unitPairs]pair)(local.At(b.units[i/unitPairs]))[i%unitPairs]
}

// find returns the index of a key's pair, or the index after the last pair if the key is absent.
func (b *bag) find(local *alloc.Local, key uint64) (i int, found bool) {
	for i = range int(b.counters.Live) {
		if b.at(local, i).Key == key {
			return i, true
		}
	}
	return int(b.counters.Live), false
}

// bags is the engine of a table.
type bags struct {
	cpu.Engine
	family *family
	closed bool
}

func (e *bags) Close() error {
	e.closed = true
	return nil
}

// ReadDropped returns an error for a closed table, because the core must not call it then.
func (e *bags) ReadDropped(context.Context) (int, error) {
	if e.closed {
		return 0, errors.New("the engine has been closed")
	}
	return 0, nil
}

func newFamily(t *testing.T, dev device.Host, pool *alloc.Pool, tables int) (*family, []*core.Table) {
	owner, err := pool.Owner()
	must(t, err)
	f := &family{Group: core.NewGroup(), dev: dev, owner: owner}
	all := make([]*core.Table, tables)
	for i := range all {
		e := &bags{Engine: cpu.Engine{Device: dev}, family: f}
		e.Leases = f.Leases(f.bag())
		all[i] = core.New(config("bag", dev, easy{}, e, e.Leases))
	}
	must(t, f.Add(ctx, all...))
	return f, all
}

func (b *bag) copied(local *alloc.Local) (*bag, error) {
	to := b.family.bag()
	to.units, to.counters = make([]uint32, len(b.units)), b.counters
	n, err := b.family.owner.Allocate(ctx, to.units)
	if err != nil {
		to.units = to.units[:n]
		return nil, errors.Join(err, to.Free())
	}
	for i := range to.units {
		*(*[unitPairs]pair)(local.At(to.units[i])) = *(*[unitPairs]pair)(local.At(b.units[i]))
	}
	return to, nil
}

// Change works on a copy if an iteration reads the bag.
func (e *bags) Change(ctx context.Context, _ *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	local := e.family.owner.Local()
	if e.Leases.Held() {
		to, err := e.Parts().(*bag).copied(&local)
		if err == nil {
			err = e.Leases.Replace(to)
		}
		if err != nil {
			return 0, nil, err
		}
	}
	to, c := e.Parts().(*bag), cpu.ChangesOf[uint64, uint64](b)
	for i := range c.Keys {
		o, err := to.run(ctx, &local, &c, uint32(i))
		if err != nil {
			return i, c.Failed, err
		}
		c.WriteOutcome(uint32(i), o)
	}
	return b.N, c.Failed, nil
}

func (b *bag) run(ctx context.Context, local *alloc.Local, c *cpu.Changes[uint64, uint64], i uint32) (o cpu.Outcome, err error) {
	key, kind := c.Keys[i], c.Kind(i)
	at, found := b.find(local, key)
	switch {
	case !found && !kind.Inserts():
		return o, nil
	case !found:
		if at == len(b.units)*unitPairs {
			var unit [1]uint32
			if _, err := b.family.owner.Allocate(ctx, unit[:]); err != nil {
				if errors.Is(err, weft.ErrFull) {
					return cpu.Outcome{Overflowed: true}, nil
				}
				return o, err
			}
			b.units = append(b.units, unit[0])
		}
		b.counters.Live++
		o = cpu.Insert(c, i, key, b.at(local, at))
	case kind == op.Delete:
		o = cpu.ApplyPresent(c, i, kind, b.at(local, at))
		b.counters.Live--
		*b.at(local, at) = *b.at(local, int(b.counters.Live))
		if last := len(b.units) - 1; int(b.counters.Live) == last*unitPairs {
			_, err = b.family.owner.Free(ctx, b.units[last:])
			b.units = b.units[:last]
		}
	default:
		o = cpu.ApplyPresent(c, i, kind, b.at(local, at))
	}
	b.counters.Used = b.counters.Live
	return o, err
}

func (e *bags) Lookup(_ context.Context, _ *device.Stream, l *core.Lease, b *batch.Batch, _ device.Ptr) (done, hits int, err error) {
	from, to, local := l.Parts.(*bag), cpu.AnswersOf[uint64](b), e.family.owner.Local()
	for i, k := range batch.View[uint64](b.Columns[batch.Keys].Host) {
		var p *pair
		if at, found := from.find(&local, k); found {
			p = from.at(&local, at)
		}
		hits += cpu.WriteAnswer(&to, i, p)
	}
	return b.N, hits, nil
}

func (e *bags) Extent(l *core.Lease) (units uint32, rows int) {
	return uint32(len(l.Parts.(*bag).units)), unitPairs
}

func (e *bags) Export(_ context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (n int, err error) {
	b, local := l.Parts.(*bag), e.family.owner.Local()
	keys, vals := batch.View[uint64](out.Columns[batch.Keys].Host), batch.View[uint64](out.Columns[batch.Vals].Host)
	for i := int(lo) * unitPairs; i < min(int(hi)*unitPairs, int(b.counters.Live)); i++ {
		keys[n], vals[n] = b.at(&local, i).Key, b.at(&local, i).Val
		n++
	}
	return n, nil
}

func (e *bags) Clear(context.Context) error { return e.Leases.Replace(e.family.bag()) }

// ---- the tests --------------------------------------------------------------------

func openPool(t *testing.T, dev device.Device, o alloc.Options) *alloc.Pool {
	o.UnitBytes, o.Blocks = unitPairs*int(unsafe.Sizeof(pair{})), 1
	pool, err := alloc.New(dev, &o)
	must(t, err)
	t.Cleanup(func() { must(t, pool.Close()) })
	return pool
}

// A thousand tables share a pool and two writer locks. One call changes many of them. Closing one
// family frees all its memory, except what an iteration holds, and does not affect the other
// tables.
func TestFitThousandTables(t *testing.T) {
	dev := openHost(t)
	pool := openPool(t, dev, alloc.Options{})
	rng := rand.New(rand.NewPCG(5, 6))
	first, tables := newFamily(t, dev, pool, 500)
	second, more := newFamily(t, dev, pool, 500)
	models := make([]model, 1000)
	for i := range models {
		models[i] = model{}
	}
	tables = append(tables, more...)
	for round := range 30 {
		f, base := first, 0
		if round%2 == 1 {
			f, base = second, 500
		}
		var parts, lookups []core.Part
		var want []int
		for range 100 {
			i := base + rng.IntN(500)
			keys, vals := make([]uint64, 1+rng.IntN(20)), make([]uint64, 20)
			for j := range keys {
				keys[j], vals[j] = rng.Uint64N(30), rng.Uint64()
			}
			vals = vals[:len(keys)]
			before, b := len(models[i]), &batch.Batch{N: len(keys), Kind: op.Put, Columns: columns(keys, vals)}
			if rng.IntN(3) == 0 {
				b.Kind, b.Columns = op.Delete, batch.Columns{batch.Keys: batch.Input(keys)}
				models[i].remove(keys)
			} else {
				models[i].putPairs(keys, vals)
			}
			parts, want = append(parts, core.Part{Table: tables[i], Batch: b}), append(want, len(models[i])-before)
			b = &batch.Batch{N: len(keys), Columns: batch.Columns{batch.Keys: batch.Input(keys)}}
			lookups = append(lookups, core.Part{Table: tables[i], Batch: b})
		}
		got, hits := make([]int, 100), make([]int, 100)
		must(t, f.Change(ctx, "Change", parts, got))
		must(t, f.Get(ctx, "Get", lookups, hits))
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: the tables changed by %v, want %v", round, got, want)
		}
		for i, p := range lookups {
			alone, err := p.Table.Get(ctx, "Get", nil, p.Batch)
			must(t, err)
			if alone != hits[i] {
				t.Fatalf("round %d: %d hits in a group, %d alone", round, hits[i], alone)
			}
		}
	}
	must(t, errors.Join(first.Sync(ctx), second.Sync(ctx)))
	for i, m := range models {
		m.equals(t, "a table", tables[i])
	}
	held := slices.IndexFunc(models[:500], func(m model) bool { return len(m) > 1 })
	for range weft.NewMap[uint64, uint64](tables[held]).All() {
		must(t, first.Close())
		if n := pool.Stats().Owners; n != 2 {
			t.Errorf("an iteration reads, and the pool has %d owners", n)
		}
	}
	if n := pool.Stats().Owners; n != 1 {
		t.Errorf("with one family closed the pool has %d owners", n)
	}
	for i, m := range models[500:] {
		m.equals(t, "a table of the other family", more[i])
	}
	must(t, second.Close())
	if n := pool.Stats().Owned; n != 0 {
		t.Errorf("%d units are still owned", n)
	}
}

// values looks up a key in several tables, in one call, and returns its values.
func values(f *family, tables []*core.Table, key uint64) ([]uint64, error) {
	vals, parts := make([]uint64, len(tables)), make([]core.Part, len(tables))
	for i, table := range tables {
		c := batch.Columns{batch.Keys: batch.Input([]uint64{key}), batch.Vals: batch.Output(vals[i : i+1])}
		parts[i] = core.Part{Table: table, Batch: &batch.Batch{N: 1, Columns: c}}
	}
	return vals, f.Get(ctx, "Get", parts, make([]int, len(tables)))
}

// puts returns parts that put the same pair into several tables.
func puts(tables []*core.Table, key, val uint64) (parts []core.Part) {
	for _, table := range tables {
		b := &batch.Batch{N: 1, Kind: op.Put, Columns: columns([]uint64{key}, []uint64{val})}
		parts = append(parts, core.Part{Table: table, Batch: b})
	}
	return parts
}

// A lookup in several tables must see all of a change or nothing, whatever the order of the tables.
// Meanwhile iterations return units while the writer takes units.
func TestFitGroupRace(t *testing.T) {
	dev := openHost(t)
	f, tables := newFamily(t, dev, openPool(t, dev, alloc.Options{}), 3)
	var wg sync.WaitGroup
	for g := range uint64(2) {
		wg.Go(func() {
			for i := range uint64(300) {
				if err := f.Change(ctx, "Put", append(puts(tables, 7, 2*i+g), puts(tables[:1], 100+i%20, i)...), make([]int, 4)); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			mine := slices.Clone(tables)
			if g == 1 {
				slices.Reverse(mine)
			}
			for range 300 {
				v, err := values(f, mine, 7)
				if err != nil || slices.Min(v) != slices.Max(v) {
					t.Errorf("%v, %v", v, err)
				}
			}
		})
		wg.Go(func() {
			for range 100 {
				got := maps.Collect(weft.NewMap[uint64, uint64](tables[0]).All())
				if len(got) > 21 {
					t.Errorf("%d pairs of 21", len(got))
				}
			}
		})
	}
	wg.Wait()
	must(t, f.Close())
}

// newKey returns a part that puts a pair if its key is new, and the flag that it sets.
func newKey(table *core.Table, key uint64) (core.Part, []bool) {
	ok, c := []bool{true}, columns([]uint64{key}, []uint64{key})
	c[batch.OK] = batch.Output(ok)
	return core.Part{Table: table, Batch: &batch.Batch{N: 1, Kind: op.PutNew, Columns: c}}, ok
}

// A table that overflows must not stop the batches on other tables. Any other error must stop them,
// and batches that did not run must have no effect.
func TestFitGroupErrors(t *testing.T) {
	dev := openHost(t)
	f, tables := newFamily(t, dev, openPool(t, dev, alloc.Options{MaxSuperBlocks: 2}), 3)
	_, err := f.owner.Allocate(ctx, make([]uint32, alloc.BlockUnits-1))
	must(t, err)
	deltas := make([]int, 3)

	devicetest.FailNext(dev, devicetest.OpAlloc) // the pool cannot grow
	last, ok := newKey(tables[2], 1)
	err = f.Change(ctx, "Put", append(puts(tables[:2], 1, 1), last), deltas)
	if !errors.Is(err, device.ErrMemory) || !slices.Equal(deltas, []int{1, 0, 0}) || ok[0] || tables[2].Len() != 0 {
		t.Errorf("no memory for the second of three: %v, deltas %v", err, deltas)
	}
	devicetest.ClearFailures(dev)

	_, err = f.owner.Allocate(ctx, make([]uint32, alloc.BlockUnits-1)) // one unit is left
	must(t, err)
	err = f.Change(ctx, "Put", []core.Part{puts(tables[1:2], 2, 2)[0], puts(tables[2:], 2, 2)[0], puts(tables[:1], 2, 2)[0]}, deltas)
	var partial *weft.PartialError
	if !errors.Is(err, weft.ErrFull) || !errors.As(err, &partial) || partial.Failed != 1 || len(partial.Rows) != 1 || !slices.Equal(deltas, []int{1, 0, 1}) {
		t.Errorf("no room in the second of three: %v, deltas %v", err, deltas)
	}

	must(t, tables[1].Close())
	last, ok = newKey(tables[2], 3)
	if err := f.Change(ctx, "Put", append(puts(tables[:2], 3, 3), last), deltas); !errors.Is(err, weft.ErrClosed) || ok[0] || tables[0].Len() != 2 {
		t.Errorf("the second of three is closed: %v", err)
	}
	if vals, err := values(f, tables, 2); !errors.Is(err, weft.ErrClosed) || !slices.Equal(vals, []uint64{2, 0, 0}) {
		t.Errorf("Get with the second of three closed: %v, %v", vals, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	last, ok = newKey(tables[2], 3)
	if err := f.Change(ended, "Put", []core.Part{last}, deltas[:1]); !errors.Is(err, context.Canceled) || ok[0] {
		t.Errorf("Change with a context that has ended: %v", err)
	}
	must(t, f.Sync(ctx)) // on the tables that are still open
	must(t, f.Close())
}
