package alloc

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/op"
)

// openOwner returns the only owner of a new pool, with all of the pool's initial memory.
func openOwner(dev device.Device, opts *Options) (*Owner, error) {
	p, err := New(dev, opts)
	if err != nil {
		return nil, err
	}
	o, err := p.Owner()
	if err == nil {
		err = o.Reserve(context.Background(), len(p.blocks)*blockUnits)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return o, nil
}

func newOwner(t testing.TB, dev device.Device, opts *Options) *Owner {
	t.Helper()
	o, err := openOwner(dev, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func usage(t testing.TB, o *Owner) Usage {
	t.Helper()
	u, err := o.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// allocate takes n units. None of them may be in taken.
func allocate(t testing.TB, a *Owner, n int, taken map[uint32]bool) []uint32 {
	t.Helper()
	units := make([]uint32, n)
	if got, err := a.Allocate(t.Context(), units); got != n || err != nil {
		t.Fatalf("Allocate of %d units: %d, %v", n, got, err)
	}
	claim(t, a, units, taken)
	return units
}

// claim adds units to taken. They must be new and exist.
func claim(t testing.TB, a *Owner, units []uint32, taken map[uint32]bool) {
	t.Helper()
	for _, u := range units {
		if _, err := a.Ptr(u); taken[u] || err != nil {
			t.Fatalf("unit %#x was given out; it is taken: %v", u, taken[u])
		}
		taken[u] = true
	}
	if used := usage(t, a).Used; used != len(taken) {
		t.Fatalf("%d units are in use, want %d", used, len(taken))
	}
}

func TestOptions(t *testing.T) {
	dev := devicetest.Open(t)
	for want, o := range map[string]Options{
		"UnitBytes":            {UnitBytes: 64},
		"Blocks -1":            {Blocks: -1},
		"Blocks 16":            {Blocks: maxBlocks + 1},
		"a limit of 256 super": {MaxSuperBlocks: 256},
		"a limit of -1":        {MaxSuperBlocks: -1},
		"SuperBlocks":          {SuperBlocks: 3, MaxSuperBlocks: 2},
		"SuperBlocks -":        {SuperBlocks: -1},
		"256 super blocks":     {SuperBlocks: 256, Light: true},
	} {
		if _, err := New(dev, &o); !errors.Is(err, op.ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := New(nil, nil); !errors.Is(err, op.ErrOptions) {
		t.Errorf("no device: %v", err)
	}
	p := newOwner(t, dev, nil).Pool()
	want := Stats{UnitBytes: 128, MaxSuperBlocks: 255, Blocks: 256, Owners: 1, Bytes: 255 * 8}
	if s := p.Stats(); s != want {
		t.Errorf("by default: %v", s)
	}
	light := newOwner(t, dev, &Options{Light: true, Blocks: 1, UnitBytes: 256})
	want = Stats{
		UnitBytes: 256, SuperBlocks: 1, MaxSuperBlocks: 1, Blocks: 1, Owners: 1, Units: 1024, Owned: 1024, Bytes: 255*8 + 128 + 1024*256,
	}
	if s := light.Pool().Stats(); s != want {
		t.Errorf("light: %v", s)
	}
	if s, want := want.String(), "1 owners of 1024 of 1024 units of 256 bytes, 1 of at most 1 super blocks of 1 memory blocks, 264312 bytes"; s != want {
		t.Errorf("String: %s", s)
	}
	if s, want := usage(t, light).String(), "0 of 1024 units taken, in 1 memory blocks, 262272 bytes"; s != want {
		t.Errorf("String: %s", s)
	}
}

// TestProperties runs random operations. Each unit must be allocated once, none may be lost, and
// the allocator must grow by at least a quarter.
func TestProperties(t *testing.T) {
	dev := devicetest.Open(t)
	rapid.Check(t, func(r *rapid.T) {
		o := Options{
			Blocks:      rapid.IntRange(1, 3).Draw(r, "blocks"),
			SuperBlocks: rapid.IntRange(0, 2).Draw(r, "supers"),
			Light:       rapid.Bool().Draw(r, "light"),
		}
		o.MaxSuperBlocks = rapid.IntRange(max(o.SuperBlocks, 1), 5).Draw(r, "max")
		a, err := openOwner(dev, &o)
		if err != nil {
			r.Fatal(err)
		}
		defer a.pool.Close()
		taken := make(map[uint32]bool)
		var units []uint32
		limit := a.pool.opts.MaxSuperBlocks * a.pool.opts.Blocks * blockUnits
		for range rapid.IntRange(1, 8).Draw(r, "steps") {
			before := a.pool.Stats()
			switch n := rapid.IntRange(0, 3000).Draw(r, "n"); rapid.IntRange(0, 3).Draw(r, "step") {
			default: // allocate, perhaps more than the maximum
				more := make([]uint32, n)
				got, err := a.Allocate(t.Context(), more)
				want := min(n, limit-len(taken))
				if got != want || errors.Is(err, op.ErrFull) != (want < n) || err == nil != (want == n) {
					r.Fatalf("Allocate of %d units with %d of %d taken: %d, %v", n, len(taken), limit, got, err)
				}
				for i, u := range more[got:] {
					if u != NoUnit {
						r.Fatalf("address %d behind the %d units that there were is %#x", i, got, u)
					}
				}
				claim(t, a, more[:got], taken)
				units = append(units, more[:got]...)
			case 1: // free some
				n = min(n, len(units))
				if got, err := a.Free(t.Context(), units[:n]); got != n || err != nil {
					r.Fatalf("Free of %d units: %d, %v", n, got, err)
				}
				for _, u := range units[:n] {
					delete(taken, u)
				}
				units = units[n:]
			case 2:
				err := a.Reserve(t.Context(), n)
				if after := usage(t, a); errors.Is(err, op.ErrFull) != (len(taken)+n > limit) || err == nil && after.Units-after.Used < n {
					r.Fatalf("Reserve of %d units: %v, then %v", n, err, after)
				}
			}
			if n := a.pool.Stats().SuperBlocks; n != before.SuperBlocks && n < min(before.SuperBlocks+ceilDiv(before.SuperBlocks, 4), a.pool.opts.MaxSuperBlocks) {
				r.Fatalf("%d super blocks became %d", before.SuperBlocks, n)
			}
			if after := usage(t, a); after.Used != len(taken) {
				r.Fatalf("%v, with %d units taken", after, len(taken))
			}
		}
	})
}

// TestUnitsAreMemory checks that new units are all ones, aligned, and disjoint. A freed unit must
// keep its content until Clear.
func TestUnitsAreMemory(t *testing.T) {
	dev := devicetest.Open(t)
	for _, o := range []Options{{Blocks: 1}, {Blocks: 1, UnitBytes: 256}, {Blocks: 1, SuperBlocks: 2, Light: true}} {
		a := newOwner(t, dev, &o)
		s, err := dev.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		size := a.pool.opts.UnitBytes
		units := allocate(t, a, 1500, make(map[uint32]bool))
		seen := make(map[device.Ptr]bool)
		got, ones := make([]byte, size), slices.Repeat([]byte{0xff}, size)
		read := func(u uint32) []byte {
			p, err := a.Ptr(u)
			if err != nil || p%128 != 0 || seen[p] {
				t.Fatalf("unit %#x lies at %#x: %v", u, p, err)
			}
			if err := s.CopyOut(t.Context(), got, p); err != nil {
				t.Fatal(err)
			}
			return got
		}
		for i, u := range units {
			if i%100 == 0 && !slices.Equal(read(u), ones) {
				t.Fatalf("fresh unit %#x holds %x", u, got)
			}
			p, _ := a.Ptr(u)
			seen[p] = true
		}
		clear(seen)
		p, _ := a.Ptr(units[7])
		if err := s.Fill(p, 0x01020304, size/4); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Free(t.Context(), units); n != len(units) || err != nil {
			t.Fatal(n, err)
		}
		if read(units[7])[0] != 4 {
			t.Errorf("after Free: %x", got)
		}
		if err := a.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(read(units[7]), ones) {
			t.Errorf("after Clear: %x", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAllocateWithoutMemory checks that an allocator that cannot grow allocates its last unit
// before it returns an error.
func TestAllocateWithoutMemory(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("other operations come between those of growth")
	}
	a := newOwner(t, dev, &Options{Blocks: 2, SuperBlocks: 1})
	taken := make(map[uint32]bool)
	allocate(t, a, 100, taken)
	fired := devicetest.FailNext(dev, devicetest.OpAlloc)
	units := make([]uint32, 3000)
	n, err := a.Allocate(t.Context(), units)
	if n != 2048-100 || !errors.Is(err, device.ErrMemory) || !fired() {
		t.Fatalf("Allocate of 3000 units: %d, %v", n, err)
	}
	claim(t, a, units[:n], taken)
	// The next allocation succeeds again.
	allocate(t, a, 3000, taken)
	// If growth fails halfway, the super blocks that it has added stay.
	if err := a.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	supers := a.pool.Stats().SuperBlocks
	// A super block takes an allocation and a copy, and then two fills when its memory blocks get
	// an owner.
	devicetest.FailAfter(dev, 3*2)
	devicetest.FailAfter(dev, 3*2+1+3*2)
	err = a.Reserve(t.Context(), 50_000)
	if got := a.pool.Stats().SuperBlocks; !errors.Is(err, device.ErrMemory) || got <= supers || got > supers+3 {
		t.Errorf("Reserve: %v; %d super blocks became %d", err, supers, got)
	}
}

// TestFreeOfWhatIsNotTaken checks that Free returns an error for units that are not taken and frees
// the rest.
func TestFreeOfWhatIsNotTaken(t *testing.T) {
	dev := devicetest.Open(t)
	a := newOwner(t, dev, &Options{Blocks: 3, SuperBlocks: 1})
	units := allocate(t, a, 500, make(map[uint32]bool))
	first, never := units[0], uint32(0)
	for slices.Contains(units, never) {
		never++
	}
	for _, wrong := range [][]uint32{
		{NoUnit}, {NoUnit - 1}, {1 << superShift}, {3 << blockShift}, {never}, {units[0], units[0]}, {never, never, NoUnit},
	} {
		good := units[1:50]
		n, err := a.Free(t.Context(), append(slices.Clone(wrong), good...))
		valid := 0
		if wrong[0] == first {
			valid = 1
		}
		if n != len(good)+valid || !errors.Is(err, device.ErrInvalid) {
			t.Errorf("Free of %#x and %d others: %d, %v", wrong, len(good), n, err)
		}
		units = units[50:]
	}
	for _, u := range []uint32{NoUnit, 3 << blockShift, 1 << superShift} {
		if p, err := a.Ptr(u); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("unit %#x lies at %#x: %v", u, p, err)
		}
	}
}

// TestAllocateOn runs batches on the device. Reserved units must be available, and missing units
// marked.
func TestAllocateOn(t *testing.T) {
	dev := devicetest.Open(t)
	a := newOwner(t, dev, &Options{Blocks: 2, MaxSuperBlocks: 3})
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	taken := make(map[uint32]bool)
	allocate(t, a, 1000, taken)
	if err := a.Reserve(t.Context(), 3000); err != nil {
		t.Fatal(err)
	}
	d, err := device.Make[uint32](dev, 6000)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free()
	units := make([]uint32, d.Len())
	take := func(n int) []uint32 {
		t.Helper()
		if err := a.AllocateOn(s, d.Sub(0, n)); err != nil {
			t.Fatal(err)
		}
		if err := d.CopyTo(t.Context(), s, units[:n]); err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(slices.Clone(units[:n]), func(u uint32) bool { return u == NoUnit })
	}
	got := take(3000)
	if claim(t, a, got, taken); len(got) != 3000 {
		t.Fatalf("of 3000 units that were reserved there are %d", len(got))
	}
	if err := a.FreeOn(s, d.Sub(0, 3000)); err != nil {
		t.Fatal(err)
	}
	for _, u := range got {
		delete(taken, u)
	}
	free := usage(t, a)
	got = take(6000)
	if claim(t, a, got, taken); len(got) != free.Units-free.Used {
		t.Errorf("%d units were given out; before: %v", len(got), free)
	}
	// Addresses without a unit are skipped.
	if err := a.FreeOn(s, d); err != nil {
		t.Fatal(err)
	}
	if used := usage(t, a).Used; used != 1000 {
		t.Errorf("%d units are taken, want 1000", used)
	}
	if err := errors.Join(a.AllocateOn(s, d.Sub(0, 0)), a.FreeOn(s, device.Slice[uint32]{})); err != nil {
		t.Errorf("nothing at all: %v", err)
	}
}

func TestStreamsOfOthers(t *testing.T) {
	dev, other := devicetest.Open(t), devicetest.Open(t)
	a := newOwner(t, dev, nil)
	s, err := other.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := device.Make[uint32](other, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free()
	own, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for what, err := range map[string]error{
		"stream is nil":            a.AllocateOn(nil, d),
		"the stream belongs":       a.FreeOn(s, d),
		"units are on another dev": a.AllocateOn(own, d),
	} {
		if !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestClosed(t *testing.T) {
	dev := devicetest.Open(t)
	a := newOwner(t, dev, &Options{SuperBlocks: 1, Blocks: 1})
	units := allocate(t, a, 10, make(map[uint32]bool))
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, alloc := a.Allocate(t.Context(), units)
	_, free := a.Free(t.Context(), units)
	_, ptr := a.Ptr(units[0])
	_, stats := a.Usage(t.Context())
	for method, err := range map[string]error{
		"Allocate": alloc, "Free": free, "Ptr": ptr, "Usage": stats,
		"Reserve": a.Reserve(t.Context(), 1), "Clear": a.Clear(t.Context()),
		"AllocateOn": a.AllocateOn(s, device.Slice[uint32]{}), "FreeOn": a.FreeOn(s, device.Slice[uint32]{}),
	} {
		if !errors.Is(err, op.ErrClosed) || !strings.Contains(err.Error(), method) {
			t.Errorf("%s after Close: %v", method, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	a := newOwner(t, devicetest.Open(t), &Options{SuperBlocks: 1, Blocks: 1})
	units := allocate(t, a, 10, make(map[uint32]bool))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, err := a.Allocate(ctx, make([]uint32, 5))
	m, free := a.Free(ctx, units)
	if n != 0 || m != 0 || !errors.Is(err, context.Canceled) || !errors.Is(free, context.Canceled) || !errors.Is(a.Reserve(ctx, 5000), context.Canceled) {
		t.Errorf("with an ended context: %d units, %v; %d freed, %v", n, err, m, free)
	}
	if s := usage(t, a); s.Used != 10 || a.pool.Stats().SuperBlocks != 1 {
		t.Errorf("%v", s)
	}
}

// TestFailures checks that no memory leaks if an operation fails, and that the allocator is
// unchanged.
func TestFailures(t *testing.T) {
	dev := devicetest.Open(t)
	run := func() (err error) {
		for _, o := range []Options{{Blocks: 1}, {Blocks: 1, SuperBlocks: 2, Light: true}} {
			a, err := openOwner(dev, &o)
			if err != nil {
				return err
			}
			defer a.pool.Close()
			units := make([]uint32, 1500)
			n, err := a.Allocate(t.Context(), units)
			if err == nil {
				_, err = a.Free(t.Context(), units[:n/2])
			}
			if err == nil {
				err = a.Reserve(t.Context(), 500)
			}
			if err == nil {
				err = a.Clear(t.Context())
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for n := 0; ; n++ {
		fired := devicetest.FailAfter(dev, n)
		err := run()
		if !fired() {
			if devicetest.ClearFailures(dev); err != nil {
				t.Errorf("without a failure: %v", err)
			}
			break
		}
		if err != nil && !errors.Is(err, device.ErrMemory) {
			t.Errorf("failure %d: %v", n, err)
		}
		if live := devicetest.Live(dev); live != (devicetest.Counts{}) {
			t.Fatalf("failure %d: %+v are left", n, live)
		}
	}
}

// TestReserveTooMuch checks that an impossible reservation fails at once and allocates nothing.
func TestReserveTooMuch(t *testing.T) {
	for on, dev := range map[string]device.Device{"cpu": devicetest.OpenCPU(t, 2), "sim": devicetest.OpenSim(t, nil)} {
		a, err := openOwner(dev, &Options{Blocks: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, units := range []int{math.MaxInt, 1 << 40, 255*1024 + 1} {
			if err := a.Reserve(t.Context(), units); !errors.Is(err, op.ErrFull) {
				t.Errorf("%s: Reserve(%d): %v", on, units, err)
			}
		}
		if s := a.pool.Stats(); s.SuperBlocks != 0 {
			t.Errorf("%s: %v", on, s)
		}
		if err := a.pool.Close(); err != nil {
			t.Error(err)
		}
	}
}
