package cuckoo

import (
	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/bucket"
	"github.com/weftgo/weft/internal/core"
)

// Map is a hash map from K to V. It adds the methods of this package to [weft.Map].
type Map[K weft.Key, V weft.Value] struct {
	*weft.Map[K, V]
	table
}

// Set is a hash set. Its slots have only a key, so they have half the size of a [Map]'s slots.
type Set[K weft.Key] struct {
	*weft.Set[K]
	table
}

// New makes an empty map on dev, which must outlive the map. It returns [weft.ErrOptions],
// [device.ErrMemory], or an error from loading kernels.
func New[K weft.Key, V weft.Value](dev device.Device, opts *Options) (*Map[K, V], error) {
	t, err := newTable(dev, core.Map, batch.MapWidths[K, V](), core.MapTypes[K, V](), opts)
	if err != nil {
		return nil, err
	}
	return &Map[K, V]{weft.NewMap[K, V](t.core), t}, nil
}

// NewSet makes an empty set on dev, which must outlive the set. Its errors are those of [New].
func NewSet[K weft.Key](dev device.Device, opts *Options) (*Set[K], error) {
	t, err := newTable(dev, core.Set, batch.SetWidths[K](), core.SetTypes[K](), opts)
	if err != nil {
		return nil, err
	}
	return &Set[K]{weft.NewSet[K](t.core), t}, nil
}

const name = "cuckoo"

// table is the part that maps and sets share.
type table struct {
	core   *core.Table
	engine engine
	mode
}

func newTable(dev device.Device, kind core.Kind, w batch.Widths, types core.Types, o *Options) (table, error) {
	opts, err := o.check()
	m := opts.mode(w.Slot)
	c := core.Config{Name: name, Kind: kind, Device: dev, Widths: w, Types: types, Logger: opts.Logger}
	t, err := core.Make(c, err, func(c *core.Config) error {
		config := opts.policy(m.layout)
		first, err := config.First()
		if err != nil {
			return err
		}
		e, leases, err := newEngine(c.Device, w, first, m)
		if err != nil {
			return err
		}
		c.Policy, c.Engine, c.Leases, c.Fixed = bucket.NewPolicy(config, e), e, leases, opts.Fixed
		return nil
	})
	if err != nil {
		return table{}, err
	}
	return table{t, t.Engine.(engine), m}, nil
}
