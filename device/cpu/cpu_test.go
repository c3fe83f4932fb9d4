package cpu_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
)

func open(t testing.TB, workers int) *cpu.Device {
	t.Helper()
	d, err := cpu.Open(&cpu.Options{Workers: workers})
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

func Example() {
	dev, err := cpu.Open(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()

	squares := make([]int, 10)
	dev.Parallel(len(squares), 4, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			squares[i] = i * i
		}
	})
	fmt.Println(squares)
	// Output: [0 1 4 9 16 25 36 49 64 81]
}

func TestPropertiesDescribeTheHost(t *testing.T) {
	p := open(t, 3).Properties()
	if p.Kind != device.CPU || p.Units != 3 || p.Arch != 0 || p.Name == "" || p.L2 < 0 {
		t.Errorf("properties %+v", p)
	}
	m, err := open(t, 1).Memory()
	if err != nil || m.Free > m.Total {
		t.Errorf("Memory() = %+v, %v", m, err)
	}
}

func TestOpenRefusesNegativeWorkers(t *testing.T) {
	if _, err := cpu.Open(&cpu.Options{Workers: -1}); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// Every call after Close returns ErrClosed, and Close is idempotent.
func TestClosed(t *testing.T) {
	d, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStream()
	e, _ := d.NewEvent()
	buf, _ := d.Alloc(1 << 20)
	pinned, _ := d.AllocHost(100)
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	calls := map[string]func() error{
		"Memory":    func() error { _, err := d.Memory(); return err },
		"Alloc":     func() error { _, err := d.Alloc(1); return err },
		"AllocHost": func() error { _, err := d.AllocHost(1); return err },
		"Register":  func() error { _, err := d.Register(make([]byte, 1)); return err },
		"NewStream": func() error { _, err := d.NewStream(); return err },
		"NewEvent":  func() error { _, err := d.NewEvent(); return err },
		"Sync":      func() error { return d.Sync(ctx) },
		"CopyIn":    func() error { return s.CopyIn(buf.Ptr, make([]byte, 1)) },
		"CopyOut":   func() error { return s.CopyOut(ctx, make([]byte, 1), buf.Ptr) },
		"Copy":      func() error { return s.Copy(buf.Ptr, buf.Ptr+8, 8) },
		"Fill":      func() error { return s.Fill(buf.Ptr, 0, 1) },
		"Record":    func() error { return s.Record(e) },
		"Wait":      func() error { return s.Wait(e) },
		"Stream":    func() error { return s.Sync(ctx) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	// A late Free still releases memory.
	buf.Host[0] = 1
	if err := errors.Join(d.Free(buf), d.FreeHost(pinned)); err != nil {
		t.Errorf("Free after Close: %v", err)
	}
	if err := d.Free(buf); !errors.Is(err, device.ErrClosed) {
		t.Errorf("second Free after Close: %v", err)
	}
	sum := 0
	d.Parallel(10, 1, func(lo, hi int) { sum += hi - lo }) // runs on the caller alone
	if sum != 10 {
		t.Errorf("Parallel after Close did %d of 10", sum)
	}
}

func TestNoKernels(t *testing.T) {
	d := open(t, 1)
	if _, err := d.Load(&device.Image{Name: "linear"}); !errors.Is(err, device.ErrNoKernels) {
		t.Errorf("Load: %v", err)
	}
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	params := struct{ n uint64 }{}
	if err := device.Launch(s, kernel{}, device.Dim{}, device.Dim{}, &params); !errors.Is(err, device.ErrNoKernels) {
		t.Errorf("Launch: %v", err)
	}
}

type kernel struct{}

func (kernel) Name() string   { return "k" }
func (kernel) ParamSize() int { return 8 }

func TestCancelled(t *testing.T) {
	d := open(t, 1)
	s, _ := d.NewStream()
	e, _ := d.NewEvent()
	buf, err := d.Alloc(8)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := map[string]func() error{
		"Device.Sync": func() error { return d.Sync(ctx) },
		"Stream.Sync": func() error { return s.Sync(ctx) },
		"Event.Sync":  func() error { return e.Sync(ctx) },
		"CopyOut":     func() error { return s.CopyOut(ctx, make([]byte, 8), buf.Ptr) },
	}
	for name, wait := range waits {
		if err := wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancel()
	for name, wait := range waits {
		if err := wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", name, err)
		}
	}
}
