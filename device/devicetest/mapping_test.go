package devicetest_test

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

func TestMisuseOfMappings(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, dev device.Device, s *device.Stream, host []byte)
		says string // empty: no failure
	}{
		{"clean", func(t *testing.T, dev device.Device, s *device.Stream, host []byte) {
			b, unmap, err := dev.Map(host)
			must(t, err)
			r := give[device.Range](t)(dev.Reserve(1 << 20))
			must(t, r.Resize(8192))
			must(t, s.CopyInAsync(r.Ptr(), host))
			must(t, s.Copy(b.Ptr, r.Ptr()+4096, 0))
			must(t, s.Sync(t.Context()))
			must(t, unmap())
			must(t, unmap())
			must(t, r.Free())
			must(t, r.Free())
		}, ""},
		{"leaked mapping", func(t *testing.T, dev device.Device, _ *device.Stream, host []byte) {
			_, _, err := dev.Map(host)
			must(t, err)
		}, "leaked mapping of 4096 bytes from devicetest/mapping_test.go:"},
		{"leaked range", func(t *testing.T, dev device.Device, _ *device.Stream, _ []byte) {
			r := give[device.Range](t)(dev.Reserve(1 << 20))
			must(t, r.Resize(8192))
			must(t, r.Resize(4096))
		}, "leaked range of 4096 bytes from devicetest/mapping_test.go:"},
		{"leaked addresses", func(t *testing.T, dev device.Device, _ *device.Stream, _ []byte) {
			give[device.Range](t)(dev.Reserve(1 << 20))
		}, "leaked range from devicetest/mapping_test.go:"},
		{"host memory freed while mapped", func(t *testing.T, dev device.Device, _ *device.Stream, _ []byte) {
			own := give[[]byte](t)(dev.AllocHost(8192))
			_, unmap, err := dev.Map(own[4096:])
			must(t, err)
			if err := dev.FreeHost(own); !errors.Is(err, device.ErrInvalid) {
				t.Errorf("FreeHost: %v", err)
			}
			must(t, unmap())
			must(t, dev.FreeHost(own))
		}, "FreeHost of 8192 bytes with a mapping of 4096 bytes"},
		{"copy beyond a mapping", func(t *testing.T, dev device.Device, s *device.Stream, host []byte) {
			b, unmap, err := dev.Map(host)
			must(t, err)
			_ = s.CopyIn(b.Ptr+8, host)
			must(t, unmap())
		}, "CopyIn of 4096 bytes at"},
		{"copy to what was mapped", func(t *testing.T, dev device.Device, s *device.Stream, host []byte) {
			b, unmap, err := dev.Map(host)
			must(t, err)
			must(t, unmap())
			_ = s.Fill(b.Ptr, 0, 1)
		}, "Fill of 4 bytes at"},
		{"asynchronous copy from what was mapped", func(t *testing.T, dev device.Device, s *device.Stream, host []byte) {
			_, unmap, err := dev.Map(host)
			must(t, err)
			must(t, unmap())
			b := give[device.Buffer](t)(dev.Alloc(4096))
			_ = s.CopyInAsync(b.Ptr, host)
			must(t, dev.Free(b))
		}, "not from AllocHost, Register or Map"},
		{"fill beyond what is mapped", func(t *testing.T, dev device.Device, s *device.Stream, _ []byte) {
			r := give[device.Range](t)(dev.Reserve(1 << 20))
			must(t, r.Resize(4096))
			_ = s.Fill(r.Ptr()+4096, 0, 1)
			must(t, r.Free())
		}, "Fill of 4 bytes at"},
		{"fill of a freed range", func(t *testing.T, dev device.Device, s *device.Stream, _ []byte) {
			r := give[device.Range](t)(dev.Reserve(1 << 20))
			must(t, r.Resize(4096))
			must(t, r.Free())
			_ = s.Fill(r.Ptr(), 0, 1)
		}, "Fill of 4 bytes at"},
		{"resize of a freed range", func(t *testing.T, dev device.Device, _ *device.Stream, _ []byte) {
			r := give[device.Range](t)(dev.Reserve(1 << 20))
			must(t, r.Free())
			if err := r.Resize(1); !errors.Is(err, device.ErrClosed) {
				t.Errorf("Resize: %v", err)
			}
		}, "Resize of a freed range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{TB: t}
			dev := devicetest.Checked(r, openSim(t))
			s := give[*device.Stream](t)(dev.NewStream())
			host := make([]byte, 4096+device.MapAlign)
			skip := -uintptr(unsafe.Pointer(unsafe.SliceData(host))) & (device.MapAlign - 1)
			c.run(t, dev, s, host[skip:][:4096])
			must(t, s.Close())
			r.finish()
			switch {
			case c.says == "" && len(r.failures) > 0:
				t.Errorf("failures %q", r.failures)
			case c.says != "" && (len(r.failures) != 1 || !strings.Contains(r.failures[0], c.says)):
				t.Errorf("failures are %q, want one that says %q", r.failures, c.says)
			}
		})
	}
}

func TestMappingsFailAsPlanned(t *testing.T) {
	dev := devicetest.Checked(t, openSim(t))
	host := give[[]byte](t)(dev.AllocHost(4096))
	r := give[device.Range](t)(dev.Reserve(1 << 20))
	must(t, r.Resize(512))
	for op, f := range map[devicetest.Op]func() error{
		devicetest.OpMap: func() error {
			_, unmap, err := dev.Map(host)
			if err == nil {
				err = unmap()
			}
			return err
		},
		devicetest.OpReserve: func() error {
			r, err := dev.Reserve(1)
			if err == nil {
				err = r.Free()
			}
			return err
		},
		devicetest.OpResize: func() error { return r.Resize(512) },
	} {
		fired := devicetest.FailNext(dev, op)
		if err := f(); !errors.Is(err, device.ErrMemory) || !fired() {
			t.Errorf("%s: %v", op, err)
		}
		must(t, f())
	}
	if got, want := devicetest.Live(dev), (devicetest.Counts{Host: 1, Ranges: 1, Bytes: 4096 + 512}); got != want {
		t.Errorf("live %+v, want %+v", got, want)
	}
	must(t, r.Free())
	must(t, dev.FreeHost(host))
}

// New memory of a range is not zero, and the old contents stay.
func TestFreshRangeIsNotZero(t *testing.T) {
	dev := devicetest.Checked(t, openCPU(t))
	r, err := dev.Reserve(16 << 20)
	if errors.Is(err, device.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	defer r.Free()
	check := func(old, n int) {
		t.Helper()
		must(t, r.Resize(n))
		host := r.Buffer().Host
		for i, v := range host {
			if i < old && v != 1 || i >= old && v != 0xdb {
				t.Fatalf("after growing from %d to %d bytes, byte %d is %#x", old, n, i, v)
			}
		}
		for i := range host {
			host[i] = 1
		}
	}
	check(0, 2<<20)
	check(2<<20, 6<<20)
	must(t, r.Resize(2<<20))
	check(2<<20, 4<<20)
}
