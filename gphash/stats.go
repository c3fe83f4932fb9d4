package gphash

import (
	"context"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// Durability is the kind of failure that acknowledged changes survive. Durability 0 guarantees
// nothing beyond the end of the process.
type Durability int

// Durabilities of an index.
const (
	// Process guarantees that acknowledged changes outlive the process, however the process ends. A
	// pool in a file system in memory does not outlive the machine.
	Process Durability = Durability(pool.Process)
	// PMem guarantees that acknowledged changes also survive a power failure. The memory itself is
	// persistent, and stores are written back from the CPU's caches. For a character device
	// (devdax) the system reports that the memory is persistent. Otherwise the caller must assert
	// it.
	PMem Durability = Durability(pool.PMem)
)

// String returns the name of the durability.
func (d Durability) String() string { return pool.Durability(d).String() }

// MarshalText returns the name of the durability, or [weft.ErrOptions] for an invalid value.
func (d Durability) MarshalText() ([]byte, error) { return pool.Durability(d).MarshalText() }

// UnmarshalText parses a name in upper or lower case, so that flag.TextVar accepts a Durability.
func (d *Durability) UnmarshalText(text []byte) error {
	return (*pool.Durability)(d).UnmarshalText(text)
}

// Stats describes an index at a moment without changes in flight.
type Stats struct {
	Keys  int `json:"keys"`
	Slots int `json:"slots"` // slots in all levels
	// slots of deleted keys, which the next batch may reuse
	Tombs      int     `json:"tombs"`
	LoadFactor float64 `json:"load_factor"` // Keys/Slots
	Levels     int     `json:"levels"`      // number of levels, including draining ones
	Draining   int     `json:"draining"`    // number of levels being drained
	// number of levels drained since the pool was opened
	Resizes int `json:"resizes"`
	// number of batches, since the pool was opened, with operations rerun for lack of space
	Retries    int `json:"retries"`
	PoolBytes  int `json:"pool_bytes"`
	LevelBytes int `json:"level_bytes"`
	ValueBytes int `json:"value_bytes"` // size of the units with values
	RedoBytes  int `json:"redo_bytes"`  // size of the log for atomic batches
	// size of the units that hold neither values nor levels
	FreeBytes int `json:"free_bytes"`

	// CacheBytes is the size of the GPU's cache. CacheHitRate is the share of lookups' reads of
	// buckets or values that the cache has served since it was loaded.
	CacheBytes   int     `json:"cache_bytes,omitempty"`
	CacheHitRate float64 `json:"cache_hit_rate,omitempty"`
}

// Stats returns statistics of the index. It waits for the writer lock.
func (x *Index) Stats(ctx context.Context) (Stats, error) { return stats(ctx, x.core, x.engine) }

// Stats returns statistics of the map. It waits for the writer lock.
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

// Durability returns the durability that the pool provides.
func (x *Index) Durability() Durability { return Durability(x.engine.pool.Durability()) }

// Durability returns the durability that the pool provides.
func (m *Map[K, V]) Durability() Durability { return Durability(m.engine.pool.Durability()) }
