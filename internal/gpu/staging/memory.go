package staging

import (
	"context"
	"errors"
	"sync"

	"github.com/weftgo/weft/device"
)

const (
	// DefaultLimit is the page-locked memory that the rings of a device share, in bytes: a batch of
	// Go slices takes half of it on a machine of 16 cores.
	DefaultLimit = 256 << 20
	// deviceShare is the ratio of device memory to page-locked memory that they share. A batch that
	// is page-locked already needs only device memory, and its pieces are larger.
	deviceShare = 2
	// minPiece is the size in bytes below which pieces do not shrink when memory is short: a call
	// waits instead.
	minPiece = 64 << 10
	// minSlots is the number of slots that keep both directions busy. If memory is too short
	// for that many, pieces shrink.
	minSlots = 4
)

// Memory supplies the slots of the rings of a device. It is allocated from the device on first
// use, up to a limit, and kept until Close: page-locking takes half a second per GiB, and undoing
// it makes the device wait.
//
// A call gets at most half of what is left, so that a small call finds memory despite many large
// ones. When nothing is left it waits until another call ends. A call that holds memory waits for
// no other, so one always continues. When no call holds memory, the next gets what it needs for one
// piece, regardless of the limit.
type Memory struct {
	mu           sync.Mutex
	host, device arena
	waiters      WaitQueue
}

// NewMemory returns a Memory with a limit in bytes, page-locked; 0 is the default.
func NewMemory(dev device.Device, limit int) *Memory {
	m := &Memory{}
	m.host.allocate = func(size int) (c chunk, err error) {
		c.host, err = dev.AllocHost(size)
		return c, err
	}
	m.host.free = func(c chunk) error { return dev.FreeHost(c.host) }
	m.device.allocate = func(size int) (c chunk, err error) {
		c.buf, err = dev.Alloc(size)
		return c, err
	}
	m.device.free = func(c chunk) error { return dev.Free(c.buf) }
	m.SetLimit(limit)
	return m
}

// SetLimit changes the limit. Calls in flight keep what they have.
func (m *Memory) SetLimit(limit int) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.limit, m.device.limit = limit, deviceShare*limit
}

// Allocated returns how much memory has been allocated from the device, page-locked and its own.
func (m *Memory) Allocated() (host, device int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host.allocated, m.device.allocated
}

// Close frees the memory. No call is in flight.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.host.trim(0), m.device.trim(0))
}

// request is the amount of memory that a call prefers.
type request struct {
	slots        int
	host, device int // bytes of each
	maxDivisor   int // maximum divisor of the sizes, a power of two
}

// size returns the size of a slot when sizes are divided by divisor: its columns still begin at
// multiples of 256 bytes.
func (q request) size(bytes, divisor int) int {
	if divisor > 1 {
		bytes = bytes/divisor + columnAlign*maxColumns
	}
	return align(bytes)
}

// block is the memory of a slot.
type block struct {
	host, device span
}

// acquire acquires memory for at least one slot; release returns it. The slots are smaller than
// requested by the factor divisor.
func (m *Memory) acquire(ctx context.Context, q request) (blocks []block, divisor int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	small := q.slots*max(q.host, q.device) <= minPiece
	err = m.waiters.Wait(ctx, &m.mu, small, func() (bool, error) {
		var err error
		blocks, divisor, err = m.find(q)
		return len(blocks) > 0, err
	})
	return blocks, divisor, err
}

// release releases memory.
func (m *Memory) release(blocks []block) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range blocks {
		err = errors.Join(err, m.host.release(b.host), m.device.release(b.device))
	}
	m.waiters.Wake()
	return err
}

// find finds memory for a call, or none.
func (m *Memory) find(q request) (blocks []block, divisor int, err error) {
	n := 0
	for divisor = 1; ; divisor *= 2 {
		n = min(q.slots, m.host.maxSpans(q.size(q.host, divisor)), m.device.maxSpans(q.size(q.device, divisor)))
		if n >= min(q.slots, minSlots) || divisor >= q.maxDivisor {
			break
		}
	}
	host, device := q.size(q.host, divisor), q.size(q.device, divisor)
	for len(blocks) < max(n, 1) {
		var b block
		var found bool
		b.host, found, err = m.host.acquire(host, n*host)
		if !found || err != nil {
			break
		}
		b.device, found, err = m.device.acquire(device, n*device)
		if !found || err != nil {
			err = errors.Join(err, m.host.release(b.host))
			break
		}
		blocks = append(blocks, b)
	}
	if err != nil {
		for _, b := range blocks {
			err = errors.Join(err, m.host.release(b.host), m.device.release(b.device))
		}
		return nil, 0, err
	}
	return blocks, divisor, nil
}
