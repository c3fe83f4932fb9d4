package linear

import (
	"context"
	"testing"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/deal"
)

// mutation is a way to break the protocol of the CPU engine.
type mutation string

const (
	sound           mutation = "nothing is broken"
	firstDead       mutation = "an insert takes the first dead slot without looking for its key behind it"
	emptyForDead    mutation = "a delete leaves an empty slot, which ends the paths of others"
	forgetsToKill   mutation = "a delete counts and leaves the key"
	noExtraLine     mutation = "keys that look like marks share the table under their other names"
	rehashDropsLine mutation = "a rehash forgets the extra line"
	backwards       mutation = "a batch is run in reverse order"
	countsNothing   mutation = "the counters stay as they are"
	stopsAtDead     mutation = "a lookup ends at a dead slot"
	goesTooFar      mutation = "an insert goes one slot too far"
)

// mutant is the CPU engine for pairs of 32 bits with changes of its own, one
// operation at a time, which can be broken.
type mutant struct {
	*mutantBase
	how mutation
}

type mutantBase = cpuEngine[uint32, uint32, uint32, uint32]

func newMutant(dev device.Device, how mutation, opts *Options) (*Map[uint32, uint32], error) {
	m, err := New[uint32, uint32](dev, opts)
	if err == nil {
		m.table.engine = &mutant{m.table.engine.(*mutantBase), how}
	}
	return m, err
}

func (m *mutant) change(ctx context.Context, b *batch.Batch) (done int, failed []uint32, err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	c := newChanger[uint32, uint32, uint32, uint32](m.gen, b)
	for i := range uint32(b.N) {
		if m.how == backwards {
			i = uint32(b.N) - 1 - i
		}
		m.one(c, i)
	}
	if m.how != countsNothing {
		c.count()
	}
	return b.N, c.failed, nil
}

func (m *mutant) home(g geometry, key uint32) uint32 {
	if m.how == noExtraLine && isMark(key) {
		key = ^key
	}
	return home(g, key)
}

// one is changer.one with a search for every operation, and a fault.
func (m *mutant) one(c *changer[uint32, uint32, uint32, uint32], i uint32) {
	kind := c.kind
	if c.kinds != nil {
		kind = c.kinds[i]
	}
	key, h := stored(c.keys[i]), m.home(c.table.geometry, c.keys[i])
	s := c.table.search(c.part, h, key)
	if m.how == firstDead && s.dead != nil {
		s.live, s.own = nil, s.dead
	}
	if next := m.after(c, s.free); m.how == goesTooFar && next != nil {
		s.free = next
	}
	ok := false
	switch {
	case s.live != nil && kind == weft.OpDelete && m.how == emptyForDead:
		s.live.key = mark[uint32](markEmpty)
		c.live--
		c.fresh--
		ok = true
	case s.live != nil && kind == weft.OpDelete && m.how == forgetsToKill:
		c.live--
		ok = true
	case s.live != nil:
		ok = c.present(i, kind, s.live)
	case kind == weft.OpPut || kind == weft.OpPutNew:
		ok = c.insert(i, key, s)
	}
	if c.ok != nil {
		c.ok[i] = ok
	}
	if c.out != nil && (s.live == nil || kind == weft.OpPut || kind == weft.OpDelete) {
		c.out[i] = 0
	}
}

// after is the slot behind s in its sector, if that is empty too.
func (m *mutant) after(c *changer[uint32, uint32, uint32, uint32], s *slot[uint32, uint32]) *slot[uint32, uint32] {
	if s == nil {
		return nil
	}
	offset := uintptr(unsafe.Pointer(s)) - uintptr(c.table.base)
	slots := c.table.sector(uint32(offset / sectorBytes))
	at := int(offset%sectorBytes)/8 + 1
	if at == len(slots) || slots[at].key != mark[uint32](markEmpty) {
		return nil
	}
	return &slots[at]
}

func (m *mutant) get(ctx context.Context, b *batch.Batch) (hits int, err error) {
	if m.how != noExtraLine && m.how != stopsAtDead {
		return m.mutantBase.get(ctx, b)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	t := tableOf[uint32, uint32](m.gen)
	vals, found := batch.View[uint32](b.Vals.Host), batch.View[bool](b.OK.Host)
	for i, key := range batch.View[uint32](b.Keys.Host) {
		s := t.search(deal.Share{Hi: t.lines + 1}, m.home(t.geometry, key), stored(key))
		if m.how == stopsAtDead && s.dead != nil {
			s.live = nil
		}
		hits += answer(s.live, i, vals, found)
	}
	return hits, nil
}

func (m *mutant) rehash(ctx context.Context, lines uint32, thorough bool) error {
	err := m.mutantBase.rehash(ctx, lines, thorough)
	if err == nil && m.how == rehashDropsLine {
		t := tableOf[uint32, uint32](m.gen)
		for s := range t.live(lines, lines+1) {
			s.key = mark[uint32](markEmpty)
			countersOf(m.gen).live--
			countersOf(m.gen).used--
		}
	}
	return err
}

// unchecked hides that a map can check its invariants.
type unchecked struct{ weft.Map[uint32, uint32] }

// The suite notices what breaks the protocol: by answers alone, and with a
// look at the memory that is left. An engine of the same code without a fault
// passes.
func TestMutantsAreNoticed(t *testing.T) {
	dev := openCPU(t, 2)
	for _, how := range []mutation{
		sound, firstDead, emptyForDead, forgetsToKill, noExtraLine, rehashDropsLine,
		backwards, countsNothing, stopsAtDead, goesTooFar,
	} {
		for name, hide := range map[string]func(*Map[uint32, uint32]) weft.Map[uint32, uint32]{
			"by answers": func(m *Map[uint32, uint32]) weft.Map[uint32, uint32] { return unchecked{m} },
			"and memory": func(m *Map[uint32, uint32]) weft.Map[uint32, uint32] { return m },
		} {
			t.Run(string(how)+"/"+name, func(t *testing.T) {
				noticed := 0
				for _, c := range conformance.MapCases[uint32, uint32](conformance.Slow) {
					failed, log := c.Report(t, func(t testing.TB) weft.Map[uint32, uint32] {
						m, err := newMutant(dev, how, &Options{Seed: 3})
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(func() { m.Close() })
						return hide(m)
					})
					if failed {
						noticed++
						t.Logf("%s: %s", c.Name, log)
					}
				}
				if (noticed > 0) != (how != sound) {
					t.Errorf("%d cases failed", noticed)
				}
			})
		}
	}
}
