package staging

import (
	"context"
	"errors"
	"sync"

	"github.com/weftgo/weft/device"
)

const (
	// DefaultLimit is the number of bytes of page-locked memory that the rings of a device share. A
	// batch of Go slices uses half of it on a machine with 16 cores.
	DefaultLimit = 256 << 20
	// deviceShare is the ratio of device memory to page-locked memory that the rings share. The
	// device gets more because a page-locked batch needs only device memory, and its pieces are
	// larger.
	deviceShare = 2
	// minPiece is the size in bytes below which pieces do not shrink when memory is short. Run
	// waits for memory instead.
	minPiece = 64 << 10
	// minSlots is the number of slots that keeps both directions busy. Pieces shrink if memory is
	// too short for this number.
	minSlots = 4
)

// Memory supplies the slots of all rings of a device. It allocates memory on demand up to a limit
// and keeps it until Close. Page-locking takes half a second per GiB, and undoing it makes the
// device wait.
//
// A call gets at most half of the unused memory, so that a small call finds memory despite many
// large ones. If no memory is left, the call waits until another call ends. A call that holds
// memory waits for no other call, so one call always continues. If no call holds memory, the next
// call gets memory for one piece regardless of the limit.
type Memory struct {
	mu           sync.Mutex
	host, device arena
	waiters      WaitQueue
}

// NewMemory returns a Memory that may hold limit bytes of page-locked memory, or DefaultLimit if
// limit is 0.
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

// SetLimit changes the limit. Calls in flight keep their memory.
func (m *Memory) SetLimit(limit int) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.limit, m.device.limit = limit, deviceShare*limit
}

// Allocated returns the number of bytes that are allocated, page-locked and on the device.
func (m *Memory) Allocated() (host, device int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host.allocated, m.device.allocated
}

// Close frees the memory. No call may be in flight.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.host.trim(0), m.device.trim(0))
}

// request is the amount of memory that a call prefers.
type request struct {
	slots        int
	host, device int // bytes per slot
	maxDivisor   int // maximum factor by which slots may shrink, a power of two
}

// size returns the size of a slot that holds bytes/divisor bytes. It includes padding that aligns
// each column.
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

// acquire waits until memory for at least one slot is available, and acquires memory for up to
// q.slots slots. The slots are smaller than requested by the factor divisor. The caller must pass
// the blocks to release.
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

func (m *Memory) release(blocks []block) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range blocks {
		err = errors.Join(err, m.host.release(b.host), m.device.release(b.device))
	}
	m.waiters.Wake()
	return err
}

// find acquires the memory that is available for a call, or returns no blocks.
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
