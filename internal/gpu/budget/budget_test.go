package budget_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/gpu/budget"
)

// Memory within the bound is allocated, and freed memory is reused.
func TestBudget(t *testing.T) {
	inner := devicetest.OpenSim(t, nil)
	before := devicetest.Live(inner)
	dev := budget.New(inner, 1000)
	a, err := device.Make[uint8](dev, 600)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := dev.Memory(); err != nil || m.Free != 400 || m.Total != 1000 {
		t.Errorf("%+v, %v", m, err)
	}
	_, err = dev.Alloc(401)
	const want = "401 bytes, with 600 in use of the 1000"
	if !errors.Is(err, device.ErrMemory) || !strings.Contains(err.Error(), want) {
		t.Errorf("401 bytes of 400: %v", err)
	}
	at := a.Ptr()
	if err := a.Free(); err != nil {
		t.Fatal(err)
	}
	if a, err = device.Make[uint8](dev, 600); err != nil || a.Ptr() != at {
		t.Errorf("the same size again: at %#x, was at %#x; %v", a.Ptr(), at, err)
	}
	if err := a.Free(); err != nil {
		t.Fatal(err)
	}
	// Kept memory is freed for new allocations.
	for _, size := range []int{500, 1000, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10} {
		b, err := dev.Alloc(size)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if err := dev.Free(b); err != nil {
			t.Fatal(err)
		}
	}
	if live := devicetest.Live(inner); live.Bytes == before.Bytes ||
		live.Bytes > before.Bytes+1000 {
		t.Errorf("%+v with buffers kept", live)
	}
	s, err := dev.NewStream()
	if err != nil || s.Device() != device.Device(dev) {
		t.Fatalf("a stream of another device; %v", err)
	}
	if err := errors.Join(s.Close(), dev.Release(), dev.Release()); err != nil {
		t.Fatal(err)
	}
	if live := devicetest.Live(inner); live != before {
		t.Errorf("%+v are left of %+v", live, before)
	}
}

// Without a bound the device decides.
func TestNoBound(t *testing.T) {
	inner := devicetest.OpenSim(t, nil)
	dev := budget.New(inner, 0)
	b, err := dev.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	want, errWant := inner.Memory()
	if m, err := dev.Memory(); m != want || err != nil || errWant != nil {
		t.Errorf("%+v, want %+v; %v, %v", m, want, err, errWant)
	}
	if _, err := dev.Alloc(int(want.Free) + 1); !errors.Is(err, device.ErrMemory) {
		t.Errorf("more than there is: %v", err)
	}
	if err := errors.Join(dev.Free(b), dev.Release()); err != nil {
		t.Fatal(err)
	}
}
