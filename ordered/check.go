package ordered

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Check implements core.Checker. It checks the present index, the indexes of all versions, and
// their leaves.
func (e *cpuEngine[K, V]) Check(ctx context.Context, _ *core.Lease) error {
	f := e.forest()
	if err := f.checkIndex(ctx, f.present); err != nil {
		return err
	}
	if n := f.present.pairs(); n != f.tally.Live {
		return corrupt("the index counts %d pairs, the counters say %d", n, f.tally.Live)
	}
	for i, v := range f.versions {
		if i > 0 && v.time <= f.versions[i-1].time || v.time >= f.clock {
			return corrupt("version %d has time %d, out of order or not before the current time %d",
				i, v.time, f.clock)
		}
		if err := f.checkIndex(ctx, v.index); err != nil {
			return fmt.Errorf("version %d: %w", v.time, err)
		}
	}
	return f.checkLeaves()
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", op.ErrCorrupt, fmt.Sprintf(format, args...))
}

func (f *forest[K, V]) checkIndex(ctx context.Context, x *index[K]) error {
	for i := range x.leaves {
		if i%chunkLeaves == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		lo, hi, last := x.seps[0][i], ^K(0), i+1 == x.leaves
		if !last {
			hi = x.seps[0][i+1]
		}
		switch {
		case i == 0 && lo != 0 || !last && lo >= hi:
			return corrupt("separator %d is %d, but the next one is %d", i, lo, hi)
		case x.leaf(lo) != i:
			return corrupt("the index leads from separator %d to leaf %d", i, x.leaf(lo))
		}
		if err := f.checkLeaf(x.ids[i], int(x.sizes[i]), lo, hi, last); err != nil {
			return err
		}
	}
	total := uint64(0)
	for i, size := range x.sizes {
		if i%fanout == 0 && x.ranks[i/fanout] != total {
			return corrupt("%d pairs lie before leaf %d, the index says %d", total, i, x.ranks[i/fanout])
		}
		total += uint64(size)
	}
	if x.pairs() != total {
		return corrupt("the leaves have %d pairs, the index says %d", total, x.pairs())
	}
	return nil
}

// checkLeaf checks that leaf id holds size ascending keys. The keys must lie in [lo,hi), or be at
// least lo if last is set.
func (f *forest[K, V]) checkLeaf(id uint32, size int, lo, hi K, last bool) error {
	if id >= f.used || size < 1 || size > leafPairs {
		return corrupt("leaf %d of %d has %d pairs", id, f.used, size)
	}
	l := f.at(id)
	for j, k := range l.keys {
		switch {
		case j >= size && k != l.keys[size-1]:
			return corrupt("leaf %d: key %d, after the last of %d, is %d", id, j, size, k)
		case j < size && j > 0 && k <= l.keys[j-1]:
			return corrupt("leaf %d: key %d is %d, but the one before it is %d", id, j, k,
				l.keys[j-1])
		case k < lo || !last && k >= hi:
			return corrupt("leaf %d from %d to %d has key %d", id, lo, hi, k)
		}
	}
	return nil
}

// checkLeaves checks that each leaf is either free or in use. It also checks that the retired
// leaves of a version are in that version and not in the next one.
func (f *forest[K, V]) checkLeaves() error {
	const free, unseen = -1, 0
	users := make([]int, f.used)
	for _, id := range f.free {
		if users[id] != unseen {
			return corrupt("leaf %d is free twice", id)
		}
		users[id] = free
	}
	times := make([]map[uint32]bool, len(f.versions)+1)
	for i := range times {
		x := f.present
		if i < len(f.versions) {
			x = f.versions[i].index
		}
		times[i] = map[uint32]bool{}
		for _, id := range x.ids[:x.leaves] {
			if users[id] == free || times[i][id] {
				return corrupt("leaf %d of version %d is free, or used twice", id, i)
			}
			if i < len(f.versions) && f.created[id] > f.versions[i].time {
				return corrupt("leaf %d of version %d was created later, at %d", id, i,
					f.created[id])
			}
			users[id]++
			times[i][id] = true
		}
	}
	for i, v := range f.versions {
		for _, id := range v.retired {
			if !times[i][id] || times[i+1][id] {
				return corrupt("leaf %d was not retired after version %d", id, v.time)
			}
		}
	}
	for id, n := range users {
		if n == unseen {
			return corrupt("leaf %d is neither free nor used", id)
		}
	}
	return nil
}
