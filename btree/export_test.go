package btree

import (
	"context"

	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
)

// Iterations have several pages, also of small maps.
func init() { core.PageBytes = 1 << 12 }

// Reclaim makes dead nodes free, however few they are.
func (m *Map[K, V]) Reclaim(ctx context.Context) error {
	return m.core.Alone(ctx, "Reclaim", func(core.Counters) error { return m.policy.engine.reclaim(ctx) })
}

// Images are those of the kernels.
var Images = conformance.Images(btreeImages)
