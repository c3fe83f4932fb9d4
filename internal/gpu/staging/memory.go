package staging

import (
	"context"
	"errors"
	"sync"

	"github.com/weftgo/weft/device"
)

const (
	// DefaultLimit is the page-locked memory that the rings of a device share, in
	// bytes: a batch of Go slices takes half of it on a machine of 16 cores.
	DefaultLimit = 256 << 20
	// deviceShare is how many times as much memory of the device they share. A
	// batch that is page-locked already needs no other, and its pieces are larger.
	deviceShare = 2
	// leastPiece is the size in bytes below which pieces are not made smaller
	// because memory is short: a call rather waits.
	leastPiece = 64 << 10
	// fewSegments is how many segments keep both directions busy. While there is
	// not memory for as many, pieces become smaller.
	fewSegments = 4
)

// Memory is what the rings of a device have their segments from. It is taken
// from the device when it is first needed, up to a limit, and kept until Close:
// page-locking takes half a second for a GiB, and undoing it makes the device
// wait.
//
// A call gets at most half of what is left, so that a small one finds something
// beside many large ones. When nothing is left it waits until another call ends.
// A call that holds memory waits for nobody, so one always goes on; and when none
// does, a call gets what it needs for one piece, whatever the limit.
type Memory struct {
	mu           sync.Mutex
	host, device arena
	line         Line
}

// NewMemory makes memory with a limit in bytes, page-locked; 0 is the default.
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

// SetLimit changes the limit. Calls under way keep what they have.
func (m *Memory) SetLimit(limit int) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.limit, m.device.limit = limit, deviceShare*limit
}

// Taken is how much memory has been taken from the device, page-locked and its
// own.
func (m *Memory) Taken() (host, device int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host.taken, m.device.taken
}

// Close gives the memory back. No call is under way.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.host.drop(0), m.device.drop(0))
}

// request says what a call would like to have.
type request struct {
	segments     int
	host, device int // bytes of each
	least        int // how many times smaller they may be, a power of two
}

// size is what segments need when they are that many times smaller: their
// columns begin anew at multiples of 256 bytes.
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

// lend gives a call memory for at least one segment, until give; they are so
// many times smaller than requested.
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

// give takes memory back.
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
