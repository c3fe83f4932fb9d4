package cuda

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

// The sizes of pieces double. A large range has few pieces, and a shrink leaves at most twice the
// requested size mapped.
func TestPiecesDouble(t *testing.T) {
	f := newFake()
	f.gpus[0].free = 100 << 30
	f.fail = func(sym symbol, n int) Code { // avoids allocating 16 GiB
		if sym == symMemSetAccess {
			return outOfMemory
		}
		return success
	}
	d := f.open(t)
	r, err := d.Reserve(100 << 30)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Resize(16 << 30); !errors.Is(err, device.ErrMemory) || r.Mapped() != 0 {
		t.Errorf("Resize: %v, %d bytes mapped", err, r.Mapped())
	}
	// The pieces are 2 + 2 + 4 ... + 512 MiB, then 15 of 1 GiB.
	if n := f.calls[symMemCreate]; n != 25 {
		t.Errorf("16 GiB are %d pieces", n)
	}
	if len(f.pieces) != 0 {
		t.Errorf("%d pieces are left of a failure", len(f.pieces))
	}
}

// Close frees the remaining ranges, after the work that uses them.
func TestCloseFreesRanges(t *testing.T) {
	f := newFake()
	d := f.open(t)
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	freed, err1 := d.Reserve(1)
	left, err2 := d.Reserve(5 << 20)
	if err := errors.Join(err1, err2, freed.Free(), left.Resize(5<<20)); err != nil {
		t.Fatal(err)
	}
	if n := len(d.children); n != 2 { // the stream and one range
		t.Errorf("%d children", n)
	}
	for range 20 {
		if err := s.Fill(left.Ptr(), 1, 5<<18); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(left.Free(), freed.Free()); err != nil {
		t.Errorf("Free after Close: %v", err)
	}
	if err := left.Resize(1); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Resize after Close: %v", err)
	}
}

func TestReserveWhileClosing(t *testing.T) {
	d := newFake().open(t)
	d.closing = true
	_, err := d.Reserve(1)
	d.closing = false
	if !errors.Is(err, device.ErrClosed) {
		t.Errorf("Reserve: %v", err)
	}
}

// Drivers report a lack of addresses in different ways.
func TestReserveTooMuch(t *testing.T) {
	for _, code := range []Code{outOfMemory, invalidValue} {
		f := newFake()
		f.fail = func(s symbol, _ int) Code {
			if s == symMemAddressReserve {
				return code
			}
			return success
		}
		if _, err := f.open(t).Reserve(1 << 50); !errors.Is(err, device.ErrMemory) {
			t.Errorf("code %d: %v", code, err)
		}
	}
}

// Reserve on a GPU without virtual memory returns ErrUnsupported.
func TestReserveUnsupported(t *testing.T) {
	for _, sym := range []symbol{symMemGetAllocationGranularity, symMemAddressReserve} {
		f := newFake()
		f.fail = func(s symbol, _ int) Code {
			if s == sym {
				return notSupported
			}
			return success
		}
		if _, err := f.open(t).Reserve(1); !errors.Is(err, device.ErrUnsupported) {
			t.Errorf("%v is not supported: %v", sym, err)
		}
	}
}

// If the driver refuses to page-lock memory, the error names memory that it would accept.
func TestMapRefused(t *testing.T) {
	for code, want := range map[Code]error{
		invalidValue: device.ErrUnsupported, operatingSystem: device.ErrUnsupported,
		notPermitted: device.ErrUnsupported, notSupported: device.ErrUnsupported,
		alreadyRegistered: device.ErrInvalid, outOfMemory: device.ErrMemory,
	} {
		f := newFake()
		f.fail = func(s symbol, _ int) Code {
			if s == symMemHostRegister {
				return code
			}
			return success
		}
		d := f.open(t)
		host := make([]byte, 64<<10)
		_, _, mapErr := d.Map(host)
		_, regErr := d.Register(host)
		for what, err := range map[string]error{"Map": mapErr, "Register": regErr} {
			if e, ok := errors.AsType[*Error](err); !errors.Is(err, want) || !ok || e.Code != code {
				t.Errorf("%s refused with code %d: %v", what, code, err)
			}
			if errors.Is(want, device.ErrUnsupported) && !strings.Contains(err.Error(), "tmpfs") {
				t.Errorf("%s: the error has no reason: %v", what, err)
			}
		}
		f.fail = nil // and no trace of it remains
		_, unmap, err := d.Map(host)
		if err != nil {
			t.Fatal(err)
		}
		if err := unmap(); err != nil {
			t.Error(err)
		}
	}
}

