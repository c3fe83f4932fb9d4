package sim

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
)

// mixed takes a number, a pointer and a byte, and stores both numbers.
const mixed = `.version 7.0
.target sm_80
.address_size 64

.visible .entry mixed(
	.param .u32 mixed_param_0,
	.param .u64 mixed_param_1,
	.param .u8 mixed_param_2
)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<3>;

	ld.param.u32 	%r1, [mixed_param_0];
	ld.param.u64 	%rd1, [mixed_param_1];
	ld.param.u8 	%r2, [mixed_param_2];
	cvta.to.global.u64 	%rd2, %rd1;
	st.global.u32 	[%rd2], %r1;
	st.global.u32 	[%rd2+4], %r2;
	ret;
}
`

// mixedParams has fields like the parameters of mixed.
type mixedParams struct {
	a   uint32
	out device.Ptr
	b   uint8
}

// Several parameters are given as the fields of a struct.
func TestSeveralParameters(t *testing.T) {
	d, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := d.Load(&device.Image{Name: "mixed", Targets: []device.Target{{Arch: 80, PTX: mixed, Params: map[string]int{"mixed": 17}}}})
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel("mixed")
	if err != nil {
		t.Fatal(err)
	}
	out, err := device.Upload(s, make([]uint32, 2))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Free()
	got := make([]uint32, 2)
	err = errors.Join(
		device.Launch(s, k, device.Dim{}, device.Dim{}, &mixedParams{a: 1 << 30, out: out.Ptr(), b: 200}),
		out.CopyTo(t.Context(), s, got))
	if err != nil || !slices.Equal(got, []uint32{1 << 30, 200}) {
		t.Errorf("got %d, %v", got, err)
	}
	if err := device.Launch(s, k, device.Dim{}, device.Dim{}, &out); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("other parameters: %v", err)
	}
}
