package prim

import (
	"slices"
	"testing"

	"github.com/weftgo/weft/device/sim"
)

// runFew sorts few rows, and compares: where digits are crowded, as it returns, all of one digit.
func runFew(r *rig, c sortCase[uint64], vals bool) uint32 {
	r.Helper()
	n := len(c.keys)
	in := make([]uint32, n)
	for i := range in {
		in[i] = uint32(i) * 3
	}
	keys, values, out, valsOut, crowded := upload(r, c.keys), upload(r, in), results[uint64](r, n), results[uint32](r, n), upload(r, []uint32{0})
	o := &Few{
		Sort:    Sort{Widths: Widths{Key: 8}, N: n, Lo: c.lo, Hi: c.hi, Signed: c.signed, From: Rows{Keys: keys.Ptr()}, To: Rows{Keys: out.Ptr()}},
		Crowded: crowded.Ptr(),
	}
	if vals {
		o.Val, o.From.Vals, o.To.Vals = 4, values.Ptr(), valsOut.Ptr()
	}
	scratch := r.scratch(o.ScratchBytes())
	r.must(r.prim.Few(r.stream, o, scratch))
	got, gotVals, many := download(r, out), download(r, valsOut), download(r, crowded)[0]
	if !slices.Equal(download(r, keys), c.keys) || !slices.Equal(download(r, values), in) {
		r.Fatal("the input has changed")
	}
	r.release(scratch)
	want := c.want()
	if many > 0 {
		c.lo = max(c.lo, c.hi-digitBits)
		want = c.want()
	}
	for i, w := range want {
		if got[i] != w.key || vals && gotVals[i] != uint32(w.val)*3 {
			r.Fatalf("row %d of %d is %#x, %d; want %#x, %d", i, n, got[i], gotVals[i], w.key, uint32(w.val)*3)
		}
	}
	return many
}

// Few rows are sorted stably, by some bits or all, also signed ones, and where they have few digits.
func TestFew(t *testing.T) {
	r := onGPU(t)
	for i, like := range likes {
		for j, bits := range [][2]int{{0, 64}, {0, 5}, {3, 40}, {20, 28}, {47, 64}} {
			n := []int{0, 1, 2, 37, 700, 2048}[(i+j)%6]
			if many := runFew(r, sortCase[uint64]{keysLike[uint64](r, like, n), bits[0], bits[1], bits[1] == 64 && i%2 == 0}, j%2 == 0); many > 0 {
				t.Errorf("%d rows like %s: %d digits are crowded", n, like, many)
			}
		}
	}
	if many := runFew(r, sortCase[uint64]{keysLike[uint64](r, "random", 9000), 0, 64, false}, true); many > 0 {
		t.Errorf("%d of random digits are crowded", many)
	}
}

// A digit that more rows have is told, and they stay in order.
func TestFewCrowded(t *testing.T) {
	r := onGPU(t)
	keys := keysLike[uint64](r, "equal", binRows+1)
	for i := range keys {
		keys[i] += uint64(i * 7 % 64)
	}
	if many := runFew(r, sortCase[uint64]{keys, 0, 64, false}, true); many != 1 {
		t.Errorf("%d digits are crowded, want 1", many)
	}
}

func TestFewSchedules(t *testing.T) {
	for _, scheduler := range []sim.Scheduler{sim.Random, sim.PCT} {
		r := onSim(t, &sim.Options{Scheduler: scheduler, Seed: 3, Races: true})
		runFew(r, sortCase[uint64]{keysLike[uint64](r, "few", 300), 4, 40, false}, true)
	}
}
