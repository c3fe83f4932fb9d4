package btree

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a map.
type Stats struct {
	Len      int // keys
	Nodes    int // nodes in use, inner nodes included
	Dead     int // nodes merged into others and not yet free
	Capacity int // number of nodes that fit the memory
	// size of the memory; without versions, memory that only snapshots hold is not counted
	Bytes int

	// The following fields are about versions. All but Kept are 0 on a CPU.

	Kept    int // nodes with old content, which snapshots or epochs still need
	Spare   int // nodes that had old content and are free
	Copied  int // leaves copied since the tree was made, loaded or compacted
	Epochs  int // reclamation epochs that have ended since then
	Retired int // copies that have been replaced
	Freed   int // replaced copies that have been freed
}

// String returns the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys in %d nodes, %d dead, of %d; %d bytes", s.Len, s.Nodes, s.Dead, s.Capacity, s.Bytes)
}

// Stats returns the statistics. It reads only counters, so its cost does not depend on the size of
// the map.
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
