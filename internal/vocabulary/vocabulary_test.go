package vocabulary

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// onDevices runs a test on simulated GPUs, and also on the device of WEFT_DEVICE if that is a GPU.
func onDevices(t *testing.T, test func(t *testing.T, r *rig)) {
	for name, o := range map[string]*sim.Options{
		"sm_80": {Arch: 80}, "sm_90": {Arch: 90},
		"random": {Scheduler: sim.Random, Seed: 1, Races: true}, "pct": {Scheduler: sim.PCT, Seed: 2, Races: true},
	} {
		t.Run(name, func(t *testing.T) {
			dev, err := sim.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			test(t, newRig(t, devicetest.Checked(t, dev)))
		})
	}
	t.Run("default", func(t *testing.T) {
		dev := devicetest.Open(t)
		if dev.Properties().Kind == device.CPU {
			t.Skip("runs no kernels")
		}
		test(t, newRig(t, dev))
	})
}

// rig is a device with the kernels loaded.
type rig struct {
	t      *testing.T
	dev    device.Device
	stream *device.Stream
	module device.Module
}

func newRig(t *testing.T, dev device.Device) *rig {
	t.Helper()
	module, err := dev.Load(&vocabularyImage)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close() })
	return &rig{t, dev, stream, module}
}

func upload[T device.Elem](r *rig, v []T) device.Slice[T] {
	r.t.Helper()
	s, err := device.Upload(r.stream, v)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { s.Free() })
	return s
}

func download[T device.Elem](r *rig, s device.Slice[T]) []T {
	r.t.Helper()
	v := make([]T, s.Len())
	if err := s.CopyTo(r.t.Context(), r.stream, v); err != nil {
		r.t.Fatal(err)
	}
	return v
}

func launch[P any](r *rig, kernel string, grid, block int, p *P) {
	r.t.Helper()
	k, err := r.module.Kernel(kernel)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := device.Launch(r.stream, k, device.Dim{X: grid}, device.Dim{X: block}, p); err != nil {
		r.t.Fatal(err)
	}
}

// These constants equal those in the kernels.
const (
	cellsPerThread   = 2
	outputsPerThread = 80
	floatsPerThread  = 24
)

type word interface{ uint32 | uint64 }

// chain computes the effect of a chain of the kernel on its cell, and appends the chain's outputs.
func chain[W word](cell *W, v W, out []W) []W {
	update := func(to W) { out, *cell = append(out, *cell), to }
	update(v ^ W(len(out)))
	update(*cell + 3*v)
	update(*cell | v>>3)
	update(*cell & ^(v >> 1))
	update(*cell) // compared with a value that is not there
	update(v + 5)
	return out
}

// words returns the outputs of one thread of the kernel.
func words[W word](v W) (out []W) {
	var cell W
	for range 8 { // orders and scopes
		out = chain(&cell, v, out)
	}
	for i := W(0); i < 6; i++ {
		out = append(out, v+1+i)
	}
	if unsafe.Sizeof(v) == 8 {
		out = append(out, v+6)
	}
	return out
}

func TestWords(t *testing.T) {
	onDevices(t, func(t *testing.T, r *rig) {
		testWords[uint32](r, "vocabulary_words_32", math.MaxUint32)
		testWords[uint64](r, "vocabulary_words_64", math.MaxUint64)
	})
}

func testWords[W word](r *rig, kernel string, mask W) {
	const n = 200
	in := randomWords(n, mask)
	cells, out := upload(r, make([]W, n*cellsPerThread)), upload(r, make([]W, n*outputsPerThread))
	launch(r, kernel, 4, 64, &wordsParams{in: upload(r, in).Ptr(), cells: cells.Ptr(), out: out.Ptr(), n: n})
	for i, got := range slices.Collect(slices.Chunk(download(r, out), outputsPerThread)) {
		if want := words(in[i]); !slices.Equal(got[:len(want)], want) {
			r.t.Fatalf("%s: thread %d put out %x, want %x", kernel, i, got[:len(want)], want)
		}
	}
}

