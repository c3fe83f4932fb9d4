package cpu

import (
	"fmt"
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/hostmem"
)

// reservation implements [device.Range]. It reserves addresses that cannot be accessed, and makes
// the first bytes accessible in steps of one huge page.
type reservation struct {
	dev       *Device
	addresses []byte // the whole range; bytes from mapped on must not be accessed

	mu     sync.Mutex
	mapped int
	freed  bool
}

// Reserve implements [device.Device]. Mapped memory takes physical memory only at its first use.
// Resize nevertheless fails if the machine lacks the memory.
func (d *Device) Reserve(size int) (device.Range, error) {
	if size <= 0 {
		return nil, fmt.Errorf("cpu: Reserve: %w: size %d", device.ErrInvalid, size)
	}
	if d.closed.Load() {
		return nil, errClosed("Reserve")
	}
	if size > math.MaxInt-hugePage {
		return nil, fmt.Errorf("cpu: Reserve of %d bytes: %w", size, device.ErrMemory)
	}
	addresses, err := hostmem.Reserve(roundUp(size))
	if err != nil {
		return nil, fmt.Errorf("cpu: Reserve of %d bytes: %w: %w", size, device.ErrMemory, err)
	}
	r := &reservation{dev: d, addresses: addresses}
	d.ranges.add(addresses[:0])
	return r, nil
}

func roundUp(size int) int { return (size + hugePage - 1) &^ (hugePage - 1) }

func (r *reservation) Ptr() device.Ptr { return address(r.addresses) }

func (r *reservation) Mapped() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mapped
}

func (r *reservation) Buffer() device.Buffer {
	n := r.Mapped()
	return device.Buffer{Ptr: r.Ptr(), Size: n, Host: r.addresses[:n:n]}
}

func (r *reservation) Resize(n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.dev.closed.Load():
		return errClosed("Resize")
	case r.freed:
		return fmt.Errorf("cpu: Resize: range %w", device.ErrClosed)
	case n < 0 || n > len(r.addresses):
		return fmt.Errorf("cpu: Resize: %w: %d bytes in a range of %d", device.ErrInvalid, n, len(r.addresses))
	}
	var err error
	switch n = roundUp(n); {
	case n > r.mapped:
		err = r.grow(n)
	case n < r.mapped:
		err = r.shrink(n)
	}
	if err != nil {
		return fmt.Errorf("cpu: Resize to %d bytes: %w", n, err)
	}
	return nil
}

func (r *reservation) grow(n int) error {
	if err := r.dev.checkMemory(n - r.mapped); err != nil {
		return err
	}
	if err := unix.Mprotect(r.addresses[r.mapped:n], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return fmt.Errorf("%w: mprotect: %w", device.ErrMemory, err)
	}
	r.set(n)
	return nil
}

// shrink waits for running operations of streams. The caller must have waited for its own calls of
// Parallel.
func (r *reservation) shrink(n int) error {
	r.dev.work.Lock()
	defer r.dev.work.Unlock()
	end := r.addresses[n:r.mapped]
	if err := unix.Mprotect(end, unix.PROT_NONE); err != nil {
		return fmt.Errorf("mprotect: %w", err)
	}
	// The result is ignored. The system refuses this advice in a process that has locked all its
	// memory; Free then returns the memory.
	_ = unix.Madvise(end, unix.MADV_DONTNEED)
	r.set(n)
	return nil
}

// set sets mapped to n and makes the first n bytes accessible to streams.
func (r *reservation) set(n int) {
	r.mapped = n
	r.dev.ranges.resize(r.addresses[:n])
}

// Free implements [device.Range]. It also works after Close of the device.
func (r *reservation) Free() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed {
		return nil
	}
	r.dev.work.Lock()
	defer r.dev.work.Unlock()
	if err := hostmem.Unmap(r.addresses); err != nil {
		return fmt.Errorf("cpu: Free of a range of %d bytes: munmap: %w", len(r.addresses), err)
	}
	r.freed = true
	r.dev.ranges.remove(r.Ptr(), r.mapped)
	r.mapped = 0
	return nil
}
