package sorted

import (
	"context"
	"errors"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/inorder"
	"github.com/weftgo/weft/internal/op"
)

// Iterations have several pages even for small maps.
func init() { core.PageBytes = 1 << 12 }

// Images lists the kernels.
var Images = conformance.Images(sortedImages)

// Memory returns the keys of a map on the host, and the lowest level of its index.
func (m *Map[K, V]) Memory() (keys, index []byte) {
	g := m.core.Leases.Current().Parts.(*generation)
	at := g.pool.IndexAt(g.capacity, 0)
	return g.buf.Host[:int(g.tally.Live)*g.pool.Key], g.buf.Host[at : at+int(g.tally.Live)>>inorder.FanBits*g.pool.Key]
}

// Spare returns the size of the memory kept for the next merge.
func (m *Map[K, V]) Spare() (bytes int) {
	bytes, _ = m.core.Leases.Current().Parts.(*generation).pool.spare.Bytes()
	return bytes
}

// CheckInvariants runs Check for programs of package dst. It returns nil for a closed map.
func (m *Map[K, V]) CheckInvariants() error {
	if err := m.Check(context.Background()); !errors.Is(err, op.ErrClosed) {
		return err
	}
	return nil
}
