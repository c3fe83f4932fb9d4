package devicetest

import (
	"sync"
	"testing"

	"github.com/weftgo/weft/device"
)

// Launches wraps a device and records the kernels launched on its streams.
type Launches struct {
	device.Device
	mu       sync.Mutex
	launched map[string]bool
}

// NewLaunches wraps dev, which must not be a [device.Host].
func NewLaunches(dev device.Device) *Launches {
	return &Launches{Device: dev, launched: map[string]bool{}}
}

// NewStream implements [device.Device].
func (l *Launches) NewStream() (*device.Stream, error) {
	s, err := l.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(l, &launchStream{s.Driver(), l}), nil
}

type launchStream struct {
	device.StreamDriver
	to *Launches
}

func (s *launchStream) Launch(k device.Kernel, grid, block device.Dim, params []byte) error {
	s.to.mu.Lock()
	s.to.launched[k.Name()] = true
	s.to.mu.Unlock()
	return s.StreamDriver.Launch(k, grid, block, params)
}

// CheckLaunched fails the test for each kernel of the images that was not launched.
func (l *Launches) CheckLaunched(t testing.TB, images []*device.Image) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, img := range images {
		for name := range img.Targets[0].Params {
			if !l.launched[name] {
				t.Errorf("%s was not launched", name)
			}
		}
	}
}
