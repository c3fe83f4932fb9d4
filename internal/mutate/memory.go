package mutate

import (
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
)

// maxMemory limits the device memory of a trial. Broken kernels may request more and more memory,
// and simulated memory takes many times its size.
const maxMemory = 64 << 20

// limitedDevice wraps a device and allocates at most maxMemory bytes of its memory.
type limitedDevice struct {
	device.Device
	mu    sync.Mutex
	used  int
	sizes map[device.Ptr]int
}

func limitMemory(dev device.Device) device.Device {
	return &limitedDevice{Device: dev, sizes: map[device.Ptr]int{}}
}

func (l *limitedDevice) Alloc(size int) (device.Buffer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used+size > maxMemory {
		return device.Buffer{}, fmt.Errorf("mutate: %w: %d bytes beside %d", device.ErrMemory, size, l.used)
	}
	b, err := l.Device.Alloc(size)
	if err == nil {
		l.used += size
		l.sizes[b.Ptr] = size
	}
	return b, err
}

func (l *limitedDevice) Free(b device.Buffer) error {
	l.mu.Lock()
	l.used -= l.sizes[b.Ptr]
	delete(l.sizes, b.Ptr)
	l.mu.Unlock()
	return l.Device.Free(b)
}

// NewStream opens a stream that belongs to l.
func (l *limitedDevice) NewStream() (*device.Stream, error) {
	s, err := l.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(l, s.Driver()), nil
}
