package device_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
)

// Fill a slice on a device from Go memory, take a part of it, and read the part back.
func ExampleSlice() {
	dev, err := cpu.Open(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	stream, err := dev.NewStream()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()
	d, err := device.Upload(stream, []uint32{1, 2, 3, 4, 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Free()
	middle := make([]uint32, 3)
	if err := d.Sub(1, 4).CopyTo(context.Background(), stream, middle); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Len(), middle)
	// Output: 5 [2 3 4]
}

func TestSliceRoundTrip(t *testing.T) {
	dev := devicetest.Open(t)
	s := devicetest.NewStream(t, dev)
	t.Run("bool", func(t *testing.T) { roundTrip(t, s, []bool{true, false, true}) })
	t.Run("uint8", func(t *testing.T) { roundTrip(t, s, []uint8{1, 2, 255}) })
	t.Run("int16", func(t *testing.T) { roundTrip(t, s, []int16{-1, 2, math.MinInt16}) })
	t.Run("uint32", func(t *testing.T) { roundTrip(t, s, []uint32{1, math.MaxUint32, 3}) })
	t.Run("int64", func(t *testing.T) { roundTrip(t, s, []int64{math.MinInt64, 0, 1}) })
	t.Run("float64", func(t *testing.T) { roundTrip(t, s, []float64{math.Inf(-1), .1, 1e300}) })
	type named int32
	t.Run("named", func(t *testing.T) { roundTrip(t, s, []named{-5, 6, 7}) })
}

func roundTrip[T device.Elem](t *testing.T, s *device.Stream, src []T) {
	d, err := device.Upload(s, src)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]T, len(src))
	if err := d.CopyTo(t.Context(), s, got); err != nil || !slices.Equal(got, src) {
		t.Errorf("%v came back as %v: %v", src, got, err)
	}
	if _, ok := s.Device().(device.Host); ok != (d.Host() != nil) {
		t.Errorf("host view is %v, the device is a host: %v", d.Host(), ok)
	}
	if d.Host() != nil && !slices.Equal(d.Host(), src) {
		t.Errorf("host view is %v", d.Host())
	}
	if d.Device() != s.Device() || d.Ptr() == 0 {
		t.Errorf("the slice lies at %#x of %v", d.Ptr(), d.Device())
	}
	// A copy of fewer elements leaves the rest unchanged.
	if err := d.CopyFrom(s, src[2:]); err != nil {
		t.Fatal(err)
	}
	if err := d.CopyTo(t.Context(), s, got[:2]); err != nil || got[0] != src[2] || got[1] != src[1] {
		t.Errorf("after a copy of one element: %v, %v", got[:2], err)
	}
	for range 2 { // the second Free does nothing
		if err := d.Free(); err != nil {
			t.Fatal(err)
		}
	}
	if d.Len() != 0 || d.Ptr() != 0 || d.Host() != nil || d.Device() != s.Device() {
		t.Errorf("after Free: %+v", d)
	}
}

func TestSub(t *testing.T) {
	dev := devicetest.Open(t)
	s := devicetest.NewStream(t, dev)
	d, err := device.Upload(s, []uint64{0, 1, 2, 3, 4, 5})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free()
	sub := d.Sub(2, 5)
	if sub.Len() != 3 || sub.Ptr() != d.Ptr()+16 || sub.Device() != d.Device() {
		t.Errorf("[2:5] is %d elements at %#x of %#x", sub.Len(), sub.Ptr(), d.Ptr())
	}
	if err := sub.CopyFrom(s, []uint64{20, 30}); err != nil { // shared memory
		t.Fatal(err)
	}
	if err := sub.Free(); err != nil { // Sub owns nothing
		t.Fatal(err)
	}
	got := make([]uint64, 6)
	if err := d.CopyTo(t.Context(), s, got); err != nil || !slices.Equal(got, []uint64{0, 1, 20, 30, 4, 5}) {
		t.Errorf("%v, %v", got, err)
	}
	if host := d.Sub(2, 4).Host(); host != nil && cap(host) != 2 {
		t.Errorf("the host view of 2 elements reaches over %d", cap(host))
	}
	if again := d.Sub(1, 6).Sub(1, 3); again.Ptr() != d.Ptr()+16 || again.Len() != 2 {
		t.Errorf("[1:6][1:3] is %d elements at %#x of %#x", again.Len(), again.Ptr(), d.Ptr())
	}
	for _, at := range [][2]int{{-1, 2}, {3, 2}, {0, 7}, {7, 7}} {
		mustPanic(t, fmt.Sprint("Sub", at), func() { d.Sub(at[0], at[1]) })
	}
	if empty := d.Sub(6, 6); empty.Len() != 0 {
		t.Errorf("[6:6] has %d elements", empty.Len())
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if _, ok := recover().(string); !ok {
			t.Errorf("%s: no panic with a message", what)
		}
	}()
	f()
}

func TestSliceErrors(t *testing.T) {
	dev := devicetest.Open(t)
	s := devicetest.NewStream(t, dev)
	for _, n := range []int{-1, math.MinInt, math.MaxInt, math.MaxInt/8 + 1} {
		if _, err := device.Make[uint64](dev, n); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%d elements: %v", n, err)
		}
	}
	if _, err := device.Make[uint64](dev, 1<<50); !errors.Is(err, device.ErrMemory) {
		t.Errorf("2^50 elements: %v", err)
	}
	// An Upload that fails leaves no memory allocated.
	for _, op := range []devicetest.Op{devicetest.OpAlloc, devicetest.OpCopyIn} {
		devicetest.FailNext(dev, op)
		if d, err := device.Upload(s, []uint32{1}); !errors.Is(err, device.ErrMemory) || d.Len() != 0 {
			t.Errorf("Upload with a failing %s: %d elements, %v", op, d.Len(), err)
		}
	}
	if live := devicetest.Live(dev); live.Buffers != 0 {
		t.Errorf("%+v are left", live)
	}
	d, err := device.Make[uint32](dev, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free()
	mustPanic(t, "CopyFrom", func() { d.CopyFrom(s, make([]uint32, 3)) })
	mustPanic(t, "CopyTo", func() { d.CopyTo(t.Context(), s, make([]uint32, 3)) })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.CopyTo(ended, s, make([]uint32, 2)); !errors.Is(err, context.Canceled) {
		t.Errorf("CopyTo with an ended context: %v", err)
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Empty slices support all operations.
func TestEmptySlice(t *testing.T) {
	dev := devicetest.Open(t)
	s := devicetest.NewStream(t, dev)
	made, err := device.Make[uint16](dev, 0)
	if err != nil {
		t.Fatal(err)
	}
	var zero device.Slice[uint16]
	for name, d := range map[string]device.Slice[uint16]{"made": made, "zero": zero} {
		if d.Len() != 0 || d.Ptr() != 0 || d.Host() != nil || d.Sub(0, 0).Len() != 0 {
			t.Errorf("%s: %+v", name, d)
		}
		if err := errors.Join(d.CopyFrom(s, nil), d.CopyTo(t.Context(), s, nil), d.Free()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if device.Bytes[uint64](nil) != nil || device.Bytes([]uint64{}) != nil {
		t.Error("the bytes of nothing are something")
	}
	if got := device.Bytes([]uint32{0x04030201}); !slices.Equal(got, []byte{1, 2, 3, 4}) {
		t.Errorf("the bytes of 0x04030201 are %v", got)
	}
}
