package lsm

import (
	"context"
	"errors"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// Iterations have several pages, also of small maps.
func init() { core.PageBytes = 1 << 12 }

// Images are those of the kernels.
var Images = conformance.Images(lsmImages)

// Memory is that of the newest level of a map on a host: of keys, of the lowest level of their index,
// of deltas, and of the sums of those.
func (m *Map[K, V]) Memory() (keys, index, deltas, sums []byte) {
	g := m.core.Leases.Current().Parts.(*generation)
	l := g.levels[0]
	mem := l.buf.Host
	return mem, mem[g.pool.IndexAt(l.room, 0):], mem[g.pool.deltasAt(l.room):], mem[g.pool.sumsAt(l.room):]
}

// CheckInvariants is Check, for programs of package dst; of a map that has been closed nothing is left.
func (m *Map[K, V]) CheckInvariants() error {
	if err := m.Check(context.Background()); !errors.Is(err, op.ErrClosed) {
		return err
	}
	return nil
}

// KeepSpare sets how many blocks of memory are kept at most, until its result is called.
func KeepSpare(n int) (undo func()) {
	was := mostSpare
	mostSpare = n
	return func() { mostSpare = was }
}
