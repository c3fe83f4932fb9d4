package btree

import (
	"context"
	"fmt"

	"github.com/weftgo/weft/internal/core"
)

// Stats describe the state of a map.
type Stats struct {
	Len   int // keys
	Nodes int // in use, inner ones too
	Dead  int // nodes that have been merged into others, and are not free yet
	Room  int // nodes that there is memory for
	Bytes int // of memory; without versions, what only snapshots hold is not counted

	// Of trees on a GPU with versions:

	Kept    int // nodes that are what leaves were: of snapshots, and of epochs that have not ended
	Spare   int // nodes that were, and are free
	Copied  int // leaves that have been copied since the tree was made or laid out anew
	Epochs  int // of reclamation, that have ended since then
	Retired int // copies that have been replaced
	Freed   int // of them
}

// String is the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys in %d nodes, %d dead, of %d; %d bytes", s.Len, s.Nodes, s.Dead, s.Room, s.Bytes)
}

// Stats counts, without a pass over the memory.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.Alone(ctx, "Stats", func(now core.Counters) error {
		u := t.policy.engine.usage()
		s = Stats{Len: int(now.Live), Nodes: u.nodes, Dead: u.dead, Room: u.room, Bytes: u.bytes, Kept: u.kept}
		if e, ok := t.policy.engine.(*gpuEngine); ok && e.now().past != nil {
			p := e.now().past
			s.Spare, s.Copied = p.spare(), int(p.known.copied)
			s.Epochs, s.Retired, s.Freed = int(p.epoch.Advanced), int(p.epoch.Retired), int(p.epoch.Freed)
		}
		return nil
	})
	return s, err
}
