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
	Bytes int // of memory; what only snapshots hold is not counted
}

// String is the statistics in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d keys in %d nodes, %d dead, of %d; %d bytes", s.Len, s.Nodes, s.Dead, s.Room, s.Bytes)
}

// Stats counts, without a pass over the memory.
func (t *table) Stats(ctx context.Context) (s Stats, err error) {
	err = t.core.Alone(ctx, "Stats", func(now core.Counters) error {
		u := t.policy.engine.usage()
		s = Stats{Len: int(now.Live), Nodes: u.nodes, Dead: u.dead, Room: u.room, Bytes: u.bytes}
		return nil
	})
	return s, err
}
