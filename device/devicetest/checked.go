package devicetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft/device"
)

// checked wraps a device and checks how a test uses it.
type checked struct {
	inner device.Device
	self  device.Device // this device, or the checkedHost around it
	*ledger
}

// checkedHost is a checked [device.Host].
type checkedHost struct {
	*checked
	host device.Host
}

// Checked wraps a device for a test; see the package documentation for the checks. The result is a
// [device.Host] if dev is one. Close of the result closes dev. The test may also leave this to the
// code that opened dev.
func Checked(t testing.TB, dev device.Device) device.Device {
	c := &checked{inner: dev, ledger: &ledger{t: t, live: map[*entry]struct{}{}}}
	c.self = c
	if h, ok := dev.(device.Host); ok {
		c.self = &checkedHost{c, h}
	}
	t.Cleanup(c.report)
	return c.self
}

// ledgerOf returns the ledger of a device that Checked returned.
func ledgerOf(dev device.Device) *ledger {
	switch c := dev.(type) {
	case *checked:
		return c.ledger
	case *checkedHost:
		return c.ledger
	}
	panic(fmt.Sprintf("devicetest: %T was not made by Checked", dev))
}

func (h *checkedHost) Parallel(n, grain int, body func(lo, hi int)) {
	h.t.Helper()
	// An error has already failed the test. Parallel still does the work.
	_ = h.checkOpen("Parallel")
	h.host.Parallel(n, grain, body)
}

func (c *checked) Properties() device.Properties { return c.inner.Properties() }

func (c *checked) Memory() (device.Memory, error) {
	c.t.Helper()
	if err := c.checkOpen("Memory"); err != nil {
		return device.Memory{}, err
	}
	return c.inner.Memory()
}

func (c *checked) Alloc(size int) (device.Buffer, error) {
	c.t.Helper()
	if err := c.begin(OpAlloc); err != nil {
		return device.Buffer{}, err
	}
	b, err := c.inner.Alloc(size)
	if err != nil {
		return b, err
	}
	if err := c.poison(b); err != nil {
		c.inner.Free(b)
		return device.Buffer{}, err
	}
	c.addEntry(entry{kind: kindBuffer, at: uint64(b.Ptr), size: b.Size})
	return b, nil
}

const (
	// poisonByte fills new memory. Code that reads such memory gets a large count or an odd
	// address, and no value that structures use for empty slots.
	poisonByte = 0xdb
	// poisonLimit is the maximum number of bytes filled per allocation, which keeps large tests
	// fast.
	poisonLimit = 64 << 20
)

func (c *checked) poison(b device.Buffer) error {
	if c.inner.Properties().Kind == device.Sim {
		return nil // device/sim itself detects reads of unwritten memory
	}
	if b.Host != nil {
		part := b.Host[:min(len(b.Host), poisonLimit)]
		part[0] = poisonByte
		for n := 1; n < len(part); n *= 2 { // doubles the filled part
			copy(part[n:], part[:n])
		}
		return nil
	}
	s, err := c.inner.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	const pattern = poisonByte * 0x01010101
	if err := s.Fill(b.Ptr, pattern, min(b.Size, poisonLimit)/4); err != nil {
		return err
	}
	return s.Sync(context.Background())
}

func (c *checked) Free(b device.Buffer) error {
	c.t.Helper()
	if err := c.checkOpen("Free"); err != nil {
		return err
	}
	if b.Size == 0 {
		return c.inner.Free(b)
	}
	e := c.find(func(e *entry) bool { return e.at == uint64(b.Ptr) && e.size == b.Size }, kindBuffer)
	if e == nil || !c.removeEntry(e) {
		return c.violation(device.ErrInvalid, "Free of %d bytes at %#x that are not a buffer, or were freed before", b.Size, uint64(b.Ptr))
	}
	return c.inner.Free(b)
}

func (c *checked) AllocHost(size int) ([]byte, error) {
	c.t.Helper()
	if err := c.begin(OpAllocHost); err != nil {
		return nil, err
	}
	b, err := c.inner.AllocHost(size)
	if err == nil {
		c.addEntry(entry{kind: kindHost, host: hostAddress(b), size: len(b)})
	}
	return b, err
}

func (c *checked) FreeHost(b []byte) error {
	c.t.Helper()
	if err := c.checkOpen("FreeHost"); err != nil {
		return err
	}
	if len(b) == 0 {
		return c.inner.FreeHost(b)
	}
	e := c.find(func(e *entry) bool { return e.host == hostAddress(b) && e.size == len(b) }, kindHost)
	if m := c.find(func(e *entry) bool { return e.overlaps(b) }, kindMapping); m != nil {
		return c.violation(device.ErrInvalid, "FreeHost of %d bytes with a %v", len(b), m)
	}
	if e == nil || !c.removeEntry(e) {
		return c.violation(device.ErrInvalid,
			"FreeHost of %d bytes that AllocHost did not return, or that were freed before", len(b))
	}
	return c.inner.FreeHost(b)
}

func (c *checked) Register(b []byte) (unregister func() error, err error) {
	c.t.Helper()
	if err := c.begin(OpRegister); err != nil {
		return nil, err
	}
	undo, err := c.inner.Register(b)
	if err != nil {
		return nil, err
	}
	e := c.addEntry(entry{kind: kindRegistration, host: hostAddress(b), size: len(b)})
	return func() error {
		c.t.Helper()
		if err := c.checkOpen("unregister"); err != nil {
			return err
		}
		if !c.removeEntry(e) {
			return c.violation(device.ErrInvalid, "second unregister of the %v", e)
		}
		return undo()
	}, nil
}

// Probe implements [device.Prober]. It accepts all memory if the device is not a Prober.
func (c *checked) Probe(p device.Ptr, size int) error {
	if dev, ok := c.inner.(device.Prober); ok {
		return dev.Probe(p, size)
	}
	return nil
}

// Pinned implements [device.Device]. It rejects memory that CopyInAsync of this package rejects,
// even on a CPU, which itself accepts all memory.
func (c *checked) Pinned(b []byte) bool { return c.pinned(b) && c.inner.Pinned(b) }

func (c *checked) Load(img *device.Image) (device.Module, error) {
	c.t.Helper()
	if err := c.begin(OpLoad); err != nil {
		return nil, err
	}
	return c.inner.Load(img)
}

func (c *checked) Unload(img *device.Image) error {
	c.t.Helper()
	if err := c.checkOpen("Unload"); err != nil {
		return err
	}
	return c.inner.Unload(img)
}

func (c *checked) NewStream() (*device.Stream, error) {
	c.t.Helper()
	if err := c.begin(OpNewStream); err != nil {
		return nil, err
	}
	s, err := c.inner.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(c.self, &checkedStream{s.Driver(), c, c.addEntry(entry{kind: kindStream}), atomic.Bool{}}), nil
}

func (c *checked) NewEvent() (*device.Event, error) {
	c.t.Helper()
	if err := c.begin(OpNewEvent); err != nil {
		return nil, err
	}
	e, err := c.inner.NewEvent()
	if err != nil {
		return nil, err
	}
	return device.NewEvent(&checkedEvent{e.Driver(), c, c.addEntry(entry{kind: kindEvent}), atomic.Bool{}}), nil
}

func (c *checked) Sync(ctx context.Context) error {
	c.t.Helper()
	if err := c.checkOpen("Sync"); err != nil {
		return err
	}
	return c.inner.Sync(ctx)
}

func (c *checked) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return c.inner.Close()
}
