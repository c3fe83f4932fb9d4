package sim

import (
	"fmt"
	"strings"
	"testing"
)

// These are results of instructions on numbers that need special treatment. The golden vectors hold
// a GPU's results on far more numbers.
func TestFloatInstructions(t *testing.T) {
	const (
		nan, other, inf, one, tiny, zero = 0x7fffffff, 0xffc12345, 0x7f800000, 0x3f800000, 1, 0
		minus                            = 1 << 31
		nan64, one64                     = 0xfff8000000000123, 0x3ff0000000000000
	)
	for _, c := range []struct {
		op   string // with destination D and sources A, B
		a, b uint64
		want uint64
	}{
		{"min.f32 D, A, B", one, other, one},
		{"min.f32 D, A, B", other, inf, inf},
		{"min.f32 D, A, B", other, nan, nan},
		{"min.f32 D, A, B", zero, minus, minus},
		{"max.f32 D, A, B", minus, zero, zero},
		{"min.NaN.f32 D, A, B", one, other, nan},
		{"max.NaN.f32 D, A, B", one, inf, inf},
		{"min.ftz.f32 D, A, B", tiny, one, zero},
		{"max.f64 D, A, B", nan64, one64, one64},
		{"neg.f32 D, A", other, 0, nan},
		{"abs.f32 D, A", minus | one, 0, one},
		{"neg.f64 D, A", nan64, 0, nan64},
		{"abs.f64 D, A", 1<<63 | one64, 0, one64},
		{"abs.f64 D, A", nan64, 0, nan64},
		{"neg.f64 D, A", 0x7ff0000000000005, 0, 0x7ff8000000000005},
		{"abs.ftz.f32 D, A", minus | tiny, 0, zero},
		{"copysign.f32 D, A, B", minus, other &^ minus, other},
		{"fma.rz.f32 D, A, A, B", 0x3f800001, zero, 0x3f800002}, // 1 + 2^-22 + 2^-46
		{"fma.rp.f32 D, A, A, B", 0x3f800001, zero, 0x3f800003},
		{"mad.rm.f64 D, A, A, B", one64, one64 | 1<<63, 1 << 63}, // -0
		{"rcp.rn.f32 D, A", 0x40000000, 0, 0x3f000000},
		{"sqrt.rn.ftz.f32 D, A", tiny, 0, zero},
		{"div.rn.f64 D, A, A", one64, 0, one64},

		{"P setp.lt.f32 D, A, B", one, inf, 1},
		{"P setp.lt.f32 D, A, B", one, nan, 0},
		{"P setp.ltu.f32 D, A, B", one, nan, 1},
		{"P setp.eq.f32 D, A, B", zero, minus, 1},
		{"P setp.eq.f32 D, A, B", tiny, zero, 0},
		{"P setp.eq.ftz.f32 D, A, B", tiny, minus, 1},
		{"P setp.ne.f32 D, A, B", nan, nan, 0},
		{"P setp.neu.f32 D, A, B", nan, nan, 1},
		{"P setp.gt.f64 D, A, B", 1<<63 | one64, 1 << 62, 0},
		{"P setp.num.f32 D, A, B", one, nan, 0},
		{"P setp.nan.f64 D, A, B", nan64, one64, 1},
		{"P testp.subnormal.f32 D, A", minus | tiny, 0, 1},
		{"P testp.normal.f32 D, A", minus, 0, 1},
		{"P testp.notanumber.f64 D, A", nan64, 0, 1},
		{"P testp.infinite.f32 D, A", minus | inf, 0, 1},
		{"W set.gt.u32.f32 D, A, B", inf, one, 0xffffffff},
		{"W set.gtu.s32.f32 D, A, B", zero, one, 0},
		{"F set.le.f32.f64 D, A, B", one64, one64, one},

		{"W cvt.rzi.s32.f32 D, A", nan, 0, 0},
		{"W cvt.rzi.s32.f64 D, A", nan64, 0, 0x80000000},
		{"W cvt.rni.u32.f32 D, A", minus | one, 0, 0},
		{"W cvt.rzi.s32.f32 D, A", inf, 0, 0x7fffffff},
		{"L cvt.rzi.u64.f32 D, A", nan, 0, 1 << 63},
		{"L cvt.rzi.s64.f64 D, A", 1<<63 | 0x7ff0000000000000, 0, 1 << 63},
		// -99.9, sign-extended to the whole register
		{"W cvt.rpi.s8.f32 D, A", 0xc2c7cccd, 0, 0xffffff9d},
		{"W cvt.rpi.u32.f32 D, A", tiny, 0, 1},
		{"W cvt.rpi.ftz.u32.f32 D, A", tiny, 0, 0},
		{"F cvt.rn.f32.f64 D, A", nan64, 0, 0xffc00000},
		{"F cvt.rn.sat.f32.f64 D, A", nan64, 0, zero},
		{"G cvt.f64.f32 D, A", other, 0, 0xfff82468a0000000},
		{"G cvt.ftz.f64.f32 D, A", other, 0, 0x7fffffffe0000000},
		{"G cvt.f64.f32 D, A", tiny, 0, 0x36a0000000000000},
		{"G cvt.ftz.f64.f32 D, A", tiny, 0, 0},
		{"F cvt.rmi.f32.f32 D, A", 0xbe800000, 0, minus | one}, // floor of -1/4
		{"F cvt.rpi.f32.f32 D, A", 0xbe800000, 0, minus},
		{"F cvt.sat.f32.f32 D, A", inf, 0, one},
		{"F cvt.rn.f32.s32 D, W", 1<<24 + 1, 0, 0x4b800000},
		{"F cvt.rp.f32.s32 D, W", 1<<24 + 1, 0, 0x4b800001},
		{"G cvt.rn.f64.s64 D, L", 1 << 63, 0, 0xc3e0000000000000},
		{"F cvt.rz.f32.u64 D, L", 1<<64 - 1, 0, 0x5f7fffff},
	} {
		f := c.op
		kind := byte('F')
		if f[1] == ' ' {
			kind, f = f[0], f[2:]
		} else if strings.Contains(f, ".f64") {
			kind = 'G'
		}
		source := "%f"
		if strings.Contains(strings.Fields(f)[0]+" ", ".f64 ") {
			source = "%g"
		}
		d := map[byte]string{'F': "%f9", 'G': "%g9", 'P': "%p9", 'W': "%r9", 'L': "%rd9"}[kind]
		out := map[byte]string{
			'F': "mov.b32 %r9, %f9; cvt.u64.u32 %rd9, %r9;", 'G': "mov.b64 %rd9, %g9;", 'P': "selp.b64 %rd9, 1, 0, %p9;", 'W': "cvt.u64.u32 %rd9, %r9;", 'L': "",
		}[kind]
		op, args, _ := strings.Cut(f, " ")
		args = strings.NewReplacer("D", d, "A", source+"1", "B", source+"2", "W", "%r3", "L", "%rd3").Replace(args)
		body := fmt.Sprintf(`.reg .f32 %%f<10>; .reg .f64 %%g<10>;
	ld.global.u64 %%rd3, [%%rd1]; mov.b64 %%g1, %%rd3; cvt.u32.u64 %%r3, %%rd3; mov.b32 %%f1, %%r3;
	ld.global.u64 %%rd4, [%%rd1+8]; mov.b64 %%g2, %%rd4; cvt.u32.u64 %%r4, %%rd4; mov.b32 %%f2, %%r4;
	%s %s;
	%s
	st.global.u64 [%%rd2], %%rd9;`, op, args, out)
		r := newRig(t, nil, ptx(body), []uint64{c.a, c.b}, 1)
		if got := r.run(1, 1)[0]; got != c.want {
			t.Errorf("%s of %x, %x: got %x, want %x", f, c.a, c.b, got, c.want)
		}
	}
}

