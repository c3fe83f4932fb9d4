package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
)

// everything calls every function of a device and releases all resources, even after failures. It
// returns the first error of each step that failed.
func everything(drv *driver) (errs []error) {
	check := func(err error) bool {
		if err != nil {
			errs = append(errs, err)
		}
		return err == nil
	}
	if _, err := drv.devices(); !check(err) {
		return errs
	}
	d, err := drv.open(0)
	if !check(err) {
		return errs
	}
	defer func() { check(d.Close()) }()
	_, err = d.Memory()
	check(err)
	_, err = d.Load(vectors)
	check(err)
	s, err := d.NewStream()
	if !check(err) {
		return errs
	}
	defer func() { check(s.Close()) }()
	e, err := d.NewEvent()
	if !check(err) {
		return errs
	}
	defer func() { check(e.Close()) }()
	const n = 3 << 20
	b, err := d.Alloc(n)
	if !check(err) {
		return errs
	}
	defer func() { check(d.Free(b)) }()
	check(d.Probe(b.Ptr, n))
	copies(d, s, b, check)
	if peer, err := drv.open(1); check(err) {
		if from, err := peer.Alloc(100); check(err) {
			check(s.CopyPeer(b.Ptr, peer, from.Ptr, 100))
			drain(s, check)
			if !check(peer.Free(from)) { // this call reports the loss
				check(peer.Free(from))
			}
		}
		check(peer.Close())
	}
	mappings(d, s, check)
	check(s.Record(e))
	check(s.Wait(e))
	check(e.Sync(context.Background()))
	check(d.Unload(vectors))
	if m, err := d.Load(vectors); check(err) {
		if k, err := m.Kernel("add"); check(err) {
			check(device.Launch(s, k, device.Dim{}, device.Dim{}, &addParams{A: b.Ptr, B: b.Ptr, C: b.Ptr, N: 16}))
		}
	}
	_, err = e.Since(e)
	check(err)
	check(d.Sync(context.Background()))
	return errs
}

// copies is the part of everything that copies.
func copies(d *Device, s *device.Stream, b device.Buffer, check func(error) bool) {
	data := bytes.Repeat([]byte{7}, b.Size)
	if host, err := d.AllocHost(1000); check(err) {
		check(s.CopyInAsync(b.Ptr, host))
		check(s.CopyOutAsync(host, b.Ptr))
		drain(s, check)
		check(d.FreeHost(host))
	}
	if undo, err := d.Register(data); check(err) {
		if !check(s.CopyIn(b.Ptr, data)) {
			drain(s, check)
		}
		check(undo())
	}
	check(s.CopyIn(b.Ptr, data[:100]))
	check(s.CopyIn(b.Ptr, data))
	check(s.CopyOut(context.Background(), data, b.Ptr))
	check(s.Fill(b.Ptr, 1, 10))
	check(s.Copy(b.Ptr, b.Ptr+100, 50))
	for range maxPolls + 10 { // enough fills that Sync needs a marker
		check(s.Fill(b.Ptr, 1, 10))
	}
	check(s.Sync(context.Background()))
}

// mappings is the part of everything that maps memory.
func mappings(d *Device, s *device.Stream, check func(error) bool) {
	for _, host := range [][]byte{make([]byte, 3<<20), nil} {
		if host == nil {
			own, err := d.AllocHost(1 << 20)
			if !check(err) {
				return
			}
			defer func() { check(d.FreeHost(own)) }()
			host = own
		}
		if m, unmap, err := d.Map(host); check(err) {
			check(s.Fill(m.Ptr, 1, m.Size/4))
			drain(s, check)
			check(unmap())
			check(unmap())
		}
	}
	r, err := d.Reserve(100 << 20)
	if !check(err) {
		return
	}
	defer func() { check(r.Free()) }()
	for _, n := range []int{3 << 20, 20 << 20, 5 << 20, 7 << 20} {
		before := r.Mapped()
		if !check(r.Resize(n)) && n > before && r.Mapped() != before {
			check(fmt.Errorf("a failure to grow changed what is mapped from %d to %d bytes", before, r.Mapped()))
		}
		if r.Mapped() >= n {
			check(s.Fill(r.Ptr()+device.Ptr(n-400), 1, 100))
		}
	}
	drain(s, check)
}

// drain waits for a stream, twice if that fails, since memory must not be freed while work uses it.
func drain(s *device.Stream, check func(error) bool) {
	for range 2 {
		if check(s.Sync(context.Background())) {
			return
		}
	}
}

// silent lists the functions with failures that the package does not report.
var silent = map[symbol]bool{symGetErrorName: true, symGetErrorString: true}