func randomWords[W word](n int, mask W) []W {
	rng := rand.New(rand.NewPCG(1, 1))
	v := make([]W, n)
	for i := range v {
		v[i] = W(rng.Uint64()) & mask
	}
	return v
}

func TestBlock(t *testing.T) {
	onDevices(t, func(t *testing.T, r *rig) {
		testBlock[uint32](r, "vocabulary_block_32", math.MaxUint32)
		testBlock[uint64](r, "vocabulary_block_64", math.MaxUint64)
	})
}

func testBlock[W word](r *rig, kernel string, mask W) {
	const blocks, threads = 2, 96
	in := randomWords(blocks*threads, mask)
	out := upload(r, make([]W, len(in)*outputsPerThread))
	launch(r, kernel, blocks, threads, &wordsParams{in: upload(r, in).Ptr(), out: out.Ptr(), n: blocks * threads})
	got := download(r, out)
	for b, in := range slices.Collect(slices.Chunk(in, threads)) {
		var sum W
		cells := slices.Clone(in)
		want := make([][]W, threads)
		for i, v := range in {
			sum += v
			want[i] = chain(&cells[i], v, nil)
			want[i] = append(want[i], cells[i])
			cells[i] = min(cells[i], v*5)
			want[i] = append(want[i], cells[i])
			cells[i] = max(cells[i], v*9)
		}
		for i := range in {
			last := W(i)
			if unsafe.Sizeof(last) == 8 {
				last ^= 1 // pairs have swapped places
			}
			want[i] = append(want[i], cells[(i+1)%threads], sum, last)
			at := (b*threads + i) * outputsPerThread
			if got := got[at : at+len(want[i])]; !slices.Equal(got, want[i]) {
				r.t.Fatalf("%s: thread %d of block %d put out %x, want %x", kernel, i, b, got, want[i])
			}
		}
	}
}

// Every name of a function states an order and a scope, and the PTX has the instruction that the
// name promises.
func TestNames(t *testing.T) {
	var want []string
	for _, scope := range []string{"gpu", "sys"} {
		for _, width := range []string{"32", "64"} {
			want = append(want, "ld.acquire."+scope+".global.b"+width, "st.release."+scope+".global.b"+width,
				"ld.relaxed."+scope+".global.b"+width, "st.relaxed."+scope+".global.b"+width)
			for _, order := range []string{"relaxed", "acquire", "release", "acq_rel"} {
				for _, op := range []string{"cas.b", "exch.b", "add.u", "or.b", "and.b"} {
					want = append(want, "atom."+order+"."+scope+".global."+op+width)
				}
			}
		}
		want = append(want, "fence.acq_rel."+scope+";", "fence.sc."+scope+";")
	}
	for _, width := range []string{"32", "64"} {
		for _, op := range []string{"cas.b", "exch.b", "add.u", "or.b", "and.b", "min.u", "max.u"} {
			want = append(want, "atom.relaxed.cta.shared."+op+width)
		}
		want = append(want, "ld.relaxed.cta.shared.b"+width, "st.relaxed.cta.shared.b"+width, "ld.shared.b"+width, "st.shared.b"+width)
		for _, order := range []string{"", ".relaxed.gpu"} {
			want = append(want, "ld"+order+".global.L2::cache_hint.b"+width, "st"+order+".global.L2::cache_hint.b"+width)
		}
	}
	for _, target := range vocabularyImage.Targets {
		for _, form := range want {
			if !strings.Contains(target.PTX, form) {
				t.Errorf("sm_%d: no %s", target.Arch, form)
			}
		}
	}
}

func TestFloats(t *testing.T) {
	onDevices(t, func(t *testing.T, r *rig) {
		testFloats[float32](r, "vocabulary_floats_32")
		testFloats[float64](r, "vocabulary_floats_64")
	})
}

