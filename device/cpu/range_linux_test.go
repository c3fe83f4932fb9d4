package cpu_test

import (
	"errors"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
)

func reserve(t *testing.T, d device.Device, size int) device.Range {
	t.Helper()
	r, err := d.Reserve(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Free(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// resident returns how many bytes of the process are in physical memory.
func resident(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// A range takes physical memory when it is written, and returns it when it shrinks.
func TestRangeGivesMemoryBack(t *testing.T) {
	d := open(t, 1)
	const size, slack = 128 << 20, 32 << 20
	r := reserve(t, d, 1<<40)
	before := resident(t)
	if err := r.Resize(size); err != nil {
		t.Fatal(err)
	}
	if got := resident(t) - before; got > slack {
		t.Errorf("mapping takes %d bytes", got)
	}
	host := r.Buffer().Host
	for i := 0; i < len(host); i += 4096 {
		host[i] = 1
	}
	if got := resident(t) - before; got < size-slack {
		t.Errorf("writing %d bytes takes %d", size, got)
	}
	if err := r.Resize(1 << 20); err != nil {
		t.Fatal(err)
	}
	if got := resident(t) - before; got > slack {
		t.Errorf("after shrinking %d bytes are taken", got)
	}
	if host[0] != 1 || host[1<<20] != 1 {
		t.Error("what stayed mapped has changed")
	}
}

// An access to unmapped memory faults. It does not hit other memory.
func TestRangeFaultsBeyondMapped(t *testing.T) {
	d := open(t, 1)
	r := reserve(t, d, 8<<20)
	for _, n := range []int{4 << 20, 2 << 20, 0} {
		if err := r.Resize(n); err != nil {
			t.Fatal(err)
		}
		first := unsafe.SliceData(r.Buffer().Host)
		if n > 0 {
			*(*byte)(unsafe.Add(unsafe.Pointer(first), n-1)) = 1
		}
		if !faults(unsafe.Add(unsafe.Pointer(first), n)) {
			t.Errorf("with %d bytes mapped, byte %d can be read", n, n)
		}
	}
}

func faults(p unsafe.Pointer) (faulted bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { faulted = recover() != nil }()
	_ = *(*byte)(p)
	return
}

// While a range shrinks, a stream operation runs before or after. It never accesses unmapped
// memory.
func TestShrinkingWaitsForStreams(t *testing.T) {
	d := open(t, 2)
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	const size = 16 << 20
	r := reserve(t, d, size)
	fills := make(chan error)
	for range 30 {
		if err := r.Resize(size); err != nil {
			t.Fatal(err)
		}
		go func() { fills <- s.Fill(r.Ptr(), 7, size/4) }()
		if err := r.Resize(size / 2); err != nil {
			t.Error(err)
		}
		if err := <-fills; err != nil && !errors.Is(err, device.ErrInvalid) {
			t.Error(err)
		}
	}
}

// Mapped bytes of ranges count against the memory of the machine.
func TestRangesCountAsHeld(t *testing.T) {
	d := open(t, 1)
	m, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	size := int(m.Free * 3 / 4)
	a, b := reserve(t, d, size), reserve(t, d, int(m.Total))
	if err := a.Resize(size); err != nil {
		t.Fatal(err)
	}
	if err := b.Resize(int(m.Total) - size/2); !errors.Is(err, device.ErrMemory) || b.Mapped() != 0 {
		t.Errorf("%d bytes more of %d: %v, %d mapped", int(m.Total)-size/2, m.Total, err, b.Mapped())
	}
	if err := a.Resize(0); err != nil {
		t.Fatal(err)
	}
	if err := b.Resize(size); err != nil {
		t.Errorf("after shrinking: %v", err)
	}
}
