package gphash

import (
	"context"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// Durability says what outlives what. 0: nothing outlives the process for sure.
type Durability int

// The durabilities.
const (
	// Process: what a call has done when it returns outlives the process, however that
	// ends. A pool in a file system in memory does not outlive the machine.
	Process Durability = Durability(pool.Process)
	// PMem: it outlives a power failure, too: memory that is persistent by itself, out of
	// the caches of the CPU, which what is stored is written back from. The system tells
	// so of a character device (devdax), or who opens the pool asserts it.
	PMem Durability = Durability(pool.PMem)
)

// String returns the name of the durability.
func (d Durability) String() string { return pool.Durability(d).String() }

// MarshalText returns the name, or [weft.ErrOptions] if there is no such durability.
func (d Durability) MarshalText() ([]byte, error) { return pool.Durability(d).MarshalText() }

// UnmarshalText reads a name, in upper or lower case, so flag.TextVar takes a Durability.
func (d *Durability) UnmarshalText(text []byte) error {
	return (*pool.Durability)(d).UnmarshalText(text)
}

// Stats describe an index as it was when nothing was under way.
type Stats struct {
	Keys       int     `json:"keys"`
	Slots      int     `json:"slots"`       // of all levels
	Tombs      int     `json:"tombs"`       // slots of deleted keys that the next batch may use again
	LoadFactor float64 `json:"load_factor"` // Keys/Slots
	Levels     int     `json:"levels"`      // those that are drained, too
	Draining   int     `json:"draining"`    // levels that are drained
	Resizes    int     `json:"resizes"`     // levels that have been drained since the pool was opened
	Retries    int     `json:"retries"`     // batches whose operations without space were run again, likewise
	PoolBytes  int     `json:"pool_bytes"`
	LevelBytes int     `json:"level_bytes"`
	ValueBytes int     `json:"value_bytes"` // of units that have values
	RedoBytes  int     `json:"redo_bytes"`  // of the log of atomic batches
	FreeBytes  int     `json:"free_bytes"`  // of units that have none, and belong to no level

	// Of the cache of a GPU: what it takes, and the share of the buckets, or values, that lookups have read
	// in it since it was loaded.
	CacheBytes   int     `json:"cache_bytes,omitempty"`
	CacheHitRate float64 `json:"cache_hit_rate,omitempty"`
}

// Stats waits for its turn.
func (x *Index) Stats(ctx context.Context) (Stats, error) { return stats(ctx, x.core, x.engine) }

// Stats waits for its turn.
func (m *Map[K, V]) Stats(ctx context.Context) (Stats, error) { return stats(ctx, m.core, m.engine) }

func stats(ctx context.Context, t *core.Table, e *engine) (s Stats, err error) {
	err = t.Alone(ctx, "Stats", func(now core.Counters) error {
		if err := e.fetch(); err != nil {
			return err
		}
		slots := e.slotsIn(e.live)
		s = Stats{
			Keys: int(now.Live), Slots: int(slots), Tombs: int(now.Dead), LoadFactor: float64(now.Live) / float64(slots),
			Levels: len(e.live), Draining: e.closed, Resizes: int(e.resizes), Retries: int(e.retries), PoolBytes: int(e.mem.Words() * pm.Word),
		}
		for i := range e.values.space.owner {
			switch o := &e.values.space.owner[i]; {
			case e.redo != nil && e.redo.inUnit(e.values, uint64(i)):
				s.RedoBytes += int(e.values.unit * pm.Word)
			case o.level:
				s.LevelBytes += int(e.values.unit * pm.Word)
			case o.free():
				s.FreeBytes += int(e.values.unit * pm.Word)
			default:
				s.ValueBytes += int(e.values.unit * pm.Word)
			}
		}
		if g, ok := e.far.(*gpuEngine); ok {
			return g.cacheStats(ctx, &s)
		}
		return nil
	})
	return s, err
}

// Durability is what the pool has been granted.
func (x *Index) Durability() Durability { return Durability(x.engine.pool.Durability()) }

// Durability is what the pool has been granted.
func (m *Map[K, V]) Durability() Durability { return Durability(m.engine.pool.Durability()) }
