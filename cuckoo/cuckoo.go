package cuckoo

import (
	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Map is a hash map from K to V: a [weft.Map], and what only this structure has.
type Map[K weft.Key, V weft.Value] struct {
	*weft.Map[K, V]
	table
}

// Set is a hash set: a [Map] without values, in slots of half the size.
type Set[K weft.Key] struct {
	*weft.Set[K]
	table
}

// New makes an empty map on a device, which must outlive it. Errors:
// [weft.ErrOptions], [device.ErrMemory], and those of loading kernels.
func New[K weft.Key, V weft.Value](dev device.Device, opts *Options) (*Map[K, V], error) {
	t, err := newTable(dev, core.Map, batch.MapWidths[K, V](), core.MapTypes[K, V](), opts)
	if err != nil {
		return nil, err
	}
	return &Map[K, V]{weft.NewMap[K, V](t.core), t}, nil
}

// NewSet makes an empty set on a device, which must outlive it. Errors as of [New].
func NewSet[K weft.Key](dev device.Device, opts *Options) (*Set[K], error) {
	t, err := newTable(dev, core.Set, batch.SetWidths[K](), core.SetTypes[K](), opts)
	if err != nil {
		return nil, err
	}
	return &Set[K]{weft.NewSet[K](t.core), t}, nil
}

// table is what a map or a set is made of.
type table struct {
	core   *core.Table
	policy *policy
}

func newTable(dev device.Device, kind core.Kind, w batch.Widths, types core.Types, o *Options) (table, error) {
	opts, err := o.check()
	c := core.Config{Name: "cuckoo", Kind: kind, Device: dev, Widths: w, Types: types, Logger: opts.Logger}
	t, err := core.Make(c, err, func(c *core.Config) error {
		l := opts.layout(w.Slot)
		lines, ok := l.linesFor(uint64(opts.Capacity), opts.MaxLoad)
		if !ok {
			return core.Invalid("Capacity %d at load %g needs more than %d GiB",
				opts.Capacity, opts.MaxLoad, core.LinesBytes(l.maxLines())>>30)
		}
		c.Fixed = opts.Fixed
		e, leases, err := newEngine(c.Device, w, l.geometry(opts.Seed, lines), modeOf(&opts, l))
		c.Policy, c.Engine, c.Leases = &policy{opts: opts, layout: l, engine: e, minLines: lines}, e, leases
		return err
	})
	if err != nil {
		return table{}, err
	}
	return table{t, t.Policy.(*policy)}, nil
}
