// Package cpu holds the parts that the CPU engines of all structures share. It divides operations
// into shares, one for each range of places in a structure, such as lines. Cores run different
// shares at the same time. It also prefetches memory, and writes slots and results. A structure
// embeds [Engine] and adds its own loops.
package cpu

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

type tallied interface{ Tally() *core.Tally }

// Generation is the memory of a table between two rehashes. It embeds [core.Lines].
type Generation interface {
	core.Parts
	tallied
	Memory() *core.Lines
}

// Engine is a [core.Engine] without loops. A structure embeds it and adds its loops. When a method
// returns, its work is done, also for batches on streams.
type Engine struct {
	Device       device.Host
	SlotsPerLine int // number of slots per line, if the memory consists of lines
	// ShortSearchLoad is the load factor up to which searches are short, or 0 if searches are short
	// at any load.
	ShortSearchLoad float64
	// Capacity is the maximum number of pairs in a table with fixed size, and MaxUsed the maximum
	// number of its slots that hold a pair or a deleted pair. 0 means no limit. Whether a table is
	// full follows only from its counters, not from a search for a free slot.
	Capacity, MaxUsed int
	Leases            *core.Leases
	Partitioner       Partitioner
	combiner
}

// Start empties g and makes it the first generation. After an error it frees g.
func (e *Engine) Start(g Generation) (*core.Leases, error) {
	if err := e.Wipe(context.Background(), g); err != nil {
		return nil, errors.Join(err, g.Free())
	}
	e.Leases = core.NewLeases(g)
	return e.Leases, nil
}

// Tuning of lookups.
const (
	// grain is the number of lookups that a core takes at a time. They take a few hundred
	// microseconds.
	grain = 1 << 13

	// getPiece is the maximum number of lookups that are divided among the cores at a time.
	getPiece = 1 << 20
)

// Caps implements [core.Engine].
func (e *Engine) Caps() core.Caps { return core.Caps{} }

// ReadDropped implements [core.Engine]. It returns 0, because Change returns the operations that
// overflow.
func (e *Engine) ReadDropped(context.Context) (int, error) { return 0, nil }

// Close implements [core.Engine].
func (e *Engine) Close() error { return nil }

// Current implements [core.Engine].
func (e *Engine) Current() *core.Lease { return e.Leases.Current() }

// Parts returns the current generation. The caller holds the writer lock.
func (e *Engine) Parts() core.Parts { return e.Current().Parts }

// ReadCounters implements [core.Engine].
func (e *Engine) ReadCounters(context.Context) (core.Counters, error) {
	c := e.Parts().(tallied).Tally()
	return core.Counters{Live: c.Live, Used: c.Used}, nil
}

// AddPairs implements [core.Engine].
func (e *Engine) AddPairs(_ *device.Stream, to device.Slice[uint64], negate bool) error {
	n := e.Parts().(tallied).Tally().Live
	if negate {
		n = -n
	}
	// atomic, because lookups and other tables may add to it, too
	atomic.AddUint64(&to.Host()[0], n)
	return nil
}

// Clear implements [core.Engine].
func (e *Engine) Clear(ctx context.Context) error { return e.Wipe(ctx, e.Parts().(Generation)) }

// Extent implements [core.Engine].
func (e *Engine) Extent(l *core.Lease) (units uint32, rows int) {
	return l.Parts.(Generation).Memory().Units(), e.SlotsPerLine
}

// Move empties a new generation, calls move to copy the pairs into it, and makes it the current
// generation. After an error it frees the new generation.
func (e *Engine) Move(ctx context.Context, to Generation, move func() error) error {
	err := e.Wipe(ctx, to)
	if err == nil {
		err = move()
	}
	if err != nil {
		return errors.Join(err, to.Free())
	}
	return e.Leases.Replace(to)
}

// SyncStream waits until the work submitted to s is done. It returns an error if s is unusable. s
// may be nil.
func SyncStream(s *device.Stream) error {
	if s == nil {
		return nil
	}
	return s.Sync(context.Background())
}

// RunLookup runs a lookup of n keys in ranges, on all cores, until ctx ends. body looks up keys
// [lo,hi). If its watch stops it, ran is the number of keys from lo on that it has looked up. done
// is the length of the prefix of keys that was looked up, and hits the number of present keys in
// it.
func (e *Engine) RunLookup(ctx context.Context, n int, body func(w *Watch, lo, hi int) (ran, hits int)) (done, hits int, err error) {
	type result struct{ end, hits int }
	results := make([]result, (min(n, getPiece)+grain-1)/grain)
	for done < n {
		size := min(getPiece, n-done)
		e.Device.Parallel(size, grain, func(lo, hi int) {
			w := NewWatch(ctx)
			ran, hits := body(&w, done+lo, done+hi)
			results[lo/grain] = result{lo + ran, hits}
		})
		for lo := 0; lo < size; lo += grain {
			r := results[lo/grain]
			hits += r.hits
			if r.end < min(lo+grain, size) {
				return done + r.end, hits, ctx.Err()
			}
		}
		done += size
	}
	return done, hits, nil
}

// Wipe makes all lines of a generation empty, on all cores. If ctx ends first, Wipe returns the
// error of ctx.
func (e *Engine) Wipe(ctx context.Context, g Generation) error {
	lines := g.Memory()
	*lines.Tally() = core.Tally{}
	words := batch.View[uint64](lines.Buf.Host[:lines.Bytes()])
	var stopped atomic.Bool
	e.Device.Parallel(len(words), 1<<17, func(lo, hi int) {
		if ctx.Err() != nil {
			stopped.Store(true)
			return
		}
		part := words[lo:hi]
		for i := range part {
			part[i] = ^uint64(0)
		}
	})
	if stopped.Load() {
		return ctx.Err()
	}
	return nil
}
