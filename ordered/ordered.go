package ordered

import (
	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// Map is an ordered map from K to V. It adds the methods of this package to [weft.OrderedMap].
type Map[K weft.Key, V weft.Value] struct {
	*weft.OrderedMap[K, V]
	core   *core.Table
	policy *policy
}

// New makes an empty map on dev, which must outlive the map. It returns [weft.ErrOptions],
// [device.ErrMemory], or an error of [device.Device.Load].
func New[K weft.Key, V weft.Value](dev device.Device, opts *Options) (*Map[K, V], error) {
	o, err := opts.check()
	c := core.Config{
		Name: "ordered", Kind: core.OrderedMap, Device: dev, Widths: batch.MapWidths[K, V](), Types: core.MapTypes[K, V](),
		Logger: o.Logger, ResultLimit: o.ResultLimit,
	}
	t, err := core.Make(c, err, func(c *core.Config) error {
		e, leases, err := newEngine(c.Device, c.Widths, c.Types.Key.Order(), fillOf(o.Fill))
		if err != nil {
			return err
		}
		p := &policy{opts: o, engine: e}
		c.Policy, c.Engine, c.Leases = p, e, leases
		if err := e.ensure(o.Capacity); err != nil {
			return closeUnused(e, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Map[K, V]{weft.NewOrderedMap[K, V](t), t, t.Policy.(*policy)}, nil
}
