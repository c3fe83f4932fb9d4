package device_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

func wrap[T device.Elem](dev device.Device, b device.Buffer, n int) error {
	_, err := device.Wrap[T](dev, b, n)
	return err
}

func TestWrapRefuses(t *testing.T) {
	dev := devicetest.Open(t)
	b, err := dev.Alloc(800)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Free(b)
	moved := func(by int, size int) device.Buffer { // as if b began later
		m := device.Buffer{Ptr: b.Ptr + device.Ptr(by), Size: size}
		if b.Host != nil {
			m.Host = b.Host[by:][:size]
		}
		return m
	}
	for _, c := range []struct {
		name string
		err  error
		says string // empty: no error
	}{
		{"all", wrap[uint64](dev, b, 100), ""},
		{"less", wrap[uint64](dev, b, 99), ""},
		{"nothing", wrap[uint64](dev, device.Buffer{}, 0), ""},
		{"a part", wrap[uint32](dev, moved(4, 796), 199), ""},
		{"bytes anywhere", wrap[bool](dev, moved(3, 7), 7), ""},
		{"too many", wrap[uint64](dev, b, 101), "101 elements of 8 bytes in a buffer of 800"},
		{"one byte short", wrap[uint64](dev, moved(0, 799), 100), "in a buffer of 799 bytes"},
		{"negative", wrap[uint64](dev, b, -1), "-1 elements"},
		{"overflow", wrap[uint64](dev, b, math.MaxInt/8+2), "elements"},
		{"misaligned", wrap[uint64](dev, moved(4, 796), 1), "must be a multiple of that"},
		{"no address", wrap[uint8](dev, device.Buffer{Size: 8, Host: make([]byte, 8)}, 8), "and not 0"},
		{"a buffer of negative size", wrap[uint8](dev, device.Buffer{Ptr: b.Ptr, Size: -8}, 8), "in a buffer of -8 bytes"},
	} {
		switch {
		case c.says == "" && c.err != nil:
			t.Errorf("%s: %v", c.name, c.err)
		case c.says != "" && (!errors.Is(c.err, device.ErrInvalid) || !strings.Contains(c.err.Error(), c.says)):
			t.Errorf("%s: %v, want ErrInvalid and %q", c.name, c.err, c.says)
		}
	}
	if _, isHost := dev.(device.Host); !isHost {
		return
	}
	for name, host := range map[string][]byte{"missing": nil, "too small": b.Host[:72], "misaligned": b.Host[4:]} {
		if err := wrap[uint64](dev, device.Buffer{Ptr: b.Ptr, Size: 800, Host: host}, 10); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "Buffer.Host") {
			t.Errorf("host memory is %s: %v", name, err)
		}
	}
}

// Free of a wrapped slice frees neither the wrapped memory nor that of a slice that shares it.
func TestWrapOwnsNothing(t *testing.T) {
	dev := devicetest.Open(t)
	owner, err := device.Make[uint32](dev, 100)
	if err != nil {
		t.Fatal(err)
	}
	d, err := device.Wrap[uint16](dev, device.Buffer{Ptr: owner.Ptr(), Size: 400, Host: device.Bytes(owner.Host())}, 200)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Free(); err != nil {
			t.Error(err)
		}
	}
	if d.Len() != 200 || d.Ptr() != owner.Ptr() {
		t.Errorf("Free left %d elements at %#x", d.Len(), uint64(d.Ptr()))
	}
	if err := owner.Free(); err != nil { // a second time would fail the test
		t.Error(err)
	}
}

func TestCheckMap(t *testing.T) {
	page := make([]byte, 64<<10)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(page))) & (device.MapAlign - 1)
	b := page[skip:][:4096]
	for name, c := range map[string]struct {
		host []byte
		says string
	}{
		"whole":        {b, ""},
		"8 bytes":      {b[256:264], ""},
		"nil":          {nil, "empty slice"},
		"empty":        {b[:0], "empty slice"},
		"misaligned":   {b[128:], "multiple of 256 bytes"},
		"4 bytes":      {b[:4], "multiple of 8"},
		"an odd count": {b[:4095], "multiple of 8"},
	} {
		err := device.CheckMap(c.host)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
