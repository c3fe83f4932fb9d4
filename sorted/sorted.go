package sorted

import (
	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Map is an ordered map from K to V in a sorted array. It adds the methods of this package to
// [weft.OrderedMap].
type Map[K weft.Key, V weft.Value] struct {
	*weft.OrderedMap[K, V]
	table
}

// New makes an empty map on dev, which must outlive the map. It returns [weft.ErrOptions],
// [device.ErrMemory], or an error from loading kernels.
func New[K weft.Key, V weft.Value](dev device.Device, opts *Options) (*Map[K, V], error) {
	t, err := newTable(dev, batch.MapWidths[K, V](), core.MapTypes[K, V](), opts)
	if err != nil {
		return nil, err
	}
	return &Map[K, V]{weft.NewOrderedMap[K, V](t.core), t}, nil
}

const name = "sorted"

// table is the core table of a map, with its engine.
type table struct {
	core   *core.Table
	engine engine
}

func newTable(dev device.Device, w batch.Widths, types core.Types, o *Options) (table, error) {
	opts, err := o.check()
	c := core.Config{Name: name, Kind: core.OrderedMap, Device: dev, Widths: w, Types: types, Logger: opts.Logger, ResultLimit: opts.ResultLimit}
	t, err := core.Make(c, err, func(c *core.Config) error {
		e, leases, err := newEngine(c.Device, w, types.Key.Order())
		if err != nil {
			return err
		}
		c.Policy, c.Engine, c.Leases = &policy{engine: e}, e, leases
		return nil
	})
	if err != nil {
		return table{}, err
	}
	return table{t, t.Engine.(engine)}, nil
}
