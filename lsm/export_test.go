package lsm

import (
	"context"
	"errors"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Iterations have several pages even for small maps.
func init() { core.PageBytes = 1 << 12 }

// Images lists the kernels.
var Images = conformance.Images(lsmImages)

// Memory returns the memory of the newest level of a map on a host: its keys, the lowest level of
// their index, the deltas, and the sums of those.
func (m *Map[K, V]) Memory() (keys, index, deltas, sums []byte) {
	g := m.core.Leases.Current().Parts.(*generation)
	l := g.levels[0]
	mem := l.buf.Host
	return mem, mem[g.pool.IndexAt(l.capacity, 0):], mem[g.pool.deltasAt(l.capacity):], mem[g.pool.sumsAt(l.capacity):]
}

// CheckInvariants is Check for programs of package dst. It reports no error for a closed map.
func (m *Map[K, V]) CheckInvariants() error {
	if err := m.Check(context.Background()); !errors.Is(err, op.ErrClosed) {
		return err
	}
	return nil
}

// KeepSpare sets the maximum number of memory blocks to keep. Its result undoes that.
func KeepSpare(n int) (undo func()) {
	was := maxSpare
	maxSpare = n
	return func() { maxSpare = was }
}
