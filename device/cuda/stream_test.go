package cuda

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
)

// fixture is a device with a stream and a kernel.
type fixture struct {
	f *fake
	d *Device
	s *device.Stream
	m device.Module
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	x := &fixture{f: newFake()}
	x.d = x.f.open(t)
	var err error
	if x.s, err = x.d.NewStream(); err != nil {
		t.Fatal(err)
	}
	if x.m, err = x.d.Load(vectors); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *fixture) kernel(t testing.TB, name string) device.Kernel {
	t.Helper()
	k, err := x.m.Kernel(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestLaunchOrder(t *testing.T) {
	x := newFixture(t)
	var want []string
	for i := range 200 {
		name := []string{"spin", "none"}[i%7%2]
		want = append(want, name)
		k := x.kernel(t, name)
		if err := x.s.Driver().Launch(k, device.Dim{}, device.Dim{}, make([]byte, k.ParamSize())); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(x.f.launch, want) {
		t.Errorf("kernels ran as %v, want %v", x.f.launch, want)
	}
}

// The driver reads the parameters of each launch, although launches reuse the memory of parameters.
func TestLaunchParameters(t *testing.T) {
	x := newFixture(t)
	add := x.kernel(t, "add")
	d, err := device.Upload(x.s, []uint32{1, 10, 100, 1000})
	if err != nil {
		t.Fatal(err)
	}
	p := addParams{A: d.Ptr(), B: d.Ptr(), C: d.Ptr()}
	for n := range 4 {
		p.N = uint32(n + 1) // doubles the first n+1
		if err := device.Launch(x.s, add, device.Dim{}, device.Dim{}, &p); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]uint32, 4)
	if err := d.CopyTo(t.Context(), x.s, got); err != nil {
		t.Fatal(err)
	}
	if want := []uint32{16, 80, 400, 2000}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := d.Free(); err != nil {
		t.Fatal(err)
	}
}

func TestLaunchRefuses(t *testing.T) {
	x := newFixture(t)
	other, err := x.d.drv.open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	m, err := other.Load(vectors)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := m.Kernel("add")
	if err != nil {
		t.Fatal(err)
	}
	add := x.kernel(t, "add")
	for what, launch := range map[string]func() error{
		"wrong size":     func() error { return device.Launch(x.s, add, device.Dim{}, device.Dim{}, new(uint64)) },
		"raw wrong size": func() error { return x.s.Driver().Launch(add, device.Dim{}, device.Dim{}, nil) },
		"negative grid":  func() error { return device.Launch(x.s, add, device.Dim{X: -1}, device.Dim{}, &addParams{}) },
		"grid too large for the driver's type": func() error {
			return device.Launch(x.s, add, device.Dim{X: math.MaxUint32 + 2}, device.Dim{}, &addParams{})
		},
		"block too large": func() error { return device.Launch(x.s, add, device.Dim{}, device.Dim{X: 2048}, &addParams{}) },
		"other device":    func() error { return device.Launch(x.s, foreign, device.Dim{}, device.Dim{}, &addParams{}) },
	} {
		if err := launch(); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAsyncNeedsPageLockedMemory(t *testing.T) {
	x := newFixture(t)
	b := make([]byte, 10)
	if err := x.s.CopyInAsync(1, b); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("CopyInAsync: %v", err)
	}
	if err := x.s.CopyOutAsync(b, 1); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("CopyOutAsync: %v", err)
	}
}

// stuck makes a stream wait for an event that is not reached before release.
func (x *fixture) stuck(t testing.TB) (release func()) {
	t.Helper()
	e, err := x.d.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	fe := x.f.events[e.Driver().(*event).handle]
	fe.submitted++
	if err := x.s.Wait(e); err != nil {
		t.Fatal(err)
	}
	return func() {
		x.f.mu.Lock()
		defer x.f.mu.Unlock()
		fe.reached = fe.submitted
	}
}

func TestWaitsEndWithTheContext(t *testing.T) {
	x := newFixture(t)
	b, err := x.d.Alloc(3 << 20)
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := x.d.AllocHost(1000)
	if err != nil {
		t.Fatal(err)
	}
	release := x.stuck(t)
	dst := make([]byte, b.Size)
	for what, f := range map[string]func(ctx context.Context) error{
		"Stream.Sync":     x.s.Sync,
		"Device.Sync":     x.d.Sync,
		"CopyOut":         func(ctx context.Context) error { return x.s.CopyOut(ctx, dst, b.Ptr) },
		"CopyOut, small":  func(ctx context.Context) error { return x.s.CopyOut(ctx, dst[:10], b.Ptr) },
		"CopyOut, pinned": func(ctx context.Context) error { return x.s.CopyOut(ctx, pinned, b.Ptr) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
	}
	release()
	if err := x.s.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	if err := x.s.CopyOut(t.Context(), dst, b.Ptr); err != nil {
		t.Errorf("the ring after cancelled copies: %v", err)
	}
	if err := errors.Join(x.d.FreeHost(pinned), x.d.Free(b)); err != nil {
		t.Error(err)
	}
}

// Sync does not wait for work that other goroutines submit after its call.
func TestSyncWaitsForEarlierWorkOnly(t *testing.T) {
	x := newFixture(t)
	b, err := x.d.Alloc(4)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				for range 3 { // faster than the fake executes
					if err := x.s.Fill(b.Ptr, 0, 1); err != nil {
						t.Error(err)
						return
					}
				}
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 5 {
		if err := x.s.Sync(ctx); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	others.Wait()
	if err := errors.Join(x.s.Close(), x.d.Free(b)); err != nil {
		t.Error(err)
	}
}

func TestCloseClosesWhatIsOpen(t *testing.T) {
	x := newFixture(t)
	e, err := x.d.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	b, err := x.d.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.s.CopyIn(b.Ptr, make([]byte, b.Size)); err != nil {
		t.Fatal(err)
	}
	if err := x.d.Free(b); err != nil {
		t.Fatal(err)
	}
	if err := x.d.Close(); err != nil { // checkEmpty runs at the end of the test
		t.Fatal(err)
	}
	if err := errors.Join(e.Close(), x.s.Close(), x.d.Close()); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if err := x.s.Sync(t.Context()); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Sync after Close: %v", err)
	}
}

// Close during all kinds of use causes no crash, no deadlock, and no error but ErrClosed.
func TestCloseBesideUse(t *testing.T) {
	for range 20 {
		x := newFixture(t)
		add := x.kernel(t, "add")
		var users sync.WaitGroup
		for range 4 {
			users.Go(func() {
				for err := error(nil); err == nil; {
					if err = use(x, add); err != nil && !errors.Is(err, device.ErrClosed) {
						t.Error(err)
					}
				}
			})
		}
		time.Sleep(time.Millisecond)
		if err := x.d.Close(); err != nil {
			t.Error(err)
		}
		users.Wait()
		x.f.forgetMemory()
	}
}

// forgetMemory drops the buffers that could not be freed after Close.
func (f *fake) forgetMemory() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.memory)
	clear(f.modules)
}

func use(x *fixture, add device.Kernel) error {
	b, err := x.d.Alloc(100)
	if err != nil {
		return err
	}
	s, err := x.d.NewStream()
	if err != nil {
		return err
	}
	p := addParams{A: b.Ptr, B: b.Ptr, C: b.Ptr, N: 25}
	return errors.Join(
		s.CopyIn(b.Ptr, make([]byte, 100)),
		device.Launch(s, add, device.Dim{}, device.Dim{}, &p),
		s.CopyOut(context.Background(), make([]byte, 100), b.Ptr),
		x.s.Fill(b.Ptr, 1, 25),
		x.s.Sync(context.Background()),
		s.Close(),
		x.d.Free(b),
	)
}

func TestLaunchAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop things")
	}
	s, k := launcher(t)
	var p addParams
	if n := testing.AllocsPerRun(1000, func() {
		if err := device.Launch(s, k, device.Dim{X: 10}, device.Dim{X: 128}, &p); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a launch allocates %v times", n)
	}
}

