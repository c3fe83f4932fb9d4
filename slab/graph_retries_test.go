package slab

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/alloc"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// graphRetries inserts batches of edges, each edge twice, while the pool has almost no unit, so
// that operations are retried. Only the first operation on an edge may report it as new.
func graphRetries(t testing.TB, dev device.Device, weighted, directed bool, seed uint64) {
	o := GraphOptions{Directed: directed, MaxLoad: []float64{.3, 2, 8}[seed%3], MaxTombstones: -1, Seed: 1 + seed}
	p := newGraphPlayer(t, dev, weighted, o, 120, 300, seed)
	defer p.close()
	for round := range 4 {
		from, to, weights := p.draw()
		from, to, weights = slices.Concat(from, from), slices.Concat(to, to), slices.Concat(weights, weights)
		for i := range weights {
			weights[i] += uint32(i)
		}
		show := narrow(t, p.g, p.r.IntN(3))
		if p.r.IntN(2) == 0 {
			// So that the policy relies on units that do not exist.
			p.g.policy.free = p.g.policy.maxUnitsFor(2 * len(from))
		}
		p.insert(from, to, weights)
		noError(t, show())
		if p.g.Edges() != len(p.model) {
			t.Fatalf("%d edges, want %d", p.g.Edges(), len(p.model))
		}
		if round%2 == 1 {
			p.delete(p.present())
		}
	}
	p.same()
}

// TestGraphRetries checks that the operations of a batch take effect in order even if units or
// memory run out.
func TestGraphRetries(t *testing.T) {
	for i := range 4 {
		weighted, directed := i%2 == 0, i/2 == 0
		t.Run(fmt.Sprintf("weighted %v, directed %v", weighted, directed), func(t *testing.T) {
			for seed := range uint64(3) {
				graphRetries(t, devicetest.Open(t), weighted, directed, seed)
			}
			if !testing.Short() {
				graphRetries(t, devicetest.OpenSim(t, &sim.Options{Arch: 90, Seed: uint64(i), Scheduler: sim.Random}), weighted, directed, uint64(i))
			}
		})
	}
}

// graphHardToFind leaves few free units, all in one of many memory blocks of the pool. Most warps
// do not find any, and the host must detect that.
func graphHardToFind(t testing.TB, dev device.Device, weighted, directed, last bool, seed uint64) {
	p := newGraphPlayer(t, dev, weighted, GraphOptions{Directed: directed, MaxLoad: .3, MaxTombstones: -1, Seed: 1 + seed}, 1200, 0, seed)
	defer p.close()
	n := slotsIn(p.g.policy.widths.Slot)
	to := sequence(100, 100+4*n)
	from := slices.Repeat([]uint32{3}, len(to))
	p.insert(from, to, to)
	p.delete(from, to) // tables full of tombstones
	units := p.g.policy.engine.units()
	noError(t, units.Reserve(t.Context(), 100*alloc.BlockUnits))
	var show func() error
	if last {
		show = narrow(t, p.g, 3*spareUnits)
	} else {
		of := p.g.generation()
		all, err := hide(dev, units, 3*spareUnits)
		noError(t, err)
		show = func() error {
			if p.g.generation() != of {
				return nil
			}
			return all()
		}
	}
	var more, ends, weights []uint32
	for i := range uint32(3) {
		for v := range uint32(6 * n) {
			more, ends, weights = append(more, 3+i%2), append(ends, 1000+v), append(weights, 10*v+i)
		}
	}
	p.insert(more, ends, weights)
	noError(t, show())
	if p.g.Edges() != len(p.model) {
		t.Fatalf("%d edges, want %d", p.g.Edges(), len(p.model))
	}
	p.same()
}

// TestGraphSlabsAreHardToFind checks that such units are found in the end, if the pool may grow or
// if all tables must move.
func TestGraphSlabsAreHardToFind(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for i := range 8 {
		weighted, directed, last := i%2 == 0, i/2%2 == 0, i/4 == 0
		t.Run(fmt.Sprintf("weighted %v, directed %v, pool may grow %v", weighted, directed, !last), func(t *testing.T) {
			graphHardToFind(t, devicetest.OpenSim(t, &sim.Options{Arch: 90}), weighted, directed, last, 1)
		})
	}
}

// graphTombstonesRetry checks that a table with only tombstones remains when all tables move to a
// larger pool, since its edges are then retried.
func graphTombstonesRetry(t testing.TB, dev device.Device, weighted bool) {
	p := newGraphPlayer(t, dev, weighted, GraphOptions{Directed: true, Vertices: 300, MaxLoad: 2, MaxTombstones: -1, Seed: 1}, 300, 0, 1)
	defer p.close()
	n := slotsIn(p.g.policy.widths.Slot)
	from, to := slices.Repeat([]uint32{7}, n), sequence(10, 10+n)
	p.insert(from, to, from)
	p.delete(from, to)
	show := narrow(t, p.g, 0)
	// so that the policy relies on units that do not exist
	p.g.policy.free = p.g.policy.maxUnitsFor(3)
	p.insert([]uint32{7, 7, 7}, []uint32{101, 102, 103}, []uint32{1, 2, 3})
	noError(t, show())
	p.same()
}

func TestGraphTombstonesRetry(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		graphTombstonesRetry(t, devicetest.Open(t), weighted)
		if !testing.Short() {
			graphTombstonesRetry(t, devicetest.OpenSim(t, &sim.Options{Arch: 90}), weighted)
		}
	}
}
