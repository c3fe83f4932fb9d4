package lsm

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/inorder"
	"github.com/weftgo/weft/internal/op"
)

// Check implements core.Checker.
func (e *cpuEngine[K, V]) Check(_ context.Context, l *core.Lease) error {
	g := l.Parts.(*generation)
	memory := make([][]byte, len(g.levels))
	for i, l := range g.levels {
		memory[i] = l.buf.Host
	}
	return g.check(memory)
}

// Check implements core.Checker. The counters must have been read since the last change.
func (e *gpuEngine) Check(ctx context.Context, l *core.Lease) (err error) {
	g := l.Parts.(*generation)
	memory := make([][]byte, len(g.levels))
	for i, l := range g.levels {
		memory[i] = make([]byte, l.buf.Size)
		if err := e.Stream.CopyOut(ctx, memory[i], l.buf.Ptr); err != nil {
			return err
		}
	}
	return g.check(memory)
}

// check checks a tree. memory has the memory of each level, or a copy of it on the host.
func (g *generation) check(memory [][]byte) error {
	if g.pool.Key == 4 {
		return checkKeys[uint32](g, memory)
	}
	return checkKeys[uint64](g, memory)
}

// checked is a level that is being checked.
type checked[K uint32 | uint64] struct {
	*level
	keys   []K
	deltas []int8
	sums   []uint32
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{op.ErrCorrupt}, args...)...)
}

// checkKeys checks each level, from the oldest on. No key may be added twice, or replaced or
// deleted while absent.
func checkKeys[K uint32 | uint64](g *generation, memory [][]byte) error {
	p, present := g.pool, map[K]bool{}
	for i := len(g.levels) - 1; i >= 0; i-- {
		l, mem := g.levels[i], memory[i]
		c := checked[K]{l, batch.View[K](mem[:l.n*p.Key]), batch.View[int8](mem[p.deltasAt(l.capacity):][:l.n]), batch.View[uint32](mem[p.sumsAt(l.capacity):][:4*(nodes(l.n)+1)])}
		if i > 0 && g.levels[i-1].slot >= l.slot || l.n > p.capacity(l.slot) || l.n > l.capacity {
			return corrupt("level %d is in slot %d with %d entries, in memory for %d", i, l.slot, l.n, l.capacity)
		}
		if err := inorder.Check[K](p.Layout, mem, l.capacity, l.n); err != nil {
			return fmt.Errorf("level %d: %w", i, err)
		}
		if err := c.check(i); err != nil {
			return err
		}
		if err := c.add(i, present); err != nil {
			return err
		}
	}
	if len(present) != int(g.tally.Live) || g.entries() != int(g.tally.Used) {
		return corrupt("%d keys in %d entries, but the counters say %d in %d", len(present),
			g.entries(), g.tally.Live, g.tally.Used)
	}
	return nil
}

// check compares the sums of level i with its deltas.
func (c *checked[K]) check(i int) error {
	sum := uint32(0)
	for j := range c.keys {
		if j%inorder.Fan == 0 && c.sums[j/inorder.Fan] != sum {
			return corrupt("level %d: before entry %d there are %d keys, not %d", i, j, int32(sum), int32(c.sums[j/inorder.Fan]))
		}
		sum += uint32(c.deltas[j])
	}
	if last := c.sums[nodes(len(c.keys))]; last != sum {
		return corrupt("level %d has %d keys, not %d", i, int32(sum), int32(last))
	}
	return nil
}

// add applies the entries of a level to present, the set of keys in older levels.
func (c *checked[K]) add(i int, present map[K]bool) error {
	for j, k := range c.keys {
		if d := c.deltas[j]; d < -1 || d > 1 || present[k] == (d == 1) {
			return corrupt("level %d: key %#x has delta %d, and older levels have the key: %v", i,
				k, d, present[k])
		} else if d < 0 {
			delete(present, k)
		} else {
			present[k] = true
		}
	}
	return nil
}