func testFloats[F float32 | float64](r *rig, kernel string) {
	const n = 256
	rng := rand.New(rand.NewPCG(2, 2))
	in, whole := make([]F, n), make([]int32, n)
	var sum F
	for i := range in {
		in[i], whole[i] = F(rng.NormFloat64()*math.Exp2(float64(rng.IntN(20)-6))), int32(rng.IntN(1<<13)-1<<12)
		if i%8 == 0 {
			in[i] = F(rng.IntN(9)-4) / 2 // halves and zeros
		}
		sum += F(whole[i]) / 4
	}
	copy(in, []F{F(math.NaN()), F(math.Inf(1)), F(math.Inf(-1)), F(math.Copysign(0, -1)), in[4], in[4]})
	out, total := upload(r, make([]F, n*floatsPerThread)), upload(r, []F{0})
	holds, rounded := upload(r, make([]uint32, n)), upload(r, make([]int64, n))
	launch(r, kernel, n/64, 64, &floatParams{
		in: upload(r, in).Ptr(), whole: upload(r, whole).Ptr(), out: out.Ptr(), sum: total.Ptr(),
		holds: holds.Ptr(), rounded: rounded.Ptr(), n: n,
	})
	results, held, integers := download(r, out), download(r, holds), download(r, rounded)
	for i, a := range in {
		b, c := in[(i+1)%n], in[(i+2)%n]
		for k, want := range floats(a, b, c, whole[i]) {
			if got := results[i*floatsPerThread+k]; !same(got, want) {
				r.t.Fatalf("%s: result %d of %v, %v, %v and %d is %v, want %v", kernel, k, a, b, c, whole[i], got, want)
			}
		}
		if want := comparisons(a, b); held[i] != want {
			r.t.Fatalf("%s: what holds of %v and %v is %011b, want %011b", kernel, a, b, held[i], want)
		}
		if want := integer(a); integers[i] != want {
			r.t.Fatalf("%s: integers of %v make %d, want %d", kernel, a, integers[i], want)
		}
	}
	if got := download(r, total)[0]; got != sum {
		r.t.Errorf("%s: the sum is %v, want %v", kernel, got, sum)
	}
}

// same distinguishes the two zeros, but does not distinguish NaNs.
func same[F float32 | float64](a, b F) bool {
	return a != a && b != b || a == b && math.Signbit(float64(a)) == math.Signbit(float64(b))
}

// floats returns the results of a thread of the kernel.
func floats[F float32 | float64](a, b, c F, whole int32) []F {
	one := func(f func(float64) float64, x F) F { return F(f(float64(x))) }
	fused := F(math.FMA(float64(a), float64(b), float64(c)))
	if unsafe.Sizeof(a) == 4 {
		// The sum is rounded twice, which makes no difference here.
		fused = F(float64(a)*float64(b) + float64(c))
	}
	lowest, greatest := F(math.Min(float64(a), float64(b))), F(math.Max(float64(a), float64(b)))
	switch {
	case a != a:
		lowest, greatest = b, b
	case b != b:
		lowest, greatest = a, a
	}
	larger := c
	if a > b {
		larger = a
	}
	return []F{a + b, a - b, a * b, a / b, 1 / a, fused, one(math.Sqrt, one(math.Abs, a)), one(math.Abs, a), -a, lowest, greatest,
		one(math.Floor, a), one(math.Ceil, a), one(math.Trunc, a), one(math.RoundToEven, a), F(math.Copysign(float64(a), float64(b))),
		F(whole), F(uint32(whole)), F(int64(whole) * 77777777777), F(uint64(int64(whole))), F(float32(a)), F(float64(a)),
		F(float32(float64(a) / 3)), larger}
}

// comparisons returns one bit for each comparison that holds for two numbers.
func comparisons[F float32 | float64](a, b F) (held uint32) {
	for bit, holds := range []bool{a < b, a <= b, a > b, a >= b, a == b, a != b, !(a < b), !(a >= b), a != a, math.IsInf(float64(a), 0), math.Signbit(float64(a))} {
		if holds {
			held |= 1 << bit
		}
	}
	return held
}

// integer adds up conversions to several integer types.
func integer[F float32 | float64](a F) int64 {
	if a != a {
		a = -120 // fmax returns the operand that is a number
	}
	small := min(max(a, -120), 120)
	return int64(int8(small)) + 1000*int64(int32(small*1000)) + int64(small*(1<<20))*(1<<20) + int64(uint32(math.Abs(float64(small))))
}