// Additions in the cache flush subnormal numbers and keep NaNs, even through generic addresses.
func TestFloatAtomics(t *testing.T) {
	every(t, func(t *testing.T, opts *Options) {
		r := newRig(t, opts, ptx(`
	mov.u64 %rd3, 0x00000003;
	mov.u64 %rd4, sh;
	st.shared.u64 [%rd4], %rd3;
	st.shared.u64 [%rd4+8], %rd3;
	cvta.shared.u64 %rd5, %rd4;
	red.global.add.f32 [%rd1], 0f00000004;
	atom.shared.add.f32 %r3, [%rd4], 0f00000004;
	red.add.f32 [%rd5+8], 0f00000004;
	red.add.f32 [%rd1+8], 0f3F800000;
	atom.global.add.f64 %rd6, [%rd1+16], 0d0000000000000001;
	red.global.add.f64 [%rd1+24], 0d3FF0000000000000;
	ld.global.u64 %rd7, [%rd1];
	st.global.u64 [%rd2], %rd7;
	ld.shared.u64 %rd7, [%rd4];
	st.global.u64 [%rd2+8], %rd7;
	ld.shared.u64 %rd7, [%rd4+8];
	st.global.u64 [%rd2+16], %rd7;
	ld.global.u64 %rd7, [%rd1+8];
	st.global.u64 [%rd2+24], %rd7;
	ld.global.u64 %rd7, [%rd1+16];
	st.global.u64 [%rd2+32], %rd7;
	st.global.u64 [%rd2+40], %rd6;
	ld.global.u64 %rd7, [%rd1+24];
	st.global.u64 [%rd2+48], %rd7;`), []uint64{3, 0x3f800000, 2, 0x7ff0000000000005}, 7)
		got := r.run(1, 1)
		for i, want := range []uint64{0, 7, 7, 0x40000000, 3, 2, 0x7ff0000000000005} {
			if got[i] != want {
				t.Errorf("result %d is %x, want %x", i, got[i], want)
			}
		}
	})
}

// An access with a cache hint accepts only a policy that createpolicy made.
func TestCachePolicy(t *testing.T) {
	const body = "createpolicy.fractional.L2::evict_first.b64 %%rd3, 0f3F000000; mov.u64 %%rd4, %%rd3; mov.u64 %%rd5, 7;\n" +
		"st.relaxed.gpu.global.L2::cache_hint.u64 [%%rd2], 9, %[1]s; ld.global.L1::evict_last.L2::cache_hint.L2::128B.u64 %%rd6, [%%rd2], %[1]s; st.global.u64 [%%rd2+8], %%rd6;"
	if got := newRig(t, nil, ptx(fmt.Sprintf(body, "%rd4")), []uint64{0}, 2).run(1, 1)[1]; got != 9 {
		t.Errorf("got %d", got)
	}
	err := newRig(t, nil, ptx(fmt.Sprintf(body, "%rd5")), []uint64{0}, 2).launch(1, 1)
	if err == nil || !strings.Contains(err.Error(), "not a cache policy") {
		t.Errorf("error %v", err)
	}
}
