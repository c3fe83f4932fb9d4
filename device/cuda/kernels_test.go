package cuda

import (
	"structs"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// addParams are the parameters of the kernels below.
type addParams struct {
	_       structs.HostLayout
	A, B, C device.Ptr
	N       uint32
	_       uint32
}

func (p *addParams) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// vectors are handwritten kernels. add computes C = A + B for N uint32, one per thread. wild writes
// to an unmapped address. spin runs for N microseconds. none has no parameters, and two has two.
var vectors = &device.Image{
	Name: "vectors",
	Targets: []device.Target{{Arch: 80, PTX: `
.version 7.0
.target sm_80
.address_size 64

.visible .entry add(
	.param .align 8 .b8 add_param_0[32]
)
{
	.reg .pred %p<2>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;

	ld.param.u64 	%rd1, [add_param_0];
	ld.param.u64 	%rd2, [add_param_0+8];
	ld.param.u64 	%rd3, [add_param_0+16];
	ld.param.u32 	%r1, [add_param_0+24];
	mov.u32 	%r2, %ctaid.x;
	mov.u32 	%r3, %ntid.x;
	mov.u32 	%r4, %tid.x;
	mad.lo.s32 	%r5, %r2, %r3, %r4;
	setp.ge.u32 	%p1, %r5, %r1;
	@%p1 bra 	DONE;
	mul.wide.u32 	%rd4, %r5, 4;
	add.s64 	%rd5, %rd1, %rd4;
	add.s64 	%rd6, %rd2, %rd4;
	add.s64 	%rd7, %rd3, %rd4;
	ld.global.u32 	%r6, [%rd5];
	ld.global.u32 	%r7, [%rd6];
	add.s32 	%r8, %r6, %r7;
	st.global.u32 	[%rd7], %r8;
DONE:
	ret;
}

.visible .entry wild(
	.param .align 8 .b8 wild_param_0[32]
)
{
	.reg .b64 %rd<2>;
	mov.u64 	%rd1, 4096;
	st.global.u64 	[%rd1], %rd1;
	ret;
}

.visible .entry spin(
	.param .align 8 .b8 spin_param_0[32]
)
{
	.reg .pred %p<2>;
	.reg .b32 %r<2>;
	.reg .b64 %rd<5>;
	ld.param.u32 	%r1, [spin_param_0+24];
	cvt.u64.u32 	%rd1, %r1;
	mul.lo.u64 	%rd1, %rd1, 1000;
	mov.u64 	%rd2, %globaltimer;
AGAIN:
	mov.u64 	%rd3, %globaltimer;
	sub.u64 	%rd4, %rd3, %rd2;
	setp.lt.u64 	%p1, %rd4, %rd1;
	@%p1 bra 	AGAIN;
	ret;
}

.visible .entry none()
{
	ret;
}

.visible .entry two(
	.param .u64 two_param_0,
	.param .f32 two_param_1
)
{
	ret;
}
`}},
}
