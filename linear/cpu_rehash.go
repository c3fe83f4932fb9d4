package linear

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

func (e *cpuEngine[K, SK, V, SV]) rehash(ctx context.Context, lines uint32, thorough bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	from := e.Parts().(*generation)
	to, err := allocate(e.Device, geometry{seed: from.seed, lines: lines})
	if err != nil {
		return err
	}
	return e.Move(ctx, to, func() error {
		return e.move(from, to, newRehashBudget(ctx, from.Tally().Live, lineBytes/e.SlotsPerLine, thorough))
	})
}

func (e *cpuEngine[K, SK, V, SV]) keepTable() *core.Lease { return e.Leases.Keep() }

func (e *cpuEngine[K, SK, V, SV]) revert(to *core.Lease) error { return e.Leases.Revert(to) }

// rehashBudget limits the cost of a rehash. Keys with randomly spread homes find a slot within a
// few lines, but keys that crowd only within thousands. In that case the rehash is aborted early,
// because most callers can continue without it.
type rehashBudget struct {
	ctx       context.Context
	remaining atomic.Int64 // number of sectors that may still be read
}

// sectorsPerCheck is the number of sectors that a core reads between two checks of the context.
// Reading them takes about a millisecond.
const sectorsPerCheck = 1 << 16

// newRehashBudget returns a budget of 8 lines per key. A thorough rehash gets 16, and in addition
// the cost of colliding keys that fill a whole path.
func newRehashBudget(ctx context.Context, keys uint64, slotBytes int, thorough bool) *rehashBudget {
	e := &rehashBudget{ctx: ctx}
	sectors := 8*lineSectors*int64(keys) + sectorsPerCheck
	if thorough {
		sectors = 2*sectors + maxPath*maxPath/2*lineBytes/int64(slotBytes)*lineSectors
	}
	e.remaining.Store(sectors)
	return e
}

// spend deducts sectors that were read. It reports whether the rehash may continue.
func (e *rehashBudget) spend(sectors int64) bool {
	return e.remaining.Add(-sectors) >= 0 && e.ctx.Err() == nil
}

// failure returns the reason to abort the rehash, or nil.
func (e *rehashBudget) failure(to *generation, deferred int64) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	if deferred > 0 || e.remaining.Load() < 0 {
		return fmt.Errorf("keys crowd in %d lines: %w", to.lines, op.ErrFull)
	}
	return nil
}

// move copies the live pairs of one generation to another, empty one. Home sectors are in hash
// order in a table of any size, so a range of old lines goes to a range of new lines. The cores
// work independently, except for pairs that cross the border of a range.
func (e *cpuEngine[K, SK, V, SV]) move(from, to *generation, budget *rehashBudget) error {
	shares := min(cpu.SharesPerCore*e.Device.Properties().Units, int(from.lines))
	movers := make([]mover[SK, SV], shares)
	e.Device.Parallel(shares, 1, func(i, _ int) {
		cut := func(lines uint32, i int) uint32 { return uint32(uint64(lines) * uint64(i) / uint64(shares)) }
		m := mover[SK, SV]{
			dst: tableOf[SK, SV](to), budget: budget,
			part: cpu.Share{Lo: cut(to.lines, i), Hi: cut(to.lines, i+1)},
		}
		src := tableOf[SK, SV](from)
		for s := range src.live(cut(from.lines, i), cut(from.lines, i+1)) {
			if !m.put(home(to.geometry, s.Key), s) {
				break
			}
		}
		budget.remaining.Add(-m.read)
		movers[i] = m
	})
	var long bool
	last := mover[SK, SV]{dst: tableOf[SK, SV](to), budget: budget, part: cpu.Share{Hi: to.lines + 1}}
	for i := range movers {
		last.moved += movers[i].moved
		long = long || movers[i].long
		for j := range movers[i].deferred {
			if s := &movers[i].deferred[j]; !last.put(home(to.geometry, s.Key), s) {
				break
			}
		}
	}
	src := tableOf[SK, SV](from)
	for s := range src.live(from.lines, from.lines+1) {
		last.put(to.lines*lineSectors, s)
	}
	budget.remaining.Add(-last.read)
	to.long.Store(long || last.long)
	*to.Tally() = core.Tally{Live: uint64(last.moved), Used: uint64(last.moved)}
	return budget.failure(to, int64(len(last.deferred)))
}

// mover inserts pairs into one range of new lines.
type mover[K cpu.Key, V cpu.Val] struct {
	dst      cpuTable[K, V]
	part     cpu.Share
	budget   *rehashBudget
	read     int64 // sectors read but not yet deducted from the budget
	moved    int64
	long     bool             // some path is longer than longSearch
	deferred []cpu.Slot[K, V] // pairs that need lines of other movers
}

// put inserts a pair, or defers it if it does not fit in the range. It reports whether the rehash
// may continue.
func (m *mover[K, V]) put(home uint32, s *cpu.Slot[K, V]) bool {
	read, ok := m.dst.tryInsert(m.part, home, s)
	m.long = m.long || read > longSearch
	if ok {
		m.moved++
	} else {
		m.deferred = append(m.deferred, *s)
	}
	if m.read += int64(read); m.read < sectorsPerCheck {
		return true
	}
	spent := m.read
	m.read = 0
	return m.budget.spend(spent)
}
