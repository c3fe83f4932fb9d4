package ordered

import (
	"context"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
)

// cpuEngine runs on the cores of the host. K and V are the stored types of keys and values.
type cpuEngine[K, V word] struct {
	cpu.Engine
	order   K // keys are XORed with order to convert them to stored form and back
	sorter  cpu.Sorter[K]
	mergers sync.Pool
}

func newCPUEngine[K, V word](dev device.Host, order uint64, fill int) (engine, *core.Leases, error) {
	f, err := newForest[K, V](dev, fill)
	if err != nil {
		return nil, nil, err
	}
	e := &cpuEngine[K, V]{Engine: cpu.Engine{Device: dev, Leases: core.NewLeases(f)}, order: K(order)}
	return e, e.Leases, nil
}

func (e *cpuEngine[K, V]) forest() *forest[K, V] { return e.Parts().(*forest[K, V]) }

// Caps implements core.Engine.
func (e *cpuEngine[K, V]) Caps() core.Caps { return core.Caps{Updates: true} }

// Pin implements core.Versioner.
func (e *cpuEngine[K, V]) Pin(context.Context) (version uint64, err error) {
	return e.forest().pin().time, nil
}

// Unpin implements core.Versioner.
func (e *cpuEngine[K, V]) Unpin(_ context.Context, version uint64) error {
	return e.forest().unpin(version)
}

// Clear implements core.Engine.
func (e *cpuEngine[K, V]) Clear(context.Context) error { return e.forest().clear() }

// Extent implements core.Engine. A unit is a leaf.
func (e *cpuEngine[K, V]) Extent(l *core.Lease) (units uint32, rows int) {
	return uint32(l.Parts.(*forest[K, V]).indexAt(l.Version).leaves), leafPairs
}
