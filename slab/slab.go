package slab

import (
	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Map is a hash map from K to V with unique keys. It adds methods to [weft.Map].
type Map[K weft.Key, V weft.Value] struct {
	*weft.Map[K, V]
	table
}

// Set is a hash set of K. A slab of a set has more slots than a slab of a [Map].
type Set[K weft.Key] struct {
	*weft.Set[K]
	table
}

// MultiMap is a hash map from K to V in which a key may have several pairs.
type MultiMap[K weft.Key, V weft.Value] struct {
	*weft.MultiMap[K, V]
	table
}

// New makes an empty map on a device. The device must stay open until the map is closed. New
// returns [weft.ErrOptions], [device.ErrMemory], or an error of loading kernels.
func New[K weft.Key, V weft.Value](dev device.Device, opts *Options) (*Map[K, V], error) {
	t, err := newTable(dev, core.Map, batch.MapWidths[K, V](), core.MapTypes[K, V](), opts)
	if err != nil {
		return nil, err
	}
	return &Map[K, V]{weft.NewMap[K, V](t.core), t}, nil
}

// NewSet makes an empty set on a device. See [New] for the errors.
func NewSet[K weft.Key](dev device.Device, opts *Options) (*Set[K], error) {
	t, err := newTable(dev, core.Set, batch.SetWidths[K](), core.SetTypes[K](), opts)
	if err != nil {
		return nil, err
	}
	return &Set[K]{weft.NewSet[K](t.core), t}, nil
}

// NewMultiMap makes an empty multimap on a device. See [New] for the errors.
func NewMultiMap[K weft.Key, V weft.Value](dev device.Device, opts *Options) (*MultiMap[K, V], error) {
	t, err := newTable(dev, core.MultiMap, batch.MapWidths[K, V](), core.MapTypes[K, V](), opts)
	if err != nil {
		return nil, err
	}
	return &MultiMap[K, V]{weft.NewMultiMap[K, V](t.core), t}, nil
}

// table has the methods that maps, sets and multimaps share.
type table struct {
	core   *core.Table
	policy *policy
}

func newTable(dev device.Device, kind core.Kind, w batch.Widths, types core.Types, o *Options) (table, error) {
	opts, err := o.check()
	c := core.Config{Name: "slab", Kind: kind, Device: dev, Widths: w, Types: types, Logger: opts.Logger, ResultLimit: opts.ResultLimit}
	t, err := core.Make(c, err, func(c *core.Config) error {
		p := &policy{opts: opts, widths: w, multi: kind == core.MultiMap}
		units, err := p.initialUnits()
		if err != nil {
			return err
		}
		g := geometry{seed: opts.Seed, buckets: p.minBuckets}
		if err := checkMemory(c.Device, g, units, opts.Fixed); err != nil {
			return err
		}
		c.Fixed = opts.Fixed
		c.Policy = p
		p.engine, c.Leases, err = newEngine(c.Device, w, g, units, opts.Fixed, p.multi)
		c.Engine = p.engine
		return err
	})
	if err != nil {
		return table{}, err
	}
	return table{t, t.Policy.(*policy)}, nil
}
