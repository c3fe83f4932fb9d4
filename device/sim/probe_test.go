package sim

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

func TestProbe(t *testing.T) {
	d, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	freed, err := d.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Free(freed); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    device.Ptr
		size int
		says string
	}{
		{b.Ptr, 4096, ""},
		{b.Ptr + 4095, 1, ""},
		{b.Ptr, 4097, "byte 4096 of a block of 4096 bytes"},
		{freed.Ptr, 8, "was freed"},
		{8, 8, "no memory there"},
		{b.Ptr, 0, "Probe of 0 bytes"},
	} {
		err := d.Probe(c.p, c.size)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%d bytes at %#x: %v, want %q", c.size, uint64(c.p), err, c.says)
		}
	}
	if _, err := device.Wrap[uint64](d, device.Buffer{Ptr: freed.Ptr, Size: 64}, 8); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "Wrap of 8 elements of 8 bytes") {
		t.Errorf("Wrap of freed memory: %v", err)
	}
	if got := d.Blocks(); len(got) != 1 || got[0].Ptr != b.Ptr || got[0].Size != b.Size {
		t.Errorf("blocks %+v, allocated %+v", got, b)
	}
	if err := errors.Join(d.Free(b), d.Close()); err != nil {
		t.Fatal(err)
	}
	if err := d.Probe(b.Ptr, 8); !errors.Is(err, device.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
