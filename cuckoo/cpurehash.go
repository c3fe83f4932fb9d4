package cuckoo

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

func (e *cpuEngine[K, SK, V, SV]) rehash(ctx context.Context, g geometry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	to, err := allocate(e.Device, g, 0)
	if err != nil {
		return err
	}
	return e.Move(ctx, to, func() error { return e.move(ctx, e.Parts().(*generation), to) })
}

// pairsPerLook is the number of pairs that a core moves between two looks at the
// context: about a millisecond's work.
const pairsPerLook = 1 << 13

// mover inserts pairs into a range of new lines.
type mover[K cpu.Key, V cpu.Val] struct {
	dst   cpuTable[K, V]
	part  cpu.Share
	moved uint64
	late  []cpu.Slot[K, V] // pairs that need lines of others, or others moved
}

// move copies the pairs of one generation to an empty other. First buckets are in
// order of the hash in any size of table, so if the seed stays, a range of old lines
// goes to a range of new lines for the most part: the cores work apart, but for the
// pairs in second buckets, and those that find no room at once.
func (e *cpuEngine[K, SK, V, SV]) move(ctx context.Context, from, to *generation) error {
	src := tableOf[SK, SV](from, e.mode)
	shares := 1
	if from.seed == to.seed {
		shares = min(cpu.SharesPerCore*e.Device.Properties().Units, int(from.bucketLines()), int(to.bucketLines()))
	}
	movers := make([]mover[SK, SV], shares)
	e.Device.Parallel(shares, 1, func(i, _ int) {
		cut := func(lines uint32, i int) uint32 { return uint32(uint64(lines) * uint64(i) / uint64(shares)) }
		m := mover[SK, SV]{dst: tableOf[SK, SV](to, e.mode), part: cpu.Share{Lo: cut(to.bucketLines(), i), Hi: cut(to.bucketLines(), i+1)}}
		if shares == 1 {
			m.part.Hi = to.lines + 1
		}
		m.moveAll(ctx, &src, cut(from.bucketLines(), i), cut(from.bucketLines(), i+1))
		movers[i] = m
	})
	last := mover[SK, SV]{dst: tableOf[SK, SV](to, e.mode), part: cpu.Share{Hi: to.lines + 1}}
	for i := range movers {
		last.moved += movers[i].moved
		if err := last.settle(ctx, movers[i].late); err != nil {
			return err
		}
	}
	for s := range src.live(from.bucketLines(), from.lines) {
		if !last.put(s) {
			return crowded(to.buckets)
		}
	}
	for s := range src.live(from.lines, from.lines+1) {
		*last.dst.own(s.Key) = *s
		last.moved++
	}
	*to.Tally() = core.Tally{Live: last.moved, Used: last.moved}
	return ctx.Err()
}

// crowded is the error of a rehash in which a pair finds no room.
func crowded(buckets uint32) error {
	return fmt.Errorf("keys crowd in %d buckets: %w", buckets, op.ErrFull)
}

// moveAll moves the pairs of lines [lo,hi), until the context ends.
func (m *mover[K, V]) moveAll(ctx context.Context, src *cpuTable[K, V], lo, hi uint32) {
	n := 0
	for s := range src.live(lo, hi) {
		if n++; n%pairsPerLook == 0 && ctx.Err() != nil {
			return
		}
		if m.dst.place(m.part, s) {
			m.moved++
		} else {
			m.late = append(m.late, *s)
		}
	}
}

// settle moves what others have left, with the whole table.
func (m *mover[K, V]) settle(ctx context.Context, pairs []cpu.Slot[K, V]) error {
	for i := range pairs {
		if i%pairsPerLook == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !m.put(&pairs[i]) {
			return crowded(m.dst.buckets)
		}
	}
	return nil
}

// put inserts a pair, for which others are moved if need be.
func (m *mover[K, V]) put(s *cpu.Slot[K, V]) bool {
	m.moved++
	if m.dst.place(m.part, s) {
		return true
	}
	p := pathOf(m.dst.geometry, s.Key)
	free, _, _ := m.dst.evict(p)
	if free == nil {
		free = m.dst.stashed(p)
	}
	if free == nil {
		return false
	}
	*free = *s
	return true
}
