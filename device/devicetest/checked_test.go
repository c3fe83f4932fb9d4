package devicetest_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
)

// recorder is a test that only records its failures.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// finish runs the cleanups, as at the end of a test.
func (r *recorder) finish() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	r.cleanups = nil
}

func openCPU(t testing.TB) device.Device {
	t.Helper()
	d, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// give returns v, or fails the test.
func give[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// A device wrapped by Checked passes the conformance tests, and correct use of the device passes.
func TestConformanceChecked(t *testing.T) {
	devicetest.Conformance(t, func(t testing.TB) device.Device {
		return devicetest.Checked(&lenient{TB: t}, openCPU(t))
	})
}

// lenient is a test that ignores misuse, which Conformance contains a lot of.
type lenient struct{ testing.TB }

func (l *lenient) Errorf(string, ...any) {}

func TestMisuse(t *testing.T) {
	data := make([]byte, 100)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, dev device.Device)
		says string // empty: no failure
	}{
		{"clean", func(t *testing.T, dev device.Device) {
			s := give[*device.Stream](t)(dev.NewStream())
			d := give[device.Slice[uint32]](t)(device.Upload(s, []uint32{1, 2, 3}))
			host := give[[]byte](t)(dev.AllocHost(12))
			must(t, s.CopyOutAsync(host, d.Ptr()))
			must(t, s.Sync(t.Context()))
			must(t, dev.FreeHost(host))
			must(t, d.Free())
			must(t, s.Close())
			must(t, s.Close())
		}, ""},
		{"leaked buffer", func(t *testing.T, dev device.Device) {
			give[device.Buffer](t)(dev.Alloc(77))
		}, "leaked buffer of 77 bytes from devicetest/checked_test.go:"},
		{"leaked slice", func(t *testing.T, dev device.Device) {
			give[device.Slice[uint64]](t)(device.Make[uint64](dev, 10))
		}, "leaked buffer of 80 bytes from devicetest/checked_test.go:"},
		{"leaked host memory", func(t *testing.T, dev device.Device) {
			give[[]byte](t)(dev.AllocHost(5))
		}, "leaked host memory of 5 bytes"},
		{"leaked registration", func(t *testing.T, dev device.Device) {
			give[func() error](t)(dev.Register(data))
		}, "leaked registration of 100 bytes"},
		{"leaked stream", func(t *testing.T, dev device.Device) {
			give[*device.Stream](t)(dev.NewStream())
		}, "leaked stream from devicetest/checked_test.go:"},
		{"leaked event", func(t *testing.T, dev device.Device) {
			give[*device.Event](t)(dev.NewEvent())
		}, "leaked event from devicetest/checked_test.go:"},
		{"double free", func(t *testing.T, dev device.Device) {
			b := give[device.Buffer](t)(dev.Alloc(64))
			must(t, dev.Free(b))
			if err := dev.Free(b); !errors.Is(err, device.ErrInvalid) {
				t.Errorf("second Free: %v", err)
			}
		}, "were freed before, at devicetest/checked_test.go:"},
		{"double free of host memory", func(t *testing.T, dev device.Device) {
			b := give[[]byte](t)(dev.AllocHost(64))
			must(t, dev.FreeHost(b))
			_ = dev.FreeHost(b)
		}, "FreeHost of 64 bytes"},
		{"double unregister", func(t *testing.T, dev device.Device) {
			undo := give[func() error](t)(dev.Register(data))
			must(t, undo())
			_ = undo()
		}, "second unregister"},
		{"device closed", func(t *testing.T, dev device.Device) {
			must(t, dev.Close())
			if _, err := dev.Alloc(1); !errors.Is(err, device.ErrClosed) {
				t.Errorf("Alloc: %v", err)
			}
		}, "Alloc after the device was closed"},
		{"stream closed", func(t *testing.T, dev device.Device) {
			s := give[*device.Stream](t)(dev.NewStream())
			must(t, s.Close())
			_ = s.Sync(t.Context())
		}, "Sync on a closed stream"},
		{"event closed", func(t *testing.T, dev device.Device) {
			s := give[*device.Stream](t)(dev.NewStream())
			defer s.Close()
			e := give[*device.Event](t)(dev.NewEvent())
			must(t, e.Close())
			_ = s.Record(e)
		}, "Record with a closed event"},
		{"event of another", func(t *testing.T, dev device.Device) {
			s := give[*device.Stream](t)(dev.NewStream())
			defer s.Close()
			_ = s.Wait(give[*device.Event](t)(openCPU(t).NewEvent()))
		}, "not made by a checked device"},
		{"copy beyond a buffer", func(t *testing.T, dev device.Device) {
			s := give[*device.Stream](t)(dev.NewStream())
			defer s.Close()
			b := give[device.Buffer](t)(dev.Alloc(99))
			defer dev.Free(b)
			if err := s.CopyIn(b.Ptr, data); !errors.Is(err, device.ErrInvalid) {
				t.Errorf("CopyIn: %v", err)
			}
		}, "CopyIn of 100 bytes at"},
		{"fill beyond a buffer", func(t *testing.T, dev device.Device) {
			s := give[*device.Stream](t)(dev.NewStream())
			defer s.Close()
			b := give[device.Buffer](t)(dev.Alloc(99))
			defer dev.Free(b)
			_ = s.Fill(b.Ptr, 0, 25)
		}, "Fill of 100 bytes at"},
		{"copy from a freed buffer", func(t *testing.T, dev device.Device) {
			s := give[*device.Stream](t)(dev.NewStream())
			defer s.Close()
			b := give[device.Buffer](t)(dev.Alloc(100))
			must(t, dev.Free(b))
			_ = s.CopyOut(t.Context(), data, b.Ptr)
		}, "CopyOut of 100 bytes at"},
		{"asynchronous copy of any memory", func(t *testing.T, dev device.Device) {
			s := give[*device.Stream](t)(dev.NewStream())
			defer s.Close()
			b := give[device.Buffer](t)(dev.Alloc(100))
			defer dev.Free(b)
			_ = s.CopyInAsync(b.Ptr, data)
		}, "not from AllocHost, Register or Map"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{TB: t}
			c.run(t, devicetest.Checked(r, openCPU(t)))
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

func TestCheckedIsHost(t *testing.T) {
	dev := devicetest.Checked(t, openCPU(t))
	h, ok := dev.(device.Host)
	if !ok {
		t.Fatal("a wrapped CPU is no host")
	}
	s := give[*device.Stream](t)(dev.NewStream())
	defer s.Close()
	if s.Device() != h {
		t.Error("the stream belongs to another device")
	}
}

func TestFreshMemoryIsNotZero(t *testing.T) {
	dev := devicetest.Checked(t, openCPU(t))
	b := give[device.Buffer](t)(dev.Alloc(1000))
	defer dev.Free(b)
	for i, v := range b.Host {
		if v == 0 {
			t.Fatalf("byte %d is zero", i)
		}
	}
}

// pair allocates two resources. If leak is set, an error path leaks the first one.
func pair(dev device.Device, leak bool) (free func() error, err error) {
	a, err := dev.Alloc(10)
	if err != nil {
		return nil, err
	}
	s, err := dev.NewStream()
	if err != nil {
		if leak {
			return nil, err
		}
		return nil, errors.Join(err, dev.Free(a))
	}
	return func() error { return errors.Join(s.Close(), dev.Free(a)) }, nil
}

func TestFailAfter(t *testing.T) {
	for _, leak := range []bool{false, true} {
		r := &recorder{TB: t}
		dev := devicetest.Checked(r, openCPU(t))
		leaks, n := 0, 0
		for ; ; n++ {
			fired := devicetest.FailAfter(dev, n)
			free, err := pair(dev, leak)
			if !fired() {
				must(t, err)
				must(t, free())
				break
			}
			if !errors.Is(err, device.ErrMemory) {
				t.Errorf("failure %d: %v", n, err)
			}
			leaks += devicetest.Live(dev).Buffers
		}
		devicetest.ClearFailures(dev)
		if want := map[bool]int{false: 0, true: 1}[leak]; leaks != want || n != 2 {
			t.Errorf("leaks in %d of %d error paths, want %d of 2", leaks, n, want)
		}
		r.finish()
		if got := len(r.failures) > 0; got != leak {
			t.Errorf("failures %q", r.failures)
		}
	}
}

func TestFailNext(t *testing.T) {
	dev := devicetest.Checked(t, openCPU(t))
	s := give[*device.Stream](t)(dev.NewStream())
	defer s.Close()
	b := give[device.Buffer](t)(dev.Alloc(8))
	defer dev.Free(b)
	fired := devicetest.FailNext(dev, devicetest.OpFill)
	must(t, s.CopyIn(b.Ptr, []byte{1}))
	if fired() {
		t.Error("another operation fired")
	}
	if err := s.Fill(b.Ptr, 0, 1); !errors.Is(err, device.ErrMemory) || !fired() {
		t.Errorf("Fill: %v, fired %v", err, fired())
	}
	must(t, s.Fill(b.Ptr, 0, 1))
}

func TestFailMemoryAfter(t *testing.T) {
	dev := devicetest.Checked(t, openCPU(t))
	s := give[*device.Stream](t)(dev.NewStream())
	defer s.Close()
	fired := devicetest.FailMemoryAfter(dev, 1)
	b := give[device.Buffer](t)(dev.Alloc(8))
	defer dev.Free(b)
	must(t, s.Fill(b.Ptr, 0, 1))
	if fired() {
		t.Error("the first, or what takes no memory, fired")
	}
	if _, err := dev.Alloc(8); !errors.Is(err, device.ErrMemory) || !devicetest.IsMemoryFailure(err) || !fired() {
		t.Errorf("Alloc: %v, fired %v", err, fired())
	}
	devicetest.FailNext(dev, devicetest.OpFill)
	if err := s.Fill(b.Ptr, 0, 1); err == nil || devicetest.IsMemoryFailure(err) {
		t.Errorf("Fill: %v takes memory", err)
	}
}

func TestLive(t *testing.T) {
	dev := devicetest.Checked(t, openCPU(t))
	b := give[device.Buffer](t)(dev.Alloc(8))
	e := give[*device.Event](t)(dev.NewEvent())
	if got, want := devicetest.Live(dev), (devicetest.Counts{Buffers: 1, Events: 1, Bytes: 8}); got != want {
		t.Errorf("live %+v, want %+v", got, want)
	}
	must(t, dev.Free(b))
	must(t, e.Close())
	if got := devicetest.Live(dev); got != (devicetest.Counts{}) {
		t.Errorf("live %+v", got)
	}
}

func TestOpen(t *testing.T) {
	t.Setenv(devicetest.Variable, "")
	if kind := devicetest.Open(t).Properties().Kind; kind != device.CPU {
		t.Errorf("the default is %s", kind)
	}
}
