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
	// leastPiece is the size in bytes below which pieces do not shrink when memory is short: a call
	// waits instead.
	leastPiece = 64 << 10
	// fewSegments is the number of segments that keep both directions busy. If memory is too short
	// for that many, pieces shrink.
	fewSegments = 4
)

// Memory supplies the segments of the rings of a device. It is allocated from the device on first
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
	line         Line
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

// Taken returns how much memory has been allocated from the device, page-locked and its own.
func (m *Memory) Taken() (host, device int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host.taken, m.device.taken
}

// Close frees the memory. No call is in flight.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.host.drop(0), m.device.drop(0))
}

// request is the amount of memory that a call prefers.
type request struct {
	segments     int
	host, device int // bytes of each
	least        int // maximum divisor of the sizes, a power of two
}

// size returns the size of a segment when sizes are divided by times: its columns still begin at
// multiples of 256 bytes.
func (q request) size(bytes, times int) int {
	if times > 1 {
		bytes = bytes/times + columnAlign*maxColumns
	}
	return align(bytes)
}

// block is the memory of a segment.
type block struct {
	host, device span
}

// lend acquires memory for at least one segment; give releases it. The segments are smaller than
// requested by the factor times.
func (m *Memory) lend(ctx context.Context, q request) (blocks []block, times int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	small := q.segments*max(q.host, q.device) <= leastPiece
	err = m.line.Wait(ctx, &m.mu, small, func() (bool, error) {
		var err error
		blocks, times, err = m.take(q)
		return len(blocks) > 0, err
	})
	return blocks, times, err
}

// give releases memory.
func (m *Memory) give(blocks []block) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range blocks {
		err = errors.Join(err, m.host.give(b.host), m.device.give(b.device))
	}
	m.line.Wake()
	return err
}

// take finds memory for a call, or none.
func (m *Memory) take(q request) (blocks []block, times int, err error) {
	n := 0
	for times = 1; ; times *= 2 {
		n = min(q.segments, m.host.left(q.size(q.host, times)), m.device.left(q.size(q.device, times)))
		if n >= min(q.segments, fewSegments) || times >= q.least {
			break
		}
	}
	host, device := q.size(q.host, times), q.size(q.device, times)
	for len(blocks) < max(n, 1) {
		var b block
		var found bool
		b.host, found, err = m.host.take(host, n*host)
		if !found || err != nil {
			break
		}
		b.device, found, err = m.device.take(device, n*device)
		if !found || err != nil {
			err = errors.Join(err, m.host.give(b.host))
			break
		}
		blocks = append(blocks, b)
	}
	if err != nil {
		for _, b := range blocks {
			err = errors.Join(err, m.host.give(b.host), m.device.give(b.device))
		}
		return nil, 0, err
	}
	return blocks, times, nil
}
