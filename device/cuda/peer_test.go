package cuda

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
)

func twoGPUs(t *testing.T, f *fake) (a, b *Device) {
	t.Helper()
	drv := f.driver(t)
	for i, d := range []**Device{&a, &b} {
		var err error
		if *d, err = drv.open(i); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*d).Close() })
	}
	return a, b
}

// CopyPeer copies from one GPU to another, with and without a link between them.
func TestCopyPeer(t *testing.T) {
	for _, linked := range []bool{true, false} {
		f := newFake()
		f.linked = linked
		a, b := twoGPUs(t, f)
		from, err := a.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		to, err := b.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		want := []uint32{1, 2, 3, 4, 5}
		src, err := device.Upload(from, want)
		if err != nil {
			t.Fatal(err)
		}
		dst, err := device.Make[uint32](b, len(want))
		if err != nil {
			t.Fatal(err)
		}
		if err := from.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := to.CopyPeer(dst.Ptr(), a, src.Ptr(), 20); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]uint32, len(want))
		if err := dst.CopyTo(t.Context(), to, got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v", got, err)
		}
		if n := f.calls[symCtxEnablePeerAccess]; n != map[bool]int{true: 1}[linked] {
			t.Errorf("access has been enabled %d times", n)
		}
		if f.links[[2]uintptr{b.ctx, a.ctx}] != linked {
			t.Error("the wrong GPU has access")
		}
		if err := to.CopyPeer(dst.Ptr(), a, src.Ptr(), -1); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("-1 bytes: %v", err)
		}
		if err := to.CopyPeer(dst.Ptr(), a, src.Ptr(), 0); err != nil {
			t.Errorf("no bytes: %v", err)
		}
		if err := from.CopyPeer(src.Ptr(), a, src.Ptr()+4, 16); err != nil { // the same GPU
			t.Error(err)
		}
		if err := errors.Join(from.Sync(t.Context()), src.Free()); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if err := to.CopyPeer(dst.Ptr(), a, src.Ptr(), 20); !errors.Is(err, device.ErrClosed) {
			t.Errorf("from a closed device: %v", err)
		}
		dst.Free()
	}
}

// CopyPeer from a device of another kind returns ErrUnsupported.
func TestCopyPeerOfHosts(t *testing.T) {
	host, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	s, err := host.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x := newFixture(t)
	if err := x.s.CopyPeer(0, host, 0, 1); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("to a GPU: %v", err)
	}
	if err := s.CopyPeer(0, x.d, 0, 1); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("to a CPU: %v", err)
	}
}
