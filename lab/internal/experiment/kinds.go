package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/bucketmodel"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

// kind is a kind of hash table. Experiments that compare several kinds use it.
type kind[K weft.Key, V weft.Value] struct {
	name string
	// bound is the maximum load to open a table for. The load of a slab hash is its memory
	// utilization.
	bound float64
	// wide means that a lookup reads slabs of 128 bytes.
	wide bool
	// open opens a table that n keys fill to the given load.
	open func(n int, load float64) (subject[K, V], error)
}

// The names of tables that have buckets of eight slots.
const (
	cuckooFirst = "cuckoo first fit"
	cuckooEven  = "cuckoo load balancing"
	hortonLazy  = "horton"
	hortonEager = "horton eager"
	kindSlots   = 8
	linearBound = .98 // above, searches for absent keys read hundreds of lines
)

func linearKind[K weft.Key, V weft.Value](r *runner) kind[K, V] {
	return kind[K, V]{name: "linear", bound: linearBound, open: func(n int, load float64) (subject[K, V], error) {
		return openLinear[K, V](r.Device, &linear.Options{Capacity: n, MaxLoad: load, Fixed: true, Unordered: true, Seed: r.Seed + 1})
	}}
}

// slabKind opens slab hashes. The bound is the maximum load in slab.Options.
func slabKind[K weft.Key, V weft.Value](r *runner) kind[K, V] {
	bound := .93
	if slotBytes[K, V]() > slabPair {
		bound = .86
	}
	return kind[K, V]{name: "slab", bound: bound, wide: true, open: func(n int, load float64) (subject[K, V], error) {
		return openSlab[K, V](r.Device, &slab.Options{Capacity: n, MaxLoad: load, Fixed: true, Unordered: true, Seed: r.Seed + 1})
	}}
}

// cuckooKind opens cuckoo tables with the given policy. Lookups stop at the first hit.
func cuckooKind[K weft.Key, V weft.Value](r *runner, name string, policy cuckoo.Policy) kind[K, V] {
	return kind[K, V]{name: name, bound: .98, open: func(n int, load float64) (subject[K, V], error) {
		return openCuckoo[K, V](r.Device, &cuckoo.Options{
			Capacity: n, MaxLoad: load, Fixed: true, Slots: kindSlots, Policy: policy, Unordered: true, Seed: r.Seed + 1,
		})
	}}
}

// hortonKind opens Horton tables with the given way to reclaim.
func hortonKind[K weft.Key, V weft.Value](r *runner, name string, reclaim horton.Reclaim) kind[K, V] {
	return kind[K, V]{name: name, bound: hortonBound(kindSlots), open: func(n int, load float64) (subject[K, V], error) {
		return openHorton[K, V](r.Device, &horton.Options{
			Capacity: n, MaxLoad: load, Fixed: true, Slots: kindSlots, Reclaim: reclaim, Unordered: true, Seed: r.Seed + 1,
		})
	}}
}

// hortonBound returns the maximum load for a bucket size: the Horton paper's maximum (section 6.2)
// or, for sizes without one, the maximum that the model allows, rounded down to hundredths.
func hortonBound(slots int) float64 {
	switch slots {
	case 4:
		return .91
	case 8:
		return .95
	case 16:
		return .96
	}
	return float64(int(100*bucketmodel.Feasible(slots))) / 100
}

// openHorton opens a map of package horton. Its rows contain the load that it has reached.
func openHorton[K weft.Key, V weft.Value](dev device.Device, o *horton.Options) (subject[K, V], error) {
	m, err := horton.New[K, V](dev, o)
	if err != nil {
		return nil, err
	}
	model := bucketmodel.Horton{Slots: o.Slots, Tags: bucketmodel.Entries(slotBytes[K, V]())}
	return mapSubject[K, V]{m.Map, func(ctx context.Context, row *Row) error {
		s, err := m.Stats(ctx)
		model := model
		row.Load, model.Load = s.Load, s.Load
		row.BytesPerEntry = figure(float64(s.Bytes) / float64(s.Len))
		buckets := float64(s.Slots / o.Slots)
		row.Measured = &Reads{
			PerHit: s.PerHit, PerMiss: s.PerMiss, PerInsert: s.PerInsert,
			TypeB: s.TypeB, Overhead: s.TypeB / float64(o.Slots), Entries: float64(s.Entries) / buckets,
		}
		row.Model = &Reads{
			PerHit: model.PerHit(), PerMiss: model.PerMiss(), PerInsert: model.PerInsert(bucketmodel.Functions),
			TypeB: model.TypeB(), Overhead: model.Overhead(), Entries: model.EntriesSet(),
		}
		return err
	}}, nil
}

// with opens a table for n keys at the given load and calls body. full reports whether some keys
// did not fit.
func (k kind[K, V]) with(n int, load float64, body func(subject[K, V]) error) (full bool, err error) {
	t, err := k.open(n, load)
	if err == nil {
		err = body(t)
		full = errors.Is(err, weft.ErrFull)
		if full {
			err = nil
		}
		err = errors.Join(err, t.Close())
	}
	if err != nil {
		err = fmt.Errorf("%s at load %g: %w", k.name, load, err)
	}
	return full, err
}
