package mutate

import (
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
)

// memory limits the device memory of a trial. Broken kernels request ever more, and simulated
// memory takes many times its size.
const memory = 64 << 20

// A limited device has at most memory bytes.
type limited struct {
	device.Device
	mu    sync.Mutex
	used  int
	sizes map[device.Ptr]int
}

func limit(dev device.Device) device.Device {
	return &limited{Device: dev, sizes: map[device.Ptr]int{}}
}

func (l *limited) Alloc(size int) (device.Buffer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used+size > memory {
		return device.Buffer{}, fmt.Errorf("mutate: %w: %d bytes beside %d", device.ErrMemory, size, l.used)
	}
	b, err := l.Device.Alloc(size)
	if err == nil {
		l.used += size
		l.sizes[b.Ptr] = size
	}
	return b, err
}

func (l *limited) Free(b device.Buffer) error {
	l.mu.Lock()
	l.used -= l.sizes[b.Ptr]
	delete(l.sizes, b.Ptr)
	l.mu.Unlock()
	return l.Device.Free(b)
}

// NewStream opens a stream of the limited device.
func (l *limited) NewStream() (*device.Stream, error) {
	s, err := l.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(l, s.Driver()), nil
}