// launcher returns a stream with a driver that does nothing, to measure this package alone.
func launcher(t testing.TB) (*device.Stream, device.Kernel) {
	x := newFixture(t)
	k := x.kernel(t, "add")
	real := x.d.drv.invoke
	x.d.drv.invoke = func(uintptr, []uintptr) uintptr { return 0 }
	t.Cleanup(func() { x.d.drv.invoke = real })
	return x.s, k
}

func BenchmarkLaunchOverhead(b *testing.B) {
	s, k := launcher(b)
	var p addParams
	b.ReportAllocs()
	for b.Loop() {
		if err := device.Launch(s, k, device.Dim{X: 10}, device.Dim{X: 128}, &p); err != nil {
			b.Fatal(err)
		}
	}
}

func TestWaitSleeps(t *testing.T) {
	polls := 0
	start := time.Now()
	err := wait(t.Context(), func() (bool, error) {
		polls++
		return time.Since(start) > 100*time.Millisecond, nil
	})
	if late := time.Since(start) - 100*time.Millisecond; err != nil || late > 50*time.Millisecond {
		t.Errorf("wait: %v, %v late", err, late)
	}
	if polls > 50_000 { // polls of a wait without sleep, in a millisecond or two per core
		t.Errorf("wait asked %d times in 100 ms", polls)
	}
}