// AllocHost memory is mapped on every GPU without further page-locking.
func TestMapOnTwoGPUs(t *testing.T) {
	f := newFake()
	a := f.open(t)
	b, err := a.drv.open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	host, err := a.AllocHost(4096)
	if err != nil {
		t.Fatal(err)
	}
	_, unmapA, err1 := a.Map(host)
	_, unmapB, err2 := b.Map(host)
	if err := errors.Join(err1, err2, unmapA()); err != nil {
		t.Fatal(err)
	}
	if n := f.calls[symMemHostRegister]; n != 0 {
		t.Errorf("%d registrations of memory that is page-locked", n)
	}
	if err := errors.Join(unmapB(), a.FreeHost(host)); err != nil {
		t.Error(err)
	}
}

// If the GPU uses the host's addresses, memory is mapped in pieces, which copies and fills respect.
// Otherwise it is mapped as a whole. If the context ends between pieces or a piece fails, none
// stays mapped.
func TestMapInPieces(t *testing.T) {
	for _, unified := range []bool{true, false} {
		f := newFake()
		f.unified = unified
		d := f.open(t)
		d.pieceBytes = 4096
		all := make([]byte, 6*d.pieceBytes)
		host := all[d.pieceBytes-address(all)%d.pieceBytes+1024:][:4*d.pieceBytes] // five pieces
		ctx := &countdown{Context: t.Context(), left: 3}
		_, unmap, err := d.MapContext(ctx, host)
		if !unified {
			if err == nil {
				err = errors.Join(unmap(), unmap())
			}
			if n := f.calls[symMemHostRegister]; err != nil || n != 2 || len(f.pinned) != 0 {
				t.Fatalf("%d registrations, %d are left: %v", n, len(f.pinned), err)
			}
			continue
		}
		if n := f.calls[symMemHostRegister]; !errors.Is(err, context.Canceled) || n != 3 || len(f.pinned) != 0 {
			t.Fatalf("%d registrations, %d are left: %v", n, len(f.pinned), err)
		}
		f.fail = func(s symbol, n int) Code {
			if s == symMemHostRegister && n == 6 {
				return outOfMemory
			}
			return success
		}
		if _, _, err := d.Map(host); !errors.Is(err, device.ErrMemory) || len(f.pinned) != 0 {
			t.Fatalf("%d registrations are left: %v", len(f.pinned), err)
		}
		f.fail = nil
		b, unmap, err := d.Map(host)
		if err != nil || len(f.pinned) != 5 {
			t.Fatalf("%d pieces: %v", len(f.pinned), err)
		}
		s, err := d.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		half := b.Size / 2
		err = errors.Join(s.Fill(b.Ptr, 0x01010101, half/4), s.Copy(b.Ptr+device.Ptr(half), b.Ptr, half), s.Sync(t.Context()))
		if err != nil || bytes.Count(host, []byte{1}) != len(host) {
			t.Errorf("%d of %d bytes are filled: %v", bytes.Count(host, []byte{1}), len(host), err)
		}
		buf, err := d.Alloc(len(host))
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(s.CopyInAsync(buf.Ptr, host), s.Fill(b.Ptr, 0, b.Size/4), s.CopyOutAsync(host, buf.Ptr), s.Sync(t.Context()))
		if err != nil || bytes.Count(host, []byte{1}) != len(host) {
			t.Errorf("%d of %d bytes have been copied: %v", bytes.Count(host, []byte{1}), len(host), err)
		}
		if err := errors.Join(unmap(), s.Close(), d.Free(buf)); err != nil || len(f.pinned) != 0 {
			t.Errorf("%d registrations are left: %v", len(f.pinned), err)
		}
	}
}

// countdown is a context that ends after a number of calls of Err.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}
