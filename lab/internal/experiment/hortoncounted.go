package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/workload"
)

// countedTable is the size of the largest table in which a simulated GPU counts the requests of
// lookups. A larger table of the same load needs as many requests.
const countedTable = 64 << 10

// Requested is the average number of memory requests per lookup to a table's buckets. A simulated
// GPU, which has no caches, counts them.
type Requested struct {
	Sectors float64 `json:"sectors"` // sectors of 32 bytes
	Lines   float64 `json:"lines"`   // lines of 128 bytes that contain the sectors
}

// requests counts the requests to a part of memory.
type requests struct {
	part           device.Buffer
	sectors, lines int
}

func (c *requests) add(r sim.Request) {
	sectors, lines := r.CountIn(c.part.Ptr, c.part.Size)
	c.sectors, c.lines = c.sectors+sectors, c.lines+lines
}

// countRequests counts requests on a simulated GPU. It looks up all n present keys of a table, and
// then n absent keys. kindOn returns the kind of table for a runner.
func countRequests(ctx context.Context, kindOn func(*runner) kind[uint32, uint32], seed uint64, n int, load float64) (hit, miss Requested, err error) {
	count := &requests{}
	dev, err := sim.Open(&sim.Options{Requests: count.add})
	if err != nil {
		return hit, miss, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	s := &countedLookups{requests: count, dev: dev}
	r := &runner{Config: Config{Device: dev, Seed: seed}}
	full, err := kindOn(r).with(n, load, func(t subject[uint32, uint32]) (err error) {
		if err = s.fill(ctx, t, seed, n); err != nil {
			return err
		}
		if hit, err = s.lookup(ctx, t, seed, 0); err != nil {
			return err
		}
		miss, err = s.lookup(ctx, t, seed, workload.Misses)
		return err
	})
	if full {
		err = fmt.Errorf("%w: no room for %d keys on the simulator", device.ErrInvalid, n)
	}
	return hit, miss, err
}

// countedLookups looks up as many keys as a table has.
type countedLookups struct {
	*requests
	dev    *sim.Device
	stream *device.Stream
	host   []uint32

	keys, vals device.Slice[uint32]
	found      device.Slice[bool]
}

// fill puts n keys into the table and finds the memory of its buckets.
func (s *countedLookups) fill(ctx context.Context, t subject[uint32, uint32], seed uint64, n int) (err error) {
	s.host = make([]uint32, n)
	workload.Unique(s.host, seed, 0)
	if s.stream, err = s.dev.NewStream(); err != nil {
		return err
	}
	if s.keys, err = device.Upload(s.stream, s.host); err != nil {
		return err
	}
	if s.vals, err = device.Upload(s.stream, s.host); err != nil {
		return err
	}
	if s.found, err = device.Make[bool](s.dev, n); err != nil {
		return err
	}
	var row Row
	if err := errors.Join(t.put(s.stream, s.keys, s.vals), t.Sync(ctx), t.describe(ctx, &row)); err != nil {
		return err
	}
	size, blocks := int(*row.BytesPerEntry*float64(n)+.5), 0
	for _, b := range s.dev.Blocks() {
		if b.Size == size {
			s.part, blocks = b, blocks+1
		}
	}
	if blocks != 1 {
		return fmt.Errorf("%d blocks of memory are as large as the table, %d bytes", blocks, size)
	}
	s.part.Size -= 2 * core.LineBytes // sentinels and counters
	return nil
}

// lookup looks up as many keys as the table has. from is the counter of the first key.
func (s *countedLookups) lookup(ctx context.Context, t subject[uint32, uint32], seed, from uint64) (Requested, error) {
	workload.Unique(s.host, seed, from)
	if err := errors.Join(s.keys.CopyFrom(s.stream, s.host), s.stream.Sync(ctx)); err != nil {
		return Requested{}, err
	}
	s.sectors, s.lines = 0, 0
	if err := errors.Join(t.get(s.stream, s.keys, s.vals, s.found), s.stream.Sync(ctx)); err != nil {
		return Requested{}, err
	}
	n := float64(len(s.host))
	return Requested{float64(s.sectors) / n, float64(s.lines) / n}, nil
}
