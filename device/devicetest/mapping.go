package devicetest

import (
	"sync"

	"github.com/weftgo/weft/device"
)

// This file checks mapped host memory and ranges.

func (c *checked) Map(host []byte) (b device.Buffer, unmap func() error, err error) {
	c.t.Helper()
	if err := c.begin(OpMap); err != nil {
		return b, nil, err
	}
	b, undo, err := c.inner.Map(host)
	if err != nil {
		return b, nil, err
	}
	e := c.addEntry(entry{kind: kindMapping, at: uint64(b.Ptr), host: hostAddress(host), size: b.Size})
	return b, func() error {
		c.t.Helper()
		if !c.removeEntry(e) {
			return undo() // a second unmap does nothing
		}
		if err := c.checkOpen("unmap"); err != nil {
			return err
		}
		return undo()
	}, nil
}

func (c *checked) Reserve(size int) (device.Range, error) {
	c.t.Helper()
	if err := c.begin(OpReserve); err != nil {
		return nil, err
	}
	r, err := c.inner.Reserve(size)
	if err != nil {
		return nil, err
	}
	return &checkedRange{inner: r, c: c, entry: c.addEntry(entry{kind: kindRange, at: uint64(r.Ptr())})}, nil
}

// checkedRange wraps a range and checks its use.
type checkedRange struct {
	inner device.Range
	c     *checked
	entry *entry
	mu    sync.Mutex // serializes Resize, so that the newly mapped part is known
	freed bool
}

func (r *checkedRange) Ptr() device.Ptr       { return r.inner.Ptr() }
func (r *checkedRange) Mapped() int           { return r.inner.Mapped() }
func (r *checkedRange) Buffer() device.Buffer { return r.inner.Buffer() }

func (r *checkedRange) Resize(n int) error {
	r.c.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed {
		return r.c.violation(device.ErrClosed, "Resize of a freed %v", r.entry)
	}
	if err := r.c.begin(OpResize); err != nil {
		return err
	}
	old := r.inner.Mapped()
	err := r.inner.Resize(n)
	if err == nil {
		err = r.poison(old)
	}
	r.c.resize(r.entry, r.inner.Mapped())
	return err
}

// poison fills the memory mapped beyond the first bytes, which were mapped before; old is their
// number. If that fails, it unmaps the new memory.
func (r *checkedRange) poison(old int) error {
	b := r.inner.Buffer()
	if b.Size <= old {
		return nil
	}
	fresh := device.Buffer{Ptr: b.Ptr + device.Ptr(old), Size: b.Size - old}
	if b.Host != nil {
		fresh.Host = b.Host[old:]
	}
	err := r.c.poison(fresh)
	if err != nil {
		// The caller gets the error of the fill.
		_ = r.inner.Resize(old)
	}
	return err
}

func (r *checkedRange) Free() error {
	r.c.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed {
		return r.inner.Free() // a second Free does nothing
	}
	r.freed = true
	r.c.removeEntry(r.entry)
	if err := r.c.checkOpen("Free of a range"); err != nil {
		return err
	}
	return r.inner.Free()
}
