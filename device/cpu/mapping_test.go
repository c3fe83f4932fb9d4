package cpu_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
)

// After Close, buffers and ranges can be freed, and mappings can be unmapped.
func TestFreeAfterClose(t *testing.T) {
	d := open(t, 1)
	host, err := d.AllocHost(4096)
	if err != nil {
		t.Fatal(err)
	}
	_, unmap, err := d.Map(host)
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Reserve(1)
	if err != nil && !errors.Is(err, device.ErrUnsupported) {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if r != nil {
		if err := r.Free(); err != nil {
			t.Errorf("Free of a range: %v", err)
		}
	}
	if err := d.FreeHost(host); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("FreeHost while mapped: %v", err)
	}
	if err := errors.Join(unmap(), d.FreeHost(host)); err != nil {
		t.Error(err)
	}
}

// Copies can access all bytes of a mapping, and no byte beyond.
func TestCopiesStayWithinMappings(t *testing.T) {
	d := open(t, 1)
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	host, err := d.AllocHost(4096)
	if err != nil {
		t.Fatal(err)
	}
	b, unmap, err := d.Map(host[1024:2048])
	if err != nil {
		t.Fatal(err)
	}
	if &b.Host[0] != &host[1024] || cap(b.Host) != 1024 {
		t.Errorf("the mapping shows %d bytes of host memory", cap(b.Host))
	}
	bad := map[string]func() error{
		"before":      func() error { return s.Fill(b.Ptr-4, 0, 2) },
		"over":        func() error { return s.Fill(b.Ptr+1020, 0, 2) },
		"after unmap": func() error { return errors.Join(unmap(), s.Fill(b.Ptr, 0, 1)) },
	}
	for _, name := range []string{"before", "over", "after unmap"} {
		if err := bad[name](); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.FreeHost(host); err != nil {
		t.Error(err)
	}
}
