package alloc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/dst"
)

// TestOmissionsAreNoticed omits each call by which the host orders streams or waits for them. The
// programs must detect each omission.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	needless := map[string]string{
		"e.stream.CopyOut(context.WithoutCancel(ctx), device.Bytes(units[lo:hi]), e.units.Ptr()) in (*gpuEngine).allocate": "the count that is read behind it waits for both",
	}
	closed := dst.ClosedStreamTry(func(dev device.Device) (pooled, error) {
		a, err := openOwner(dev, nil)
		return pooled{a}, err
	}, func(a pooled, s *device.Stream, units device.Slice[uint32]) map[string]error {
		return map[string]error{"AllocateOn": a.AllocateOn(s, units), "FreeOn": a.FreeOn(s, units)}
	})
	dst.Omit(t, ".", needless, closed, useAllocator)
}

// pooled is an owner that closes its pool when it is closed.
type pooled struct{ *Owner }

func (p pooled) Close() error { return p.pool.Close() }

// useAllocator runs programs with an allocator, with batches of several streams and of the host. No
// unit may be allocated twice, and the number of taken units must be right.
func useAllocator(wrap func(device.Device) device.Device) error {
	for seed := range uint64(12) {
		if err := runAllocProgram(wrap, seed); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return nil
}

func TestAllocOverlaps(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	if err := useAllocator(func(dev device.Device) device.Device { return dev }); err != nil {
		t.Error(err)
	}
}

func runAllocProgram(wrap func(device.Device) device.Device, seed uint64) error {
	gpu, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed, Races: true})
	if err != nil {
		return err
	}
	defer gpu.Close()
	p := &allocProgram{dev: wrap(gpu), rng: rand.New(rand.NewPCG(seed, 2)), taken: map[uint32]bool{}}
	if p.a, err = openOwner(p.dev, &Options{Blocks: 1, SuperBlocks: 1, MaxSuperBlocks: 3}); err != nil {
		return err
	}
	for range 2 {
		s, err := p.dev.NewStream()
		if err != nil {
			return err
		}
		p.streams = append(p.streams, s)
	}
	for range 20 {
		if err := p.step(); err != nil {
			return err
		}
	}
	if err := p.submit(0); err != nil {
		return err
	}
	return p.a.pool.Close()
}

// allocProgram uses an allocator at random.
type allocProgram struct {
	dev     device.Device
	rng     *rand.Rand
	a       *Owner
	streams []*device.Stream
	batches []device.Slice[uint32] // batches allocated on streams
	on      []int                  // stream of each batch
	taken   map[uint32]bool        // units with addresses that the host has read
}

func (p *allocProgram) step() error {
	ctx := context.Background()
	switch p.rng.IntN(8) {
	case 0, 1, 2:
		return p.submit(p.rng.IntN(len(p.streams)))
	case 3:
		return p.freeUnits()
	case 4:
		units := make([]uint32, 1+p.rng.IntN(40))
		if _, err := p.a.Allocate(ctx, units); err != nil {
			return err
		}
		return p.record(units)
	case 5:
		units := slices.Sorted(maps.Keys(p.taken))
		units = units[:min(len(units), 10)]
		for _, u := range units {
			delete(p.taken, u)
		}
		_, err := p.a.Free(ctx, units)
		return err
	case 6:
		return p.count()
	}
	return p.clear()
}

// submit fills a batch on a stream.
func (p *allocProgram) submit(stream int) error {
	units, err := device.Make[uint32](p.dev, 1+p.rng.IntN(60))
	if err != nil {
		return err
	}
	p.batches, p.on = append(p.batches, units), append(p.on, stream)
	return p.a.AllocateOn(p.streams[stream], units)
}

// freeUnits frees the oldest batch on its stream.
func (p *allocProgram) freeUnits() error {
	if len(p.batches) == 0 {
		return nil
	}
	units, s := p.batches[0], p.streams[p.on[0]]
	p.batches, p.on = p.batches[1:], p.on[1:]
	got := make([]uint32, units.Len())
	if err := errors.Join(units.CopyTo(context.Background(), s, got), p.record(got)); err != nil {
		return err
	}
	for _, u := range got {
		delete(p.taken, u)
	}
	// In the second batch no unit is taken any more.
	return errors.Join(p.a.FreeOn(s, units), p.a.FreeOn(s, units), s.Sync(context.Background()), units.Free())
}

func (p *allocProgram) record(units []uint32) error {
	for _, u := range units {
		if u == NoUnit || p.taken[u] {
			return fmt.Errorf("unit %#x is given out, and is taken: %v", u, p.taken[u])
		}
		p.taken[u] = true
	}
	return nil
}

// count compares the number of taken units with the expected one.
func (p *allocProgram) count() error {
	s, err := p.a.Usage(context.Background())
	want := len(p.taken)
	for _, units := range p.batches {
		want += units.Len()
	}
	if err == nil && s.Used != want {
		err = fmt.Errorf("%d units are taken, %d should be", s.Used, want)
	}
	return err
}

func (p *allocProgram) clear() error {
	if err := p.a.Clear(context.Background()); err != nil {
		return err
	}
	var err error
	for _, units := range p.batches {
		err = errors.Join(err, units.Free())
	}
	p.batches, p.on = nil, nil
	clear(p.taken)
	return errors.Join(err, p.count())
}
