package graph

import (
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

// memory is a generation of a graph's memory: records, the bitmap of present vertices, and the pool
// of blocks. Each area grows in place.
type memory struct {
	shape
	records, alive, pool area
}

// maxUnits is the maximum number of units, which have 32-bit numbers.
const maxUnits = 1<<32 - 1

func newMemory(dev device.Device, s shape, vertices int) (*memory, error) {
	free, err := dev.Memory()
	if err != nil {
		return nil, err
	}
	m := &memory{shape: s}
	for _, a := range []struct {
		*area
		maxBytes uint64
	}{
		{&m.records, uint64(vertices) * recordBytes}, {&m.alive, uint64(bitmapBytes(vertices))}, {&m.pool, uint64(maxUnits) * uint64(s.unit())},
	} {
		if err := a.open(dev, min(free.Total, a.maxBytes)); err != nil {
			return nil, errors.Join(err, m.Free())
		}
	}
	return m, nil
}

// Free implements core.Parts.
func (m *memory) Free() error {
	return errors.Join(m.records.free(), m.alive.free(), m.pool.free())
}

func (m *memory) view(vertices int) *view {
	return &view{m.shape, m.records.buf, m.alive.buf, m.pool.buf, vertices}
}

func memoryOf(l *core.Lease) *memory { return l.Parts.(*memory) }

// area is memory that grows in place, or by copying if the system cannot reserve address ranges.
type area struct {
	dev      device.Device
	rng      device.Range
	maxBytes int // size of the address range in bytes
	buf      device.Buffer
	moved    []device.Buffer // previous buffers, which snapshots may read
}

func (a *area) open(dev device.Device, maxBytes uint64) (err error) {
	a.dev, a.maxBytes = dev, int(maxBytes)
	a.rng, err = dev.Reserve(int(maxBytes))
	if errors.Is(err, device.ErrUnsupported) {
		a.rng, err = nil, nil
	}
	return err
}

// grow grows the area to at least the given size in bytes. The content of the new part is
// undefined.
func (a *area) grow(bytes int) error {
	if bytes <= a.buf.Size {
		return nil
	}
	if a.rng == nil {
		return a.move(bytes)
	}
	if bytes > a.maxBytes {
		return fmt.Errorf("%w: %d bytes, and the device has %d", device.ErrMemory, bytes, a.maxBytes)
	}
	// Grow by an eighth more, so that gradual growth rarely calls the driver.
	err := a.rng.Resize(bytes + a.buf.Size/8)
	if err != nil {
		err = a.rng.Resize(bytes)
	}
	if err == nil {
		a.buf = a.rng.Buffer()
	}
	return err
}

func (a *area) move(bytes int) error {
	host, ok := a.dev.(device.Host)
	if !ok {
		return fmt.Errorf("graphs need address ranges on a GPU: %w", device.ErrUnsupported)
	}
	buf, err := host.Alloc(max(bytes, 2*a.buf.Size))
	if err != nil {
		return err
	}
	copy(buf.Host, a.buf.Host)
	if a.buf.Size > 0 {
		a.moved = append(a.moved, a.buf)
	}
	a.buf = buf
	return nil
}

func (a *area) free() (err error) {
	if a.rng != nil {
		return a.rng.Free()
	}
	if a.buf.Size > 0 {
		a.moved = append(a.moved, a.buf)
	}
	for _, b := range a.moved {
		err = errors.Join(err, a.dev.Free(b))
	}
	a.buf, a.moved = device.Buffer{}, nil
	return err
}
