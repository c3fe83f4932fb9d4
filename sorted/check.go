package sorted

import (
	"context"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/inorder"
)

// check checks a generation. mem is its memory, or a copy of it on the host.
func (g *generation) check(mem []byte) error {
	check := inorder.Check[uint32]
	if g.pool.Key == 8 {
		check = inorder.Check[uint64]
	}
	return check(g.pool.Layout, mem, g.capacity, int(g.tally.Live))
}

// Check implements core.Checker.
func (e *cpuEngine[K, V]) Check(_ context.Context, l *core.Lease) error {
	g := l.Parts.(*generation)
	return g.check(g.buf.Host)
}

// Check implements core.Checker. The counters must have been read since the last change.
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
