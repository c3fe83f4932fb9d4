package linear

import (
	"context"
	"sync/atomic"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// Export implements [core.Engine].
func (e *cpuEngine[K, SK, V, SV]) Export(ctx context.Context, l *core.Lease, lo, hi uint32, out *batch.Batch) (int, error) {
	g := l.Parts.(*generation)
	t := tableOf[SK, SV](g)
	return cpu.Export[K, V](ctx, out, g.Memory(), lo, hi, lastSentinel, func(line uint32, slots func([]cpu.Slot[SK, SV])) {
		slots(t.line(line))
	})
}

func (e *cpuEngine[K, SK, V, SV]) probeLengths(ctx context.Context) (uint64, uint32, error) {
	t := tableOf[SK, SV](e.Parts().(*generation))
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
