package linear

import (
	"context"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

// mutation is a fault in the protocol of the CPU engine.
type mutation string

const (
	sound           mutation = "nothing is broken"
	firstDead       mutation = "an insert takes the first dead slot without looking for its key behind it"
	emptyForDead    mutation = "a delete leaves an empty slot, which ends the paths of others"
	forgetsToKill   mutation = "a delete counts and leaves the key"
	noExtraLine     mutation = "keys that look like sentinels share the table under their other names"
	rehashDropsLine mutation = "a rehash forgets the extra line"
	backwards       mutation = "a batch is run in reverse order"
	countsNothing   mutation = "the counters stay as they are"
	stopsAtDead     mutation = "a lookup ends at a dead slot"
	goesTooFar      mutation = "an insert goes one slot too far"
)

// mutant is a CPU engine for 32-bit pairs with its own Change, which runs one operation at a time
// and may have a fault.
type mutant struct {
	*mutantBase
	kind mutation
}

type mutantBase = cpuEngine[uint32, uint32, uint32, uint32]

func newMutant(dev device.Device, kind mutation, opts *Options) (*Map[uint32, uint32], error) {
	m, err := New[uint32, uint32](dev, opts)
	if err == nil {
		e := &mutant{m.table.policy.engine.(*mutantBase), kind}
		m.table.policy.engine, m.table.core.Engine = e, e
	}
	return m, err
}

type mutantChanger = changer[uint32, uint32, uint32, uint32]

func (m *mutant) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	return m.Engine.Change(ctx, s, b, cpu.PieceOps, func(part *batch.Batch) cpu.Loops {
		return &mutantPiece{m.changer(part), m, part.N}
	})
}

// mutantPiece runs a piece of a batch on one core.
type mutantPiece struct {
	*mutantChanger
	m *mutant
	n int
}

func (p *mutantPiece) Quick() bool { return false }

func (p *mutantPiece) Run(_ *cpu.Watch, s cpu.Share) (int, cpu.Result) {
	c := *p.mutantChanger
	c.part = s
	for i := range uint32(p.n) {
		if p.m.kind == backwards {
			i = uint32(p.n) - 1 - i
		}
		p.m.one(&c, i)
	}
	if p.m.kind == countsNothing {
		c.Live, c.Used = 0, 0
	}
	return p.n, c.Result
}

func (m *mutant) home(g geometry, key uint32) uint32 {
	if m.kind == noExtraLine && isSentinel(key) {
		key = ^key
	}
	return home(g, key)
}

// one runs an operation like changer.runOp, but always with a full search, and with the fault.
func (m *mutant) one(c *mutantChanger, i uint32) {
	kind := c.Kind(i)
	key, h := cpu.Stored(c.Keys[i], lastSentinel), m.home(c.table.geometry, c.Keys[i])
	s := c.table.search(c.part, h, key)
	if m.kind == firstDead && s.dead != nil {
		s.live, s.tombstone = nil, s.dead
	}
	if next := m.after(c, s.free); m.kind == goesTooFar && next != nil {
		s.free = next
	}
	var o cpu.Outcome
	switch {
	case s.live != nil && kind == op.Delete && m.kind == emptyForDead:
		s.live.Key = cpu.Sentinel[uint32](cpu.Empty)
		c.Live--
		c.Used--
		o.OK = true
	case s.live != nil && kind == op.Delete && m.kind == forgetsToKill:
		c.Live--
		o.OK = true
	case s.live != nil:
		o = cpu.ApplyPresent(&c.Changes, i, kind, s.live)
	case kind.Inserts():
		if at := s.insertSlot(c.ReuseDead); at != nil {
			o = cpu.Insert(&c.Changes, i, key, at)
		} else {
			o.Overflowed = true
		}
	}
	c.WriteOutcome(i, o)
}

// after returns the slot after s in the same sector if that slot is empty, otherwise nil.
func (m *mutant) after(c *mutantChanger, s *cpu.Slot[uint32, uint32]) *cpu.Slot[uint32, uint32] {
	if s == nil {
		return nil
	}
	offset := uintptr(unsafe.Pointer(s)) - uintptr(c.table.base)
	slots := c.table.sector(uint32(offset / sectorBytes))
	at := int(offset%sectorBytes)/8 + 1
	if at == len(slots) || slots[at].Key != cpu.Sentinel[uint32](cpu.Empty) {
		return nil
	}
	return &slots[at]
}

func (m *mutant) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error) {
	if m.kind != noExtraLine && m.kind != stopsAtDead {
		return m.mutantBase.Lookup(ctx, s, l, b, count)
	}
	t := tableOf[uint32, uint32](l.Parts.(*generation))
	keys, to := batch.View[uint32](b.Columns[batch.Keys].Host), cpu.AnswersOf[uint32](b)
	return m.RunLookup(ctx, b.N, func(_ *cpu.Watch, lo, hi int) (ran, hits int) {
		for i, key := range keys[lo:hi] {
			s := t.search(cpu.Share{Hi: t.lines + 1}, m.home(t.geometry, key), cpu.Stored(key, lastSentinel))
			if m.kind == stopsAtDead && s.dead != nil {
				s.live = nil
			}
			hits += cpu.WriteAnswer(&to, lo+i, s.live)
		}
		return hi - lo, hits
	})
}

func (m *mutant) rehash(ctx context.Context, lines uint32, thorough bool) error {
	err := m.mutantBase.rehash(ctx, lines, thorough)
	if err == nil && m.kind == rehashDropsLine {
		g := m.Parts().(*generation)
		t := tableOf[uint32, uint32](g)
		for s := range t.live(lines, lines+1) {
			s.Key = cpu.Sentinel[uint32](cpu.Empty)
			g.Tally().Live--
			g.Tally().Used--
		}
	}
	return err
}

// unchecked hides the method CheckInvariants of a map.
type unchecked struct {
	conformance.AnyMap[uint32, uint32]
}

func (m unchecked) Check(ctx context.Context) error { return m.Sync(ctx) }

// The suite must detect each fault, by results alone and by a check of the memory. It must pass for
// the same engine without a fault.
func TestMutantsAreNoticed(t *testing.T) {
	conformance.SkipRaced(t, "is about tests")
	dev := devicetest.OpenCPU(t, 2)
	for _, how := range []mutation{
		sound, firstDead, emptyForDead, forgetsToKill, noExtraLine, rehashDropsLine,
		backwards, countsNothing, stopsAtDead, goesTooFar,
	} {
		for name, hide := range map[string]func(*Map[uint32, uint32]) conformance.AnyMap[uint32, uint32]{
			"by answers": func(m *Map[uint32, uint32]) conformance.AnyMap[uint32, uint32] { return unchecked{m} },
			"and memory": func(m *Map[uint32, uint32]) conformance.AnyMap[uint32, uint32] { return m },
		} {
			t.Run(string(how)+"/"+name, func(t *testing.T) {
				noticed := 0
				open := func(t testing.TB, dev device.Device) conformance.AnyMap[uint32, uint32] {
					m, err := newMutant(dev, how, &Options{Seed: 3})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { m.Close() })
					return hide(m)
				}
				for _, c := range conformance.MapCases(dev, conformance.Slow, open) {
					failed, log := c.Report(t, dev, open)
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
