package btree

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a map.
type Stats struct {
	Len      int // keys
	Nodes    int // nodes in use, including inner ones
	Dead     int // nodes merged into others and not free yet
	Capacity int // in nodes
	Bytes    int // size in bytes; without versions, memory that only snapshots hold is not counted

	// Versions; all but Kept are for trees on a GPU only:

	Kept    int // nodes with old content, for snapshots or for epochs that have not ended
	Spare   int // nodes that held old content and are free
	Copied  int // leaves copied since the tree was made or laid out anew
	Epochs  int // reclamation epochs that have ended since then
	Retired int // copies that have been replaced
	Freed   int // replaced copies that have been freed
}

// String returns the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys in %d nodes, %d dead, of %d; %d bytes", s.Len, s.Nodes, s.Dead, s.Capacity, s.Bytes)
}

// Stats returns the statistics. It makes no pass over the memory.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.WithWriteLock(ctx, "Stats", func(now core.Counters) error {
		u := t.policy.engine.usage()
		s = Stats{Len: int(now.Live), Nodes: u.nodes, Dead: u.dead, Capacity: u.capacity, Bytes: u.bytes, Kept: u.kept}
		if e, ok := t.policy.engine.(*gpuEngine); ok && e.current().past != nil {
			p := e.current().past
			s.Spare, s.Copied = p.nSpare(), int(p.cached.copied)
			s.Epochs, s.Retired, s.Freed = int(p.epoch.Advanced), int(p.epoch.Retired), int(p.epoch.Freed)
		}
		return nil
	})
	return s, err
}
