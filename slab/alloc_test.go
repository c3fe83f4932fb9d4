package slab

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

func newAlloc(t testing.TB, dev device.Device, o *AllocOptions) *Alloc {
	t.Helper()
	a, err := NewAlloc(dev, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func allocStats(t testing.TB, a *Alloc) AllocStats {
	t.Helper()
	s, err := a.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// takeUnits wants all of n units, and none that is among those taken.
func takeUnits(t testing.TB, a *Alloc, n int, taken map[uint32]bool) []uint32 {
	t.Helper()
	units := make([]uint32, n)
	if got, err := a.Allocate(t.Context(), units); got != n || err != nil {
		t.Fatalf("Allocate of %d units: %d, %v", n, got, err)
	}
	own(t, a, units, taken)
	return units
}

// own adds units to those taken: they must be new and exist.
func own(t testing.TB, a *Alloc, units []uint32, taken map[uint32]bool) {
	t.Helper()
	for _, u := range units {
		if taken[u] || !a.Ref().has(u) {
			t.Fatalf("unit %#x was given out; it is taken: %v", u, taken[u])
		}
		taken[u] = true
	}
	if used := allocStats(t, a).Used; used != len(taken) {
		t.Fatalf("%d units are in use, want %d", used, len(taken))
	}
}

func TestAllocOptions(t *testing.T) {
	dev := devicetest.Open(t)
	for want, o := range map[string]AllocOptions{
		"UnitBytes":         {UnitBytes: 64},
		"Blocks -1":         {Blocks: -1},
		"Blocks 16":         {Blocks: maxBlocks + 1},
		"at most 256 super": {MaxSuperBlocks: 256},
		"at most -1":        {MaxSuperBlocks: -1},
		"SuperBlocks":       {SuperBlocks: 3, MaxSuperBlocks: 2},
		"SuperBlocks -":     {SuperBlocks: -1},
		"256 super blocks":  {SuperBlocks: 256, Light: true},
	} {
		if _, err := NewAlloc(dev, &o); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := NewAlloc(nil, nil); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("no device: %v", err)
	}
	a := newAlloc(t, dev, nil)
	want := AllocStats{UnitBytes: 128, MaxSuperBlocks: 255, Blocks: 256, Bytes: 255 * 8}
	if s := allocStats(t, a); s != want {
		t.Errorf("by default: %v", s)
	}
	light := newAlloc(t, dev, &AllocOptions{Light: true, Blocks: 1, UnitBytes: 256})
	want = AllocStats{UnitBytes: 256, SuperBlocks: 1, MaxSuperBlocks: 1, Blocks: 1, Units: 1024, Bytes: 255*8 + 128 + 1024*256}
	if s := allocStats(t, light); s != want {
		t.Errorf("light: %v", s)
	}
	if s, want := want.String(), "0 of 1024 units of 256 bytes taken, 1 of at most 1 super blocks of 1 memory blocks, 264312 bytes"; s != want {
		t.Errorf("String: %s", s)
	}
}

// Units are given out once each, none gets lost, and the allocator grows, by
// doubling at least, whatever is asked of it in whatever order.
func TestAllocProperties(t *testing.T) {
	dev := devicetest.Open(t)
	rapid.Check(t, func(r *rapid.T) {
		o := AllocOptions{
			Blocks:      rapid.IntRange(1, 3).Draw(r, "blocks"),
			SuperBlocks: rapid.IntRange(0, 2).Draw(r, "supers"),
			Light:       rapid.Bool().Draw(r, "light"),
		}
		o.MaxSuperBlocks = rapid.IntRange(max(o.SuperBlocks, 1), 5).Draw(r, "max")
		a, err := NewAlloc(dev, &o)
		if err != nil {
			r.Fatal(err)
		}
		defer a.Close()
		taken := make(map[uint32]bool)
		var units []uint32
		limit := a.opts.MaxSuperBlocks * a.opts.Blocks * blockUnits
		for range rapid.IntRange(1, 8).Draw(r, "steps") {
			before := allocStats(t, a)
			switch n := rapid.IntRange(0, 3000).Draw(r, "n"); rapid.IntRange(0, 3).Draw(r, "step") {
			default: // allocate, perhaps more than there can be
				more := make([]uint32, n)
				got, err := a.Allocate(t.Context(), more)
				want := min(n, limit-len(taken))
				if got != want || errors.Is(err, weft.ErrFull) != (want < n) || err == nil != (want == n) {
					r.Fatalf("Allocate of %d units with %d of %d taken: %d, %v", n, len(taken), limit, got, err)
				}
				for i, u := range more[got:] {
					if u != noUnit {
						r.Fatalf("address %d behind the %d units that there were is %#x", i, got, u)
					}
				}
				own(t, a, more[:got], taken)
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
				if after := allocStats(t, a); errors.Is(err, weft.ErrFull) != (len(taken)+n > limit) || err == nil && after.Units-after.Used < n {
					r.Fatalf("Reserve of %d units: %v, then %v", n, err, after)
				}
			}
			after := allocStats(t, a)
			if n := after.SuperBlocks; n != before.SuperBlocks && n < min(before.SuperBlocks+ceilDiv(before.SuperBlocks, 4), a.opts.MaxSuperBlocks) {
				r.Fatalf("%d super blocks became %d", before.SuperBlocks, n)
			}
			if after.Used != len(taken) {
				r.Fatalf("%v, with %d units taken", after, len(taken))
			}
		}
	})
}

// Fresh units are all ones, aligned, and apart; what is in a unit stays there
// when it is freed, until Clear.
func TestUnitsAreMemory(t *testing.T) {
	dev := devicetest.Open(t)
	for _, o := range []AllocOptions{{Blocks: 1}, {Blocks: 1, UnitBytes: 256}, {Blocks: 1, SuperBlocks: 2, Light: true}} {
		a := newAlloc(t, dev, &o)
		s, err := dev.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		size := a.opts.UnitBytes
		units := takeUnits(t, a, 1500, make(map[uint32]bool))
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

// An allocator without more memory gives out the last unit before it says so.
func TestAllocateWithoutMemory(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("other operations come between those of growth")
	}
	a := newAlloc(t, dev, &AllocOptions{Blocks: 2, SuperBlocks: 1})
	taken := make(map[uint32]bool)
	takeUnits(t, a, 100, taken)
	fired := devicetest.FailNext(dev, devicetest.OpAlloc)
	units := make([]uint32, 3000)
	n, err := a.Allocate(t.Context(), units)
	if n != 2048-100 || !errors.Is(err, device.ErrMemory) || !fired() {
		t.Fatalf("Allocate of 3000 units: %d, %v", n, err)
	}
	own(t, a, units[:n], taken)
	// Later there is memory again.
	takeUnits(t, a, 3000, taken)
	// Half of the growth is better than none.
	if err := a.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	supers := allocStats(t, a).SuperBlocks
	// A super block takes an allocation, two fills and a copy; on a GPU
	// counting the free units takes three operations.
	devicetest.FailAfter(dev, 3*4)
	devicetest.FailAfter(dev, 3*4+1)
	err = a.Reserve(t.Context(), 50_000)
	if got := allocStats(t, a).SuperBlocks; !errors.Is(err, device.ErrMemory) || got <= supers || got > supers+3 {
		t.Errorf("Reserve: %v; %d super blocks became %d", err, supers, got)
	}
}

// Freeing what is not taken is an error, and frees the rest.
func TestFreeOfWhatIsNotTaken(t *testing.T) {
	dev := devicetest.Open(t)
	a := newAlloc(t, dev, &AllocOptions{Blocks: 3, SuperBlocks: 1})
	units := takeUnits(t, a, 500, make(map[uint32]bool))
	first, never := units[0], uint32(0)
	for slices.Contains(units, never) {
		never++
	}
	for _, wrong := range [][]uint32{
		{noUnit}, {noUnit - 1}, {1 << superShift}, {3 << blockShift}, {never}, {units[0], units[0]}, {never, never, noUnit},
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
	for _, u := range []uint32{noUnit, 3 << blockShift, 1 << superShift} {
		if p, err := a.Ptr(u); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("unit %#x lies at %#x: %v", u, p, err)
		}
	}
}

// Batches on the device: what is reserved can be had, what can't is marked.
func TestAllocateOn(t *testing.T) {
	dev := devicetest.Open(t)
	a := newAlloc(t, dev, &AllocOptions{Blocks: 2, MaxSuperBlocks: 3})
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	taken := make(map[uint32]bool)
	takeUnits(t, a, 1000, taken)
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
		return slices.DeleteFunc(slices.Clone(units[:n]), func(u uint32) bool { return u == noUnit })
	}
	got := take(3000)
	if own(t, a, got, taken); len(got) != 3000 {
		t.Fatalf("of 3000 units that were reserved there are %d", len(got))
	}
	if err := a.FreeOn(s, d.Sub(0, 3000)); err != nil {
		t.Fatal(err)
	}
	for _, u := range got {
		delete(taken, u)
	}
	free := allocStats(t, a)
	got = take(6000)
	if own(t, a, got, taken); len(got) != free.Units-free.Used {
		t.Errorf("%d units were given out; before: %v", len(got), free)
	}
	// Addresses of nothing are left out.
	if err := a.FreeOn(s, d); err != nil {
		t.Fatal(err)
	}
	if used := allocStats(t, a).Used; used != 1000 {
		t.Errorf("%d units are taken, want 1000", used)
	}
	if err := errors.Join(a.AllocateOn(s, d.Sub(0, 0)), a.FreeOn(s, device.Slice[uint32]{})); err != nil {
		t.Errorf("nothing at all: %v", err)
	}
}

func TestAllocStreamsOfOthers(t *testing.T) {
	dev, other := devicetest.Open(t), devicetest.Open(t)
	a := newAlloc(t, dev, nil)
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
		"no stream":                a.AllocateOn(nil, d),
		"the stream belongs":       a.FreeOn(s, d),
		"units lie on another dev": a.AllocateOn(own, d),
	} {
		if !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestClosedAlloc(t *testing.T) {
	dev := devicetest.Open(t)
	a := newAlloc(t, dev, &AllocOptions{SuperBlocks: 1, Blocks: 1})
	units := takeUnits(t, a, 10, make(map[uint32]bool))
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
	_, stats := a.Stats(t.Context())
	for op, err := range map[string]error{
		"Allocate": alloc, "Free": free, "Ptr": ptr, "Stats": stats,
		"Reserve": a.Reserve(t.Context(), 1), "Clear": a.Clear(t.Context()),
		"AllocateOn": a.AllocateOn(s, device.Slice[uint32]{}), "FreeOn": a.FreeOn(s, device.Slice[uint32]{}),
	} {
		if !errors.Is(err, weft.ErrClosed) || !strings.Contains(err.Error(), op) {
			t.Errorf("%s after Close: %v", op, err)
		}
	}
}

func TestAllocCancelled(t *testing.T) {
	a := newAlloc(t, devicetest.Open(t), &AllocOptions{SuperBlocks: 1, Blocks: 1})
	units := takeUnits(t, a, 10, make(map[uint32]bool))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, err := a.Allocate(ctx, make([]uint32, 5))
	m, free := a.Free(ctx, units)
	if n != 0 || m != 0 || !errors.Is(err, context.Canceled) || !errors.Is(free, context.Canceled) || !errors.Is(a.Reserve(ctx, 5000), context.Canceled) {
		t.Errorf("with an ended context: %d units, %v; %d freed, %v", n, err, m, free)
	}
	if s := allocStats(t, a); s.Used != 10 || s.SuperBlocks != 1 {
		t.Errorf("%v", s)
	}
}

// Whatever fails, nothing leaks, and the allocator stays what it was.
func TestAllocFailures(t *testing.T) {
	dev := devicetest.Open(t)
	run := func() (err error) {
		for _, o := range []AllocOptions{{Blocks: 1}, {Blocks: 1, SuperBlocks: 2, Light: true}} {
			a, err := NewAlloc(dev, &o)
			if err != nil {
				return err
			}
			defer a.Close()
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
			if devicetest.Heal(dev); err != nil {
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

// A pool has the units it is asked for, and if it may grow, room for sixty
// times as many.
func TestPoolSizes(t *testing.T) {
	dev := devicetest.Open(t)
	for _, units := range []int{0, 1, 1024, 1025, 5000, 100_000} {
		for _, fixed := range []bool{false, true} {
			a, err := newPool(dev, units, fixed)
			if err != nil {
				t.Fatal(err)
			}
			s := allocStats(t, a)
			most := s.MaxSuperBlocks * s.Blocks * blockUnits
			switch {
			case s.Units < units || s.Units > units+5*blockUnits:
				t.Errorf("a pool for %d units: %v", units, s)
			case fixed && (s.SuperBlocks != 1 || !a.opts.Light || s.MaxSuperBlocks != 1):
				t.Errorf("a fixed pool for %d units: %v", units, s)
			case !fixed && most < 50*units:
				t.Errorf("a pool for %d units grows to %d", units, most)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := newPool(dev, maxSupers*maxBlocks*blockUnits+1, true); !errors.Is(err, weft.ErrFull) {
		t.Errorf("a pool of 2^32 units: %v", err)
	}
}
