package linear

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
)

func (e *cpuEngine[K, SK, V, SV]) rehash(ctx context.Context, lines uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	from := e.Memory().(*generation)
	to, err := e.allocate(ctx, geometry{seed: from.seed, lines: lines})
	if err != nil {
		return err
	}
	if left := e.move(from, to); left > 0 {
		err := fmt.Errorf("rehash to %d lines leaves %d keys without room: %w", lines, left, op.ErrFull)
		return errors.Join(err, to.Free())
	}
	return e.Leases.Replace(to)
}

// move copies the live pairs of one generation to an empty other, and returns
// how many did not fit. Home sectors are in order of the hash in any size of
// table, so a range of old lines goes to a range of new lines: the cores work
// apart, but for the pairs that lie across a border.
func (e *cpuEngine[K, SK, V, SV]) move(from, to *generation) int {
	src, dst := tableOf[SK, SV](from), tableOf[SK, SV](to)
	shares := min(cpu.SharesPerCore*e.Device.Properties().Units, int(from.lines))
	late := make([][]cpu.Slot[SK, SV], shares)
	var moved atomic.Int64
	e.Device.Parallel(shares, 1, func(i, _ int) {
		cut := func(lines uint32, i int) uint32 { return uint32(uint64(lines) * uint64(i) / uint64(shares)) }
		part := cpu.Share{Lo: cut(to.lines, i), Hi: cut(to.lines, i+1)}
		var n int64
		for s := range src.live(cut(from.lines, i), cut(from.lines, i+1)) {
			if dst.insert(part, home(dst.geometry, s.Key), s.Key, s.Val) {
				n++
			} else {
				late[i] = append(late[i], *s)
			}
		}
		moved.Add(n)
	})
	whole := cpu.Share{Hi: to.lines + 1}
	left := 0
	for _, slots := range late {
		for i := range slots {
			if !dst.insert(whole, home(dst.geometry, slots[i].Key), slots[i].Key, slots[i].Val) {
				left++
				continue
			}
			moved.Add(1)
		}
	}
	for s := range src.live(from.lines, from.lines+1) {
		dst.insert(whole, to.lines*lineSectors, s.Key, s.Val)
		moved.Add(1)
	}
	n := uint64(moved.Load())
	*to.Counters() = cpu.Counters{Live: n, Used: n}
	return left
}

// Extent is for [core.Engine]: lines, the extra one last.
func (e *cpuEngine[K, SK, V, SV]) Extent(l *core.Lease) (units uint32, rows int) {
	return l.Parts.(*generation).extent(int(unsafe.Sizeof(cpu.Slot[SK, SV]{})))
}

// Export is for [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (int, error) {
	g := l.Parts.(*generation)
	t := tableOf[SK, SV](g)
	k, v := batch.View[K](out.Columns[batch.Keys].Host), batch.View[V](out.Columns[batch.Vals].Host)
	n, w := 0, cpu.NewWatch(ctx)
	for line := lo; line < hi; line++ {
		if w.Over(1) {
			return 0, ctx.Err()
		}
		for s := range t.live(line, line+1) {
			key := s.Key
			if line == g.lines {
				key = ^key
			}
			k[n] = K(key)
			if v != nil {
				v[n] = *(*V)(unsafe.Pointer(&s.Val))
			}
			n++
		}
	}
	return n, nil
}

func (e *cpuEngine[K, SK, V, SV]) probeLengths(ctx context.Context) (uint64, uint32, error) {
	t := tableOf[SK, SV](e.Memory().(*generation))
	var sum atomic.Uint64
	var longest atomic.Uint32
	e.Device.Parallel(int(t.lines), 1<<10, func(lo, hi int) {
		if ctx.Err() != nil {
			return
		}
		s, l := t.probeLengths(uint32(lo), uint32(hi))
		sum.Add(s)
		for old := longest.Load(); l > old && !longest.CompareAndSwap(old, l); {
			old = longest.Load()
		}
	})
	return sum.Load(), longest.Load(), ctx.Err()
}
