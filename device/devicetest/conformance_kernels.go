package devicetest

import (
	"structs"
	"testing"

	"github.com/weftgo/weft/device"
)

// foreignKernel is a kernel that belongs to no device.
type foreignKernel struct{}

func (foreignKernel) Name() string   { return "foreign" }
func (foreignKernel) ParamSize() int { return 8 }

func testKernels(t *testing.T, dev device.Device) {
	s := stream(t, dev)
	_, runsGo := dev.(device.Host)
	img := &device.Image{Name: "future", Targets: []device.Target{{Arch: 99999, PTX: "none"}}}
	_, err := dev.Load(img)
	if runsGo {
		wantErr(t, "Load", err, device.ErrNoKernels)
	} else {
		wantErr(t, "Load of an image for newer devices", err, device.ErrUnsupported)
	}
	var params uint64
	err = device.Launch(s, foreignKernel{}, device.Dim{}, device.Dim{}, &params)
	if runsGo {
		wantErr(t, "Launch", err, device.ErrNoKernels)
	} else {
		wantErr(t, "Launch of a kernel of another device", err, device.ErrInvalid)
	}
}

// testSeveralParameters launches a kernel with several parameters, the fields of a struct.
func testSeveralParameters(t *testing.T, dev device.Device) {
	if _, runsGo := dev.(device.Host); runsGo {
		t.Skip("it runs no kernels")
	}
	// store takes a number, a pointer and a byte, and stores both values at the pointer.
	const store = `
.version 7.0
.target sm_80
.address_size 64

.visible .entry store(
	.param .u32 store_param_0,
	.param .u64 store_param_1,
	.param .u8 store_param_2
)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<3>;

	ld.param.u32 	%r1, [store_param_0];
	ld.param.u64 	%rd1, [store_param_1];
	ld.param.u8 	%r2, [store_param_2];
	cvta.to.global.u64 	%rd2, %rd1;
	st.global.u32 	[%rd2], %r1;
	st.global.u32 	[%rd2+4], %r2;
	ret;
}
`
	m, err := dev.Load(&device.Image{Name: "store", Targets: []device.Target{{Arch: 80, PTX: store, Params: map[string]int{"store": 17}}}})
	must(t, err)
	k, err := m.Kernel("store")
	must(t, err)
	s, b := stream(t, dev), buffer(t, dev, 8)
	params := struct {
		_  structs.HostLayout
		a  uint32
		to device.Ptr
		b  uint8
	}{a: 1 << 30, to: b.Ptr, b: 200}
	must(t, device.Launch(s, k, device.Dim{}, device.Dim{}, &params))
	equal(t, "both numbers", read(t, s, b.Ptr, 8), []byte{0, 0, 0, 1 << 6, 200, 0, 0, 0})
	wantErr(t, "other parameters", device.Launch(s, k, device.Dim{}, device.Dim{}, &b), device.ErrInvalid)
}

type addParams struct {
	_       structs.HostLayout
	A, B, C device.Ptr
	N       uint32
	_       uint32
}

// addImage returns an image with one kernel, add, which computes C = A + B for N uint32, one per
// thread.
func addImage() *device.Image {
	return &device.Image{
		Name: "conformance",
		Targets: []device.Target{{Arch: 80, Params: map[string]int{"add": 32}, PTX: `
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
`}},
	}
}

func loadAdd(t testing.TB, dev device.Device, img *device.Image) (device.Module, device.Kernel) {
	t.Helper()
	m, err := dev.Load(img)
	must(t, err)
	k, err := m.Kernel("add")
	must(t, err)
	return m, k
}

func launchAdd(s *device.Stream, add device.Kernel, a, b, c device.Ptr, n int) error {
	p := addParams{A: a, B: b, C: c, N: uint32(n)}
	return device.Launch(s, add, device.Dim{X: (n + 127) / 128}, device.Dim{X: 128}, &p)
}

func testUnload(t *testing.T, dev device.Device) {
	img := addImage()
	must(t, dev.Unload(img)) // never loaded
	if _, runsGo := dev.(device.Host); runsGo {
		return
	}
	const n = 1000
	s, b := stream(t, dev), buffer(t, dev, 4*n)
	run := func(add device.Kernel) error { return launchAdd(s, add, b.Ptr, b.Ptr, b.Ptr, n) }
	must(t, s.Fill(b.Ptr, 1, n))
	m, add := loadAdd(t, dev, img)
	must(t, run(add))
	must(t, s.Sync(t.Context()))

	must(t, dev.Unload(img))
	must(t, dev.Unload(img))
	wantErr(t, "Launch of an unloaded kernel", run(add), device.ErrClosed)
	_, err := m.Kernel("add")
	wantErr(t, "Kernel of an unloaded image", err, device.ErrClosed)

	_, again := loadAdd(t, dev, img)
	must(t, run(again))
	wantErr(t, "Launch of the kernel unloaded before", run(add), device.ErrClosed)
	got := read(t, s, b.Ptr, 4*n)
	for i := range n {
		if got[4*i] != 4 {
			t.Fatalf("element %d doubled twice is %d, want 4", i, got[4*i])
		}
	}
}
