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

// Memory returns the arrays of the newest level of a map on the host. index is the lowest level of
// the index.
func (m *Map[K, V]) Memory() (keys, index, deltas, sums []byte) {
	g := m.core.Leases.Current().Parts.(*generation)
	l := g.levels[0]
	mem := l.buf.Host
	return mem, mem[g.pool.IndexAt(l.capacity, 0):], mem[g.pool.deltasAt(l.capacity):], mem[g.pool.sumsAt(l.capacity):]
}

// CheckInvariants runs Check for programs of package dst. It returns nil for a closed map.
func (m *Map[K, V]) CheckInvariants() error {
	if err := m.Check(context.Background()); !errors.Is(err, op.ErrClosed) {
		return err
	}
	return nil
}

// KeepSpare sets the maximum number of unused levels to keep. undo restores it.
func KeepSpare(n int) (undo func()) {
	was := maxSpare
	maxSpare = n
	return func() { maxSpare = was }
}
