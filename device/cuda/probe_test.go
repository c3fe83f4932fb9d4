package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

func TestProbe(t *testing.T) {
	f := newFake()
	drv := f.driver(t)
	var devs [2]*Device
	for i := range devs {
		d, err := drv.open(i)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		devs[i] = d
	}
	b, err := devs[1].Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer devs[1].Free(b)
	testProbe(t, devs[1], b)
	if err := devs[0].Probe(b.Ptr, b.Size); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "belongs to device 1, not to device 0") {
		t.Errorf("memory of another GPU: %v", err)
	}
	f.fail = func(sym symbol, n int) Code {
		if sym == symPointerGetAttribute {
			return 304
		}
		return success
	}
	if err := devs[1].Probe(b.Ptr, b.Size); codeOf(err) != 304 {
		t.Errorf("a failure of the driver: %v", err)
	}
}

// testProbe probes around a buffer of b.Size bytes.
func testProbe(t *testing.T, d *Device, b device.Buffer) {
	t.Helper()
	const far = 1 << 45 // beyond all memory that a GPU maps after b
	for _, c := range []struct {
		p    device.Ptr
		size int
		says string
	}{
		{b.Ptr, b.Size, ""},
		{b.Ptr + 8, 8, ""},
		{b.Ptr, far, "the driver reports no memory at"},
		{1 << 20, 8, "the driver reports no memory at 0x100000"},
		{b.Ptr, 0, "Probe of 0 bytes"},
		{b.Ptr, -1, "Probe of -1 bytes"},
	} {
		err := d.Probe(c.p, c.size)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%d bytes at %#x: %v, want %q", c.size, uint64(c.p), err, c.says)
		}
	}
}

func TestGPUProbe(t *testing.T) {
	d, _ := gpu(t)
	b, err := d.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(b)
	testProbe(t, d, b)
	host, err := d.AllocHost(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer d.FreeHost(host)
	if err := d.Probe(device.Ptr(address(host)), len(host)); err != nil {
		t.Errorf("page-locked memory: %v", err)
	}
	r, err := d.Reserve(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	for _, n := range []int{1 << 20, 1 << 24, 1 << 28} {
		if err := r.Resize(n); err != nil {
			t.Fatal(err)
		}
		if err := d.Probe(r.Ptr(), r.Mapped()); err != nil {
			t.Errorf("a range of %d bytes: %v", n, err)
		}
	}
}
