package linear

import (
	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Map is a hash map from K to V. It adds to [weft.Map] the methods that only this structure has.
type Map[K weft.Key, V weft.Value] struct {
	*weft.Map[K, V]
	table
}

// Set is a hash set. Its slots hold only keys, so they are half as large as in a [Map] or smaller.
type Set[K weft.Key] struct {
	*weft.Set[K]
	table
}

// New makes an empty map on dev, which must stay open longer than the map. If opts is nil, the
// defaults apply. New returns [weft.ErrOptions], [device.ErrMemory], or an error from loading
// kernels.
func New[K weft.Key, V weft.Value](dev device.Device, opts *Options) (*Map[K, V], error) {
	t, err := newTable(dev, core.Map, batch.MapWidths[K, V](), core.MapTypes[K, V](), opts)
	if err != nil {
		return nil, err
	}
	return &Map[K, V]{weft.NewMap[K, V](t.core), t}, nil
}

// NewSet makes an empty set on dev, which must stay open longer than the set. Inserts into a set
// reuse the slots of deleted keys with any Options.Tombstones, since a dead slot of a set does not
// hold its key. On a GPU, mixed batches reuse none. For errors see [New].
func NewSet[K weft.Key](dev device.Device, opts *Options) (*Set[K], error) {
	t, err := newTable(dev, core.Set, batch.SetWidths[K](), core.SetTypes[K](), opts)
	if err != nil {
		return nil, err
	}
	return &Set[K]{weft.NewSet[K](t.core), t}, nil
}

type table struct {
	core   *core.Table
	policy *policy
}

func newTable(dev device.Device, kind core.Kind, w batch.Widths, types core.Types, o *Options) (table, error) {
	opts, err := o.check()
	c := core.Config{Name: "linear", Kind: kind, Device: dev, Widths: w, Types: types, Logger: opts.Logger}
	t, err := core.Make(c, err, func(c *core.Config) error {
		lines, ok := linesFor(uint64(opts.Capacity), opts.MaxLoad, w.Slot)
		if !ok {
			return core.Invalid("Capacity %d at load %g needs more than %d GiB",
				opts.Capacity, opts.MaxLoad, core.LinesBytes(maxLines)>>30)
		}
		c.Fixed = opts.Fixed
		e, leases, err := newEngine(c.Device, w, geometry{seed: opts.Seed, lines: lines}, opts.Fixed)
		c.Policy, c.Engine, c.Leases = &policy{opts: opts, widths: w, engine: e, minLines: lines}, e, leases
		return err
	})
	if err != nil {
		return table{}, err
	}
	return table{t, t.Policy.(*policy)}, nil
}
