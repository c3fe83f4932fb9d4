package cpu

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/hostmem"
)

const hugePage = hostmem.HugePage

// Alloc implements [device.Device]. The memory is zeroed.
func (d *Device) Alloc(size int) (device.Buffer, error) {
	b, err := d.allocate(&d.blocks, "Alloc", size)
	if err != nil {
		return device.Buffer{}, err
	}
	return device.Buffer{Ptr: address(b), Size: size, Host: b}, nil
}

// Free unmaps a buffer. It returns ErrInvalid if Alloc did not return b, or if b has been freed.
func (d *Device) Free(b device.Buffer) error {
	return d.release(&d.blocks, "Free", b.Ptr, b.Size)
}

// AllocHost implements [device.Device]. The memory is zeroed, and of the same kind as Alloc's.
func (d *Device) AllocHost(size int) ([]byte, error) {
	return d.allocate(&d.pinned, "AllocHost", size)
}

// FreeHost unmaps memory that AllocHost returned.
func (d *Device) FreeHost(b []byte) error {
	if d.mapped.overlaps(b) {
		return fmt.Errorf("cpu: FreeHost: %w: a part of the %d bytes at %#x is still mapped to the device", device.ErrInvalid, len(b), uint64(address(b)))
	}
	return d.release(&d.pinned, "FreeHost", address(b), len(b))
}

func (d *Device) allocate(t *table, op string, size int) ([]byte, error) {
	if size <= 0 {
		return nil, fmt.Errorf("cpu: %s: %w: size %d", op, device.ErrInvalid, size)
	}
	if d.closed.Load() {
		return nil, errClosed(op)
	}
	// For a small block, reading the state of the machine would cost too much.
	if size >= hugePage {
		if err := d.checkMemory(size); err != nil {
			return nil, fmt.Errorf("cpu: %s of %d bytes: %w", op, size, err)
		}
	}
	b, err := hostmem.Map(size)
	if err != nil {
		return nil, fmt.Errorf("cpu: %s of %d bytes: %w: %w", op, size, device.ErrMemory, err)
	}
	t.add(b)
	return b, nil
}

// checkMemory returns ErrMemory if the machine lacks size bytes of memory.
func (d *Device) checkMemory(size int) error {
	m := readMemory()
	held := d.blocks.bytes() + d.ranges.bytes() + d.pinned.bytes()
	if m.Total > 0 && (uint64(size) > m.Free || held+uint64(size) > m.Total) {
		return fmt.Errorf("%w: %d of %d bytes free, %d held by this device", device.ErrMemory, m.Free, m.Total, held)
	}
	return nil
}

// release unmaps a block, even after Close.
func (d *Device) release(t *table, op string, p device.Ptr, size int) error {
	b, ok := t.remove(p, size)
	if !ok {
		if d.closed.Load() {
			return errClosed(op)
		}
		return fmt.Errorf("cpu: %s: %w: no block of %d bytes at %#x; freed twice, or of another device?", op, device.ErrInvalid, size, uint64(p))
	}
	if err := hostmem.Unmap(b); err != nil {
		return fmt.Errorf("cpu: %s of %d bytes at %#x: %w", op, size, uint64(p), err)
	}
	return nil
}

func address(b []byte) device.Ptr {
	return device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// table holds live blocks, ascending by address. Frees and copies look up their address in it, so
// that a wrong address returns an error instead of a fault that ends the process.
type table struct {
	mu     sync.RWMutex
	blocks [][]byte
	total  uint64
}

func (t *table) bytes() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.total
}

func (t *table) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, _ := t.search(address(b))
	t.blocks = slices.Insert(t.blocks, i, b)
	t.total += uint64(len(b))
}

func (t *table) remove(p device.Ptr, size int) ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, found := t.search(p)
	if !found || len(t.blocks[i]) != size {
		return nil, false
	}
	b := t.blocks[i]
	t.blocks = slices.Delete(t.blocks, i, i+1)
	t.total -= uint64(size)
	return b, true
}

// resize replaces a block by b, which begins at the same address.
func (t *table) resize(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, _ := t.search(address(b))
	t.total += uint64(len(b)) - uint64(len(t.blocks[i]))
	t.blocks[i] = b
}

// overlaps reports whether b shares a byte with a block.
func (t *table) overlaps(b []byte) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	lo := address(b)
	i, found := t.search(lo)
	if found || len(b) == 0 {
		return found && len(b) > 0
	}
	return i > 0 && address(t.blocks[i-1])+device.Ptr(len(t.blocks[i-1])) > lo ||
		i < len(t.blocks) && address(t.blocks[i]) < lo+device.Ptr(len(b))
}

// slice returns the memory [p,p+size) if it lies within one live block.
func (t *table) slice(p device.Ptr, size int) ([]byte, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i, found := t.search(p)
	if !found {
		i-- // the last block that begins before p
	}
	if i < 0 || size < 0 {
		return nil, false
	}
	b := t.blocks[i]
	off := uint64(p - address(b))
	if off > uint64(len(b)) || uint64(size) > uint64(len(b))-off {
		return nil, false
	}
	return b[off : off+uint64(size)], true
}

func (t *table) search(p device.Ptr) (int, bool) {
	return slices.BinarySearchFunc(t.blocks, p, func(b []byte, p device.Ptr) int {
		return cmp.Compare(address(b), p)
	})
}