// Each driver call of everything fails once. The error names the call, the device stays usable, and
// no resource is left in the driver.
func TestEachCallFailsOnce(t *testing.T) {
	counts := newFake()
	if errs := everything(counts.driver(t)); errs != nil {
		t.Fatal(errs)
	}
	const unknown = Code(999) // not sticky
	for sym, n := range counts.calls {
		sym := symbol(sym)
		if n == 0 && !silent[sym] && sym != symMemFree { // TestFreeWithoutPools
			t.Errorf("%v is never called", sym)
		}
		for nth := range min(n, 12) {
			t.Run(fmt.Sprintf("%v %d", sym, nth), func(t *testing.T) {
				f := newFake()
				f.fail = func(s symbol, n int) Code {
					if s == sym && n == nth {
						return unknown
					}
					return success
				}
				drv, err := newDriver(f)
				errs := []error{err}
				if err == nil {
					errs = everything(drv)
				}
				if sym == symCtxSetCurrent {
					f.forget() // without a context nothing can be released
				}
				f.checkEmpty(t)
				if f.calls[sym] <= nth {
					return // a wait took fewer polls than the first time
				}
				e, ok := errors.AsType[*Error](errors.Join(errs...))
				if !ok || e.Op != sym.String() || e.Code != unknown || !errors.Is(e, device.ErrDriver) {
					t.Errorf("errors are %v, want one of %v", errs, sym)
				}
			})
		}
	}
}

func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.memory)
	clear(f.host)
	clear(f.pinned)
	clear(f.ranges)
	clear(f.pieces)
	clear(f.streams)
	clear(f.events)
	clear(f.modules)
}

// Each driver call of everything makes the context unusable. Every later call fails with ErrLost
// and the first cause, and Close still releases what it can. Of several concurrent calls any can be
// the first to report the loss.
func TestEachCallLosesTheDevice(t *testing.T) {
	counts := newFake()
	if errs := everything(counts.driver(t)); errs != nil {
		t.Fatal(errs)
	}
	for sym, n := range counts.calls {
		sym := symbol(sym)
		if noContext[sym] || n == 0 {
			continue
		}
		for nth := range min(n, 12) {
			t.Run(fmt.Sprintf("%v %d", sym, nth), func(t *testing.T) {
				f := newFake()
				f.fail = func(s symbol, n int) Code {
					if s == sym && n == nth {
						return illegalAddress
					}
					return success
				}
				errs := everything(f.driver(t))
				f.checkEmpty(t)
				if f.calls[sym] <= nth {
					return
				}
				if len(errs) == 0 && sym != symModuleUnload { // Close itself unloads
					t.Error("no errors")
				}
				for _, err := range errs {
					e, ok := errors.AsType[*Error](err)
					if !errors.Is(err, device.ErrLost) || !ok || e.Code != illegalAddress {
						t.Errorf("error is %v, want ErrLost because of code %d", err, illegalAddress)
					}
				}
			})
		}
	}
}

func TestLostDevice(t *testing.T) {
	f := newFake()
	d := f.open(t)
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Load(vectors)
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel("wild")
	if err != nil {
		t.Fatal(err)
	}
	if err := device.Launch(s, k, device.Dim{}, device.Dim{}, &addParams{}); err != nil {
		t.Fatal(err)
	}
	first := s.Sync(t.Context())
	if e, ok := errors.AsType[*Error](first); !ok || e.Code != illegalAddress || !errors.Is(first, device.ErrLost) {
		t.Fatalf("Sync: %v", first)
	}
	calls := f.calls
	_, err = d.Alloc(1)
	for what, err := range map[string]error{
		"Alloc": err, "Sync": d.Sync(t.Context()), "CopyIn": s.CopyIn(1, []byte{1}),
		"Launch": device.Launch(s, k, device.Dim{}, device.Dim{}, &addParams{}),
	} {
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != illegalAddress || !errors.Is(err, device.ErrLost) {
			t.Errorf("%s: %v, want ErrLost with the first cause", what, err)
		}
	}
	if f.calls != calls {
		t.Error("a lost device was called")
	}
	if err := s.Close(); !errors.Is(err, device.ErrLost) {
		t.Errorf("closing the stream: %v", err)
	}
}

func TestErrorText(t *testing.T) {
	f := newFake()
	f.fail = func(s symbol, n int) Code {
		if s == symGetErrorName && n == 1 || s == symGetErrorString && n == 1 {
			return invalidValue
		}
		return success
	}
	d := f.open(t)
	_, err := d.Alloc(100 << 30)
	const full = "cuda: device 0: allocating 107374182400 bytes: cuMemAlloc: FAKE_ERROR_2 (2): as the test wants it"
	if err == nil || err.Error() != full || !errors.Is(err, device.ErrMemory) {
		t.Errorf("error is %q, want %q", err, full)
	}
	_, err = d.Alloc(100 << 30)
	const short = "cuda: device 0: allocating 107374182400 bytes: cuMemAlloc: error 2"
	if err == nil || err.Error() != short {
		t.Errorf("error without explanations is %q, want %q", err, short)
	}
}

func TestCodes(t *testing.T) {
	for code, want := range map[Code]error{
		1: device.ErrInvalid, 2: device.ErrMemory, 3: device.ErrDriver, 100: device.ErrNoDevice, 214: device.ErrLost,
		218: device.ErrKernel, 400: device.ErrInvalid, 500: device.ErrKernel, 700: device.ErrLost, 701: device.ErrInvalid,
		702: device.ErrLost, 709: device.ErrLost, 710: device.ErrLost, 714: device.ErrLost, 719: device.ErrLost,
		720: device.ErrDriver, 801: device.ErrUnsupported, 999: device.ErrDriver,
	} {
		if err := error(&Error{Code: code}); !errors.Is(err, want) {
			t.Errorf("code %d is not %v", code, want)
		}
	}
}
