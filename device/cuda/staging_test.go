package cuda

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// roundTrips copies random sizes to the device and back, and counts the wrong results.
func roundTrips(t *testing.T, x *fixture) (wrong int) {
	t.Helper()
	const n = 12 << 20
	b, err := x.d.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	src, dst := make([]byte, n), make([]byte, n)
	for i := range 40 {
		size := 1 + r.IntN(n)
		if i%2 == 0 {
			size %= smallCopy
		}
		for j := range src[:size] {
			src[j] = byte(j*7 + i)
		}
		if err := x.s.CopyIn(b.Ptr, src[:size]); err != nil {
			t.Fatal(err)
		}
		if err := x.s.CopyOut(t.Context(), dst[:size], b.Ptr); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(src[:size], dst[:size]) {
			wrong++
		}
	}
	if err := x.d.Free(b); err != nil {
		t.Fatal(err)
	}
	return wrong
}

func TestRingIsRight(t *testing.T) {
	x := newFixture(t)
	if n := roundTrips(t, x); n != 0 {
		t.Errorf("%d round trips gave other bytes", n)
	}
	r := &x.s.Driver().(*stream).ring
	if len(r.all) > maxSlots || len(r.all) < 2 {
		t.Errorf("the ring has %d slots", len(r.all))
	}
}

// With events that report completion at once, slots are reused too early. If the test did not fail
// then, TestRingIsRight would prove nothing.
func TestRingTestNoticesEarlyReuse(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector notices it first")
	}
	x := newFixture(t)
	real := x.d.drv.invoke
	x.d.drv.invoke = func(fn uintptr, args []uintptr) uintptr {
		if symbol(fn-1) == symEventQuery {
			return uintptr(success)
		}
		return real(fn, args)
	}
	if roundTrips(t, x) == 0 {
		t.Error("slots were reused too early and nothing was noticed")
	}
	x.d.drv.invoke = real
}

// Many small copies queued after slow work must not wait for it.
func TestSmallCopiesDoNotWait(t *testing.T) {
	x := newFixture(t)
	b, err := x.d.Alloc(1000)
	if err != nil {
		t.Fatal(err)
	}
	release := x.stuck(t)
	for range maxSlots * slotSize / 1024 / 2 {
		if err := x.s.CopyIn(b.Ptr, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	release()
	if err := x.d.Free(b); err != nil {
		t.Fatal(err)
	}
}

func TestRanges(t *testing.T) {
	var r ranges
	mem := make([]byte, 1000)
	a, b := new(Device), new(Device)
	r.add(a, mem[500:600], true)
	r.add(b, mem[100:200], false)
	r.add(a, mem[200:300], false)
	for _, c := range []struct {
		lo, hi int
		want   bool
	}{
		{500, 600, true}, {550, 560, true}, {100, 200, true}, {150, 250, false}, {499, 501, false}, {599, 601, false},
		{0, 10, false}, {700, 800, false}, {300, 301, false}, {200, 300, true},
	} {
		if got := r.holds(mem[c.lo:c.hi]); got != c.want {
			t.Errorf("holds [%d,%d): %v", c.lo, c.hi, got)
		}
	}
	for _, c := range []struct {
		owner *Device
		b     []byte
		host  bool
		want  bool
	}{
		{b, mem[500:600], true, false},
		{a, mem[500:600], false, false},
		{a, mem[500:599], true, false},
		{a, mem[501:600], true, false},
		{a, mem[500:600], true, true},
		{a, mem[500:600], true, false},
		{a, nil, true, false},
	} {
		if got := r.remove(c.owner, c.b, c.host); got != c.want {
			t.Errorf("remove %+v: %v", c, got)
		}
	}
	r.removeOwner(a)
	if r.holds(mem[200:210]) || !r.holds(mem[100:110]) {
		t.Error("drop took the wrong ones")
	}
}
