package linear

import (
	"context"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/cpu"
)

// Change implements [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	return e.Engine.Change(ctx, s, b, cpu.PieceOps, func(part *batch.Batch) cpu.Loops { return e.changer(part) })
}

// longSearch is a search length in sectors. After a change has searched farther, pieces of a batch
// no longer run on all cores, because parallel pieces cannot stop when the context ends. With
// longSearch sectors per operation, a piece takes tens of milliseconds.
const longSearch = 1 << 10

// changer runs the changes in one piece of a batch. Copies of it run the shares of the piece.
type changer[K, SK cpu.Key, V, SV cpu.Val] struct {
	cpu.Changes[K, V]
	gen   *generation
	table cpuTable[SK, SV]
	part  cpu.Share
}

func (e *cpuEngine[K, SK, V, SV]) changer(b *batch.Batch) *changer[K, SK, V, SV] {
	g := e.Parts().(*generation)
	return &changer[K, SK, V, SV]{Changes: cpu.ChangesOf[K, V](b), gen: g, table: tableOf[SK, SV](g)}
}

// Quick implements [cpu.Loops].
func (c *changer[K, SK, V, SV]) Quick() bool { return !c.gen.long.Load() }

// Locate implements [cpu.Loops]. It stores the index of the line in which each operation's path
// begins.
func (c *changer[K, SK, V, SV]) Locate(lo, hi int, lines []uint32) {
	for i, k := range c.Keys[lo:hi] {
		lines[i] = home(c.table.geometry, SK(k)) / lineSectors
	}
}

// Run implements [cpu.Loops].
func (piece *changer[K, SK, V, SV]) Run(w *cpu.Watch, s cpu.Share) (ran int, r cpu.Result) {
	c := *piece // copy with its own result
	c.part = s
	if c.Reducing {
		ran = c.combine(w, s.Ops)
		return ran, c.Result
	}
	ran = cpu.RunPrefetched(w, s.Ops, cpu.Group, c.prefetchHomes, func(i, home uint32) { w.AddWork(c.runOp(i, home)) })
	return ran, c.Result
}

// combine runs operations that combine values. It runs a full search only for keys that are not in
// the first lines of their paths, where most are.
func (c *changer[K, SK, V, SV]) combine(w *cpu.Watch, ops []uint32) (ran int) {
	var homes [2][cpu.Group]uint32
	c.prefetchHomes(ops[:min(cpu.Group, len(ops))], &homes[0])
	for lo, cur := 0, 0; lo < len(ops); lo, cur = lo+cpu.Group, cur^1 {
		if w.ShouldStop(cpu.Group) {
			return lo
		}
		hi := min(lo+cpu.Group, len(ops))
		c.prefetchHomes(ops[hi:min(hi+cpu.Group, len(ops))], &homes[cur^1])
		for j, i := range ops[lo:hi] {
			home := homes[cur][j]
			if at := c.table.matchFirstLines(c.part, home, cpu.Stored(SK(c.Keys[i]), lastSentinel)); at != nil {
				cpu.CombinePresent(&c.Changes, i, at)
			} else {
				w.AddWork(c.runOp(i, home))
			}
		}
	}
	return len(ops)
}

// prefetchHomes computes the home sectors of operations and prefetches them.
func (c *changer[K, SK, V, SV]) prefetchHomes(ops []uint32, homes *[cpu.Group]uint32) {
	for j, i := range ops {
		homes[j] = home(c.table.geometry, SK(c.Keys[i]))
	}
	c.table.prefetch(homes[:len(ops)])
}

// runOp runs one operation. It returns the number of sectors that its search read beyond the first
// cache line.
func (c *changer[K, SK, V, SV]) runOp(i, home uint32) (read int) {
	kind := c.Kind(i)
	key := cpu.Stored(SK(c.Keys[i]), lastSentinel)
	var s searchResult[SK, SV]
	switch at := c.table.firstLineSlot(key, home); {
	case at == nil:
		if s = c.table.search(c.part, home, key); s.leavesShare {
			c.Deferred = append(c.Deferred, i)
			return s.read
		}
		if s.read > longSearch && !c.gen.long.Load() {
			c.gen.long.Store(true)
		}
	case at.Key == key:
		s.live = at
	default:
		s.free = at
	}
	var o cpu.Outcome
	switch {
	case s.live != nil:
		o = cpu.ApplyPresent(&c.Changes, i, kind, s.live)
	case kind.Inserts():
		if at := s.insertSlot(c.ReuseDead); at != nil && (c.part.CanAdd(&c.Result) || c.table.isExtra(home)) {
			o = cpu.Insert(&c.Changes, i, key, at)
		} else {
			o.Overflowed = true
		}
	}
	c.WriteOutcome(i, o)
	return s.read
}
