package gphash

import (
	"context"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// Durability is the kind of failure that stores survive. 0: nothing is guaranteed to outlive the
// process.
type Durability int

// Durabilities of an index.
const (
	// Process: what a call has done when it returns outlives the process, however that ends. A pool
	// in a file system in memory does not outlive the machine.
	Process Durability = Durability(pool.Process)
	// PMem: it survives a power failure, too. The memory is persistent by itself, and stores are
	// written back to it out of the caches of the CPU. For a character device (devdax) the system
	// reports that; otherwise the opener of the pool asserts it.
	PMem Durability = Durability(pool.PMem)
)

// String returns the name of the durability.
func (d Durability) String() string { return pool.Durability(d).String() }

// MarshalText returns the name, or [weft.ErrOptions] for an invalid value.
func (d Durability) MarshalText() ([]byte, error) { return pool.Durability(d).MarshalText() }

// UnmarshalText parses a name in upper or lower case, so flag.TextVar accepts a Durability.
func (d *Durability) UnmarshalText(text []byte) error {
	return (*pool.Durability)(d).UnmarshalText(text)
}

// Stats describe an index at a moment without changes in flight.
type Stats struct {
	Keys  int `json:"keys"`
	Slots int `json:"slots"` // of all levels
	// slots of deleted keys, reusable by the next batch
	Tombs      int     `json:"tombs"`
	LoadFactor float64 `json:"load_factor"` // Keys/Slots
	Levels     int     `json:"levels"`      // including draining ones
	Draining   int     `json:"draining"`    // levels being drained
	// levels drained since the pool was opened
	Resizes int `json:"resizes"`
	// batches with operations rerun for lack of space, since the pool was opened
	Retries    int `json:"retries"`
	PoolBytes  int `json:"pool_bytes"`
	LevelBytes int `json:"level_bytes"`
	ValueBytes int `json:"value_bytes"` // units of values
	RedoBytes  int `json:"redo_bytes"`  // log of atomic batches
	// units without values that belong to no level
	FreeBytes int `json:"free_bytes"`

	// The cache of a GPU: its size, and the share of the bucket or value reads of lookups that it
	// has served since it was loaded.
	CacheBytes   int     `json:"cache_bytes,omitempty"`
	CacheHitRate float64 `json:"cache_hit_rate,omitempty"`
}

// Stats returns statistics. It waits for the writer lock.
func (x *Index) Stats(ctx context.Context) (Stats, error) { return stats(ctx, x.core, x.engine) }

// Stats returns statistics. It waits for the writer lock.
func (m *Map[K, V]) Stats(ctx context.Context) (Stats, error) { return stats(ctx, m.core, m.engine) }

func stats(ctx context.Context, t *core.Table, e *engine) (s Stats, err error) {
	err = t.WithWriteLock(ctx, "Stats", func(now core.Counters) error {
		if err := e.fetchSpace(); err != nil {
			return err
		}
		slots := e.slotsIn(e.live)
		s = Stats{
			Keys: int(now.Live), Slots: int(slots), Tombs: int(now.Dead), LoadFactor: float64(now.Live) / float64(slots),
			Levels: len(e.live), Draining: e.closed, Resizes: int(e.nResizes), Retries: int(e.nRetries), PoolBytes: int(e.mem.Words() * pm.Word),
		}
		for i := range e.values.space.owner {
			switch o := &e.values.space.owner[i]; {
			case e.redo != nil && e.redo.hasUnit(e.values, uint64(i)):
				s.RedoBytes += int(e.values.unit * pm.Word)
			case o.isLevel:
				s.LevelBytes += int(e.values.unit * pm.Word)
			case o.free():
				s.FreeBytes += int(e.values.unit * pm.Word)
			default:
				s.ValueBytes += int(e.values.unit * pm.Word)
			}
		}
		if g, ok := e.accel.(*gpuEngine); ok {
			return g.cacheStats(ctx, &s)
		}
		return nil
	})
	return s, err
}

// Durability returns the durability that the pool has been granted.
func (x *Index) Durability() Durability { return Durability(x.engine.pool.Durability()) }

// Durability returns the durability that the pool has been granted.
func (m *Map[K, V]) Durability() Durability { return Durability(m.engine.pool.Durability()) }
