package sorted

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/inorder"
	"github.com/weftgo/weft/internal/op"
)

// check looks through a generation, whose memory is given: keys ascend, and each level of the
// index has the last keys of the nodes below.
func (g *generation) check(mem []byte) error {
	if g.pool.key == 4 {
		return checkKeys[uint32](g, mem)
	}
	return checkKeys[uint64](g, mem)
}

func checkKeys[K uint32 | uint64](g *generation, mem []byte) error {
	keys := batch.View[K](mem[:int(g.tally.Live)*g.pool.key])
	for i := 1; i < len(keys); i++ {
		if keys[i-1] >= keys[i] {
			return fmt.Errorf("%w: key %#x is number %d, and %#x the next one", op.ErrCorrupt, keys[i-1], i-1, keys[i])
		}
	}
	below := keys
	for l := 0; len(below) >= inorder.Fan; l++ {
		at := g.pool.indexAt(g.room, l)
		level := batch.View[K](mem[at : at+len(below)/inorder.Fan*g.pool.key])
		for i, k := range level {
			if k != below[i*inorder.Fan+inorder.Fan-1] {
				return fmt.Errorf("%w: key %#x is number %d of level %d of the index, in the place of %#x", op.ErrCorrupt, k, i, l, below[i*inorder.Fan+inorder.Fan-1])
			}
		}
		below = level
	}
	return nil
}

// Check is for [core.Checker].
func (e *cpuEngine[K, V]) Check(_ context.Context, l *core.Lease) error {
	g := l.Parts.(*generation)
	return g.check(g.buf.Host)
}

// Check is for [core.Checker]: the counters have been read.
func (e *gpuEngine) Check(ctx context.Context, l *core.Lease) error {
	g := l.Parts.(*generation)
	mem, err := e.Dev.AllocHost(g.buf.Size)
	if err != nil {
		return err
	}
	defer e.Dev.FreeHost(mem)
	if err := e.Stream.CopyOut(ctx, mem, g.buf.Ptr); err != nil {
		return err
	}
	return g.check(mem)
}
