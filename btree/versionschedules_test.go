package btree

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/dst"
)

// versioned returns schedules for trees with versions. Between batches, snapshots are taken, read
// again and closed.
func versioned[K weft.Key, V weft.Value](v Versions, unordered bool) dst.Config[K, V] {
	cfg := schedulesOf[K, V](&Options{Versions: v, Unordered: unordered})
	look := dst.Upkeep[K, V]{Name: "snapshot", Do: func(x dst.Subject[K, V]) error { return x.(scheduled[K, V]).look() }}
	cfg.Upkeep = append(cfg.Upkeep, look, look, look)
	return cfg
}

// TestVersionSchedules checks trees with versions under any schedule. Some order of the operations
// must explain their results, and a snapshot of the host must keep its content.
func TestVersionSchedules(t *testing.T) {
	for _, v := range []Versions{InPlace, OutOfPlace} {
		name := fmt.Sprintf("versions=%d,", v)
		explore(t, name+"uint32,uint32", versioned[uint32, uint32](v, true), true, 2)
		explore(t, name+"uint64,uint64", versioned[uint64, uint64](v, false), false, 1)
	}
}
