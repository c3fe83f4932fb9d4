package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

// ptx returns a module with a kernel "k" of this body. Its one parameter is a struct of two
// addresses, which are in %rd1 and %rd2. %r1 is the index of the thread in the grid, and %r2 is the
// lane.
func ptx(body string) string {
	return `
.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .align 8 .b8 p[16])
{
	.reg .pred %p<10>;
	.reg .b16 %rs<10>;
	.reg .b32 %r<40>;
	.reg .b64 %rd<40>;
	.reg .b128 %q<10>;
	.shared .align 16 .b8 sh[256];
	.local .align 16 .b8 lo[64];
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [p+8];
	mov.u32 %r10, %ctaid.x;
	mov.u32 %r11, %ntid.x;
	mov.u32 %r12, %tid.x;
	mad.lo.s32 %r1, %r10, %r11, %r12;
	mov.u32 %r2, %laneid;
` + body + `
	ret;
}
`
}

// rig is a device with a kernel and two arrays of 64-bit words. The first array is written.
type rig struct {
	t      *testing.T
	dev    *Device
	stream *device.Stream
	kernel device.Kernel
	in     device.Slice[uint64]
	out    device.Slice[uint64]
}

func newRig(t *testing.T, opts *Options, src string, in []uint64, out int) *rig {
	t.Helper()
	d, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Load(&device.Image{Name: "test", Targets: []device.Target{{Arch: 80, PTX: src}}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dev: d}
	if r.kernel, err = m.Kernel("k"); err != nil {
		t.Fatal(err)
	}
	if r.stream, err = d.NewStream(); err != nil {
		t.Fatal(err)
	}
	if r.in, err = device.Upload(r.stream, in); err != nil {
		t.Fatal(err)
	}
	if r.out, err = device.Make[uint64](d, out); err != nil {
		t.Fatal(err)
	}
	return r
}

// launch runs the kernel and waits for it.
func (r *rig) launch(grid, block int) error {
	if err := r.submit(grid, block); err != nil {
		return err
	}
	return r.stream.Sync(context.Background())
}

func (r *rig) submit(grid, block int) error {
	p := [2]device.Ptr{r.in.Ptr(), r.out.Ptr()}
	return device.Launch(r.stream, r.kernel, device.Dim{X: grid}, device.Dim{X: block}, &p)
}

func (r *rig) run(grid, block int) []uint64 {
	r.t.Helper()
	if err := r.launch(grid, block); err != nil {
		r.t.Fatal(err)
	}
	return r.read(r.out)
}

func (r *rig) read(s device.Slice[uint64]) []uint64 {
	r.t.Helper()
	v := make([]uint64, s.Len())
	if err := s.CopyTo(context.Background(), r.stream, v); err != nil {
		r.t.Fatal(err)
	}
	return v
}

// every runs a test under all schedulers.
func every(t *testing.T, f func(t *testing.T, opts *Options)) {
	for _, s := range []Scheduler{Fast, Random, PCT} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%s/%d", s, seed), func(t *testing.T) { f(t, &Options{Scheduler: s, Seed: seed}) })
		}
	}
}

// Every thread writes the square of its index. The lanes diverge at a branch and meet again.
func TestThreadsAndBranches(t *testing.T) {
	every(t, func(t *testing.T, opts *Options) {
		r := newRig(t, opts, ptx(`
	and.b32 %r3, %r1, 1;
	setp.eq.u32 %p1, %r3, 0;
	@%p1 bra EVEN;
	mul.wide.u32 %rd3, %r1, %r1;
	bra.uni JOIN;
EVEN:
	mov.u64 %rd3, 7;
JOIN:
	mul.wide.u32 %rd4, %r1, 8;
	add.u64 %rd5, %rd2, %rd4;
	st.global.u64 [%rd5], %rd3;`), []uint64{0}, 150)
		for i, v := range r.run(3, 50) {
			want := uint64(i * i)
			if i%2 == 0 {
				want = 7
			}
			if v != want {
				t.Fatalf("thread %d wrote %d, want %d", i, v, want)
			}
		}
	})
}

// Each lane loops a different number of times.
func TestLoops(t *testing.T) {
	every(t, func(t *testing.T, opts *Options) {
		r := newRig(t, opts, ptx(`
	mov.u64 %rd3, 0;
	mov.u32 %r3, %r1;
LOOP:
	setp.eq.u32 %p1, %r3, 0;
	@%p1 bra DONE;
	cvt.u64.u32 %rd6, %r3;
	add.u64 %rd3, %rd3, %rd6;
	sub.u32 %r3, %r3, 1;
	bra.uni LOOP;
DONE:
	mul.wide.u32 %rd4, %r1, 8;
	add.u64 %rd5, %rd2, %rd4;
	st.global.u64 [%rd5], %rd3;`), []uint64{0}, 64)
		for i, v := range r.run(2, 32) {
			if want := uint64(i * (i + 1) / 2); v != want {
				t.Fatalf("thread %d summed to %d, want %d", i, v, want)
			}
		}
	})
}

// Each lane in turn takes a lock that the other lanes of its warp spin on, in every warp of every
// block.
func TestSpinLockWithinWarp(t *testing.T) {
	every(t, func(t *testing.T, opts *Options) {
		r := newRig(t, opts, ptx(`
SPIN:
	atom.acquire.gpu.global.cas.b32 %r3, [%rd1], 0, 1;
	setp.ne.u32 %p1, %r3, 0;
	@%p1 bra SPIN;
	ld.global.u64 %rd3, [%rd1+8];
	add.u64 %rd3, %rd3, 1;
	st.global.u64 [%rd1+8], %rd3;
	st.release.gpu.global.b32 [%rd1], 0;`), []uint64{0, 0}, 1)
		r.run(3, 64)
		if got := r.read(r.in)[1]; got != 3*64 {
			t.Fatalf("counted %d increments, want %d", got, 3*64)
		}
	})
}

// Block 0 waits for a write of the last block.
func TestBlocksRunTogether(t *testing.T) {
	every(t, func(t *testing.T, opts *Options) {
		r := newRig(t, opts, ptx(`
	setp.eq.u32 %p1, %r10, 3;
	@%p1 bra LAST;
WAIT:
	ld.relaxed.gpu.global.u64 %rd3, [%rd1];
	setp.eq.u64 %p2, %rd3, 0;
	@%p2 bra WAIT;
	ret;
LAST:
	st.relaxed.gpu.global.u64 [%rd1], 1;`), []uint64{0}, 1)
		r.run(4, 32)
	})
}

// TestGridBarrier launches a block for each multiprocessor, and each block waits for all others.
// PCT runs fewer blocks, since it ranks all of them at each step.
func TestGridBarrier(t *testing.T) {
	for s, blocks := range map[Scheduler]int{Fast: units, Random: units, PCT: 2 * residentRandom} {
		t.Run(string(s), func(t *testing.T) {
			r := newRig(t, &Options{Scheduler: s, Seed: 1}, ptx(fmt.Sprintf(`
	atom.relaxed.gpu.global.add.u64 %%rd3, [%%rd1], 1;
WAIT:
	ld.relaxed.gpu.global.u64 %%rd3, [%%rd1];
	setp.lt.u64 %%p2, %%rd3, %d;
	@%%p2 bra WAIT;`, blocks)), []uint64{0}, 1)
			r.run(blocks, 1)
		})
	}
}

// Lanes that arrive on different paths exchange values at one shfl.sync.
func TestShuffleAfterDivergence(t *testing.T) {
	every(t, func(t *testing.T, opts *Options) {
		r := newRig(t, opts, ptx(`
	mov.u32 %r3, %r2;
	setp.lt.u32 %p1, %r2, 9;
	@%p1 bra MEET;
	mul.lo.u32 %r3, %r2, 3;
MEET:
	shfl.sync.bfly.b32 %r4, %r3, 16, 31, -1;
	cvt.u64.u32 %rd3, %r4;
	mul.wide.u32 %rd4, %r1, 8;
	add.u64 %rd5, %rd2, %rd4;
	st.global.u64 [%rd5], %rd3;`), []uint64{0}, 32)
		for i, v := range r.run(1, 32) {
			j := i ^ 16
			want := uint64(j)
			if j >= 9 {
				want *= 3
			}
			if v != want {
				t.Fatalf("lane %d got %d, want %d", i, v, want)
			}
		}
	})
}

// Warps exchange values through shared memory and a barrier, and count votes.
func TestBarrier(t *testing.T) {
	every(t, func(t *testing.T, opts *Options) {
		r := newRig(t, opts, ptx(`
	mov.u64 %rd6, sh;
	and.b32 %r4, %r12, 63;
	mul.wide.u32 %rd7, %r4, 4;
	add.u64 %rd8, %rd6, %rd7;
	st.shared.u32 [%rd8], %r12;
	bar.sync 0;
	sub.u32 %r5, 63, %r12;
	mul.wide.u32 %rd7, %r5, 4;
	add.u64 %rd8, %rd6, %rd7;
	ld.shared.u32 %r6, [%rd8];
	setp.lt.u32 %p1, %r12, 40;
	bar.red.popc.u32 %r7, 0, %p1;
	add.u32 %r6, %r6, %r7;
	cvt.u64.u32 %rd3, %r6;
	mul.wide.u32 %rd4, %r1, 8;
	add.u64 %rd5, %rd2, %rd4;
	st.global.u64 [%rd5], %rd3;`), []uint64{0}, 128)
		for i, v := range r.run(2, 64) {
			if want := uint64(63 - i%64 + 40); v != want {
				t.Fatalf("thread %d got %d, want %d", i, v, want)
			}
		}
	})
}

// A partial warp counts as a whole one at a barrier, but only its threads vote.
func TestBarrierOfPartOfAWarp(t *testing.T) {
	every(t, func(t *testing.T, opts *Options) {
		r := newRig(t, opts, ptx(`
	setp.ge.u32 %p1, %r12, 0;
	bar.red.and.pred %p2, 1, 64, %p1;
	selp.u64 %rd3, 1, 0, %p2;
	bar.red.popc.u32 %r3, 1, 64, %p1;
	cvt.u64.u32 %rd6, %r3;
	mad.lo.u64 %rd3, %rd6, 10, %rd3;
	mul.wide.u32 %rd4, %r1, 8;
	add.u64 %rd5, %rd2, %rd4;
	st.global.u64 [%rd5], %rd3;`), []uint64{0}, 40)
		for i, v := range r.run(1, 40) {
			if v != 401 {
				t.Fatalf("thread %d got %d", i, v)
			}
		}
	})
}

// Each thread has its own local memory. Generic addresses reach every space.
func TestSpaces(t *testing.T) {
	every(t, func(t *testing.T, opts *Options) {
		r := newRig(t, opts, ptx(`
	mov.u64 %rd6, lo;
	cvta.local.u64 %rd7, %rd6;
	st.u32 [%rd7+4], %r1;
	ld.local.u32 %r3, [lo+4];
	mov.u64 %rd8, sh;
	cvta.shared.u64 %rd9, %rd8;
	mul.wide.u32 %rd10, %r12, 4;
	add.u64 %rd9, %rd9, %rd10;
	st.u32 [%rd9], %r3;
	cvta.to.shared.u64 %rd11, %rd9;
	ld.shared.u32 %rd3, [%rd11];
	mul.wide.u32 %rd4, %r1, 8;
	add.u64 %rd5, %rd2, %rd4;
	st.u64 [%rd5], %rd3;`), []uint64{0}, 64)
		for i, v := range r.run(2, 32) {
			if v != uint64(i) {
				t.Fatalf("thread %d got %d", i, v)
			}
		}
	})
}

// These faults of kernels have the expected messages.
func TestFaults(t *testing.T) {
	tests := []struct {
		name string
		body string
		want string // part of the message
		lane int
	}{
		{"past the end", "mul.wide.u32 %rd4, %r1, 8; add.u64 %rd5, %rd1, %rd4; ld.global.u64 %rd3, [%rd5];", "of a block of 16 bytes", 2},
		{"null", "mov.u64 %rd5, 0; ld.global.u64 %rd3, [%rd5];", "address 0x0: no memory there", 0},
		{"misaligned", "ld.global.u64 %rd3, [%rd1+4];", "not aligned to 8 bytes", 0},
		{"misaligned vector", "ld.global.v2.u64 {%rd3, %rd4}, [%rd1+8];", "not aligned to 16 bytes", 0},
		{"unwritten", "ld.global.u64 %rd3, [%rd2];", "byte 0 of a block of 64 bytes, which was never written", 0},
		{"unwritten half", "st.global.u32 [%rd2], %r1; ld.global.u64 %rd3, [%rd2];", "never written", 0},
		{"unwritten atomic", "atom.global.add.u32 %r3, [%rd2+4], 1;", "never written", 0},
		{"unwritten shared", "ld.shared.u32 %r3, [sh+8];", "byte 8 of a block's shared memory, which was never written", 0},
		{"shared past the end", "st.shared.u32 [sh+256], %r1;", "beyond its 256 bytes", 0},
		{"generic from before shared memory", "mov.u64 %rd3, sh; add.u64 %rd3, %rd3, -512; cvta.shared.u64 %rd4, %rd3; add.u64 %rd4, %rd4, 512; st.u32 [%rd4], %r1;", "shared address 0x100000000: beyond its 256 bytes", 0},
		{"local past the end", "st.local.u32 [lo+64], %r1;", "beyond its 64 bytes", 0},
		{"division", "setp.eq.u32 %p1, %r2, 5; selp.b32 %r3, 0, 1, %p1; div.u32 %r4, 1, %r3;", "division by zero", 5},
		{"not in its mask", "vote.sync.ballot.b32 %r3, %p1, 0xfffffffe;", "membermask 0xfffffffe lacks the executing lane", 0},
		{"mask not met", "setp.lt.u32 %p1, %r2, 4; @%p1 bra A; bar.warp.sync 0xffffffff; ret; A: vote.sync.any.pred %p2, %p1, 0xffffffff;", "deadlock: membermask 0xffffffff waits for lanes", -1},
		{"shuffle from outside", "setp.lt.u32 %p1, %r2, 4; @!%p1 bra E; shfl.sync.idx.b32 %r3, %r2, 9, 31, 0xf; E:", "reads lane 9, which does not take part", -1},
		{"divergent barrier", "setp.lt.u32 %p1, %r2, 4; @%p1 bra A; bar.sync 0; ret; A: bar.sync 0;", "divergent barrier", -1},
		{"barrier after exit", "setp.lt.u32 %p1, %r2, 4; @%p1 bra E; bar.sync 0; E:", "divergent barrier: lanes 0x0000000f of the warp have exited", -1},
		{"warp missing", "setp.lt.u32 %p1, %r12, 32; @%p1 bra E; bar.sync 0; E:", "deadlock: barrier 0 has 32 of 64 threads; 32 threads of the block have exited", -1},
		{"atomic on local memory", "cvta.local.u64 %rd3, 0; atom.exch.b32 %r3, [%rd3], 1;", "atomic operation on a thread's local memory", 0},
		{"too many at a barrier", "bar.sync 0, 96;", "barrier of 96 threads in a block of 64", -1},
		{"trap", "setp.eq.u32 %p1, %r2, 3; @%p1 trap;", "trap", 3},
		{"endless", "L: bra.uni L;", "the budget of a launch", -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			every(t, func(t *testing.T, opts *Options) {
				opts.Budget = 1 << 17
				r := newRig(t, opts, ptx(test.body), []uint64{1, 2}, 8)
				err := r.launch(1, 64)
				var f *Fault
				if !errors.As(err, &f) || !errors.Is(err, device.ErrLost) {
					t.Fatalf("error %v, want a lost device and a Fault", err)
				}
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %q does not say %q", err, test.want)
				}
				if f.Kernel != "k" || f.Line == 0 || f.Block != [3]int{} || f.File != "test_sm80.ptx" {
					t.Errorf("place is incomplete: %+v", f)
				}
				if opts.Scheduler == Fast && test.lane >= 0 && f.Lane != test.lane {
					t.Errorf("lane %d, want %d", f.Lane, test.lane)
				}
				if err := r.launch(1, 64); !errors.Is(err, device.ErrLost) {
					t.Errorf("launch on a lost device: %v", err)
				}
			})
		})
	}
}

// An access to a freed block has another message than an access to memory that never existed.
func TestUseAfterFree(t *testing.T) {
	r := newRig(t, nil, ptx("ld.global.u64 %rd3, [%rd2];"), []uint64{1}, 8)
	p := [2]device.Ptr{r.in.Ptr(), r.out.Ptr()}
	if err := r.out.Free(); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(device.Launch(r.stream, r.kernel, device.Dim{}, device.Dim{}, &p), r.stream.Sync(t.Context()))
	if err == nil || !strings.Contains(err.Error(), "byte 0 of a block of 64 bytes that was freed") {
		t.Errorf("error %v", err)
	}
}

// Numbers that fit their types are accepted, whatever their sign.
func TestNumbers(t *testing.T) {
	for literal, want := range map[string]uint64{
		"-1": 0xffffffff, "4294967295": 0xffffffff, "-2147483648": 0x80000000, "0x80000000U": 0x80000000, "017": 15, "0b11": 3, "0f3F800000": 0x3f800000,
	} {
		r := newRig(t, nil, ptx("mov.b32 %r3, "+literal+"; cvt.u64.u32 %rd3, %r3; st.global.u64 [%rd2], %rd3;"), []uint64{0}, 1)
		if got := r.run(1, 1)[0]; got != want {
			t.Errorf("%s is 0x%x, want 0x%x", literal, got, want)
		}
	}
}

// An access beyond a block does not hit the next block, at any distance.
func TestBlocksLieApart(t *testing.T) {
	for _, offset := range []int{8, 256, 512, 4096, 1 << 20, 1 << 29} {
		r := newRig(t, nil, ptx(fmt.Sprintf("st.global.u64 [%%rd1+%d], 5;", offset)), []uint64{1}, 1<<10)
		if err := r.launch(1, 1); !errors.Is(err, device.ErrLost) {
			t.Errorf("%d bytes beyond: %v", offset, err)
		}
	}
	h := newHeap(1 << 40)
	for i := range 1 << 18 {
		if _, ok := h.alloc(1); !ok {
			t.Fatalf("no address for block %d", i)
		}
	}
}

// A kernel cannot write constant memory by any address.
func TestConstant(t *testing.T) {
	for _, write := range []string{"st.global.u32 [%rd3], 7;", "st.u32 [%rd3], 7;", "atom.global.add.u32 %r3, [%rd3], 7;"} {
		every(t, func(t *testing.T, opts *Options) {
			src := strings.Replace(ptx("mov.u64 %rd3, c; ld.const.u32 %r3, [c];"+write), ".visible", ".const .u32 c = 5;\n.visible", 1)
			if err := newRig(t, opts, src, []uint64{1}, 1).launch(1, 1); err == nil || !strings.Contains(err.Error(), "constant memory") && !strings.Contains(err.Error(), "atomic operation on") {
				t.Errorf("%s: %v", write, err)
			}
		})
	}
}

// Text that cannot be parsed or resolved causes an error with file and line.
func TestUnknownForms(t *testing.T) {
	tests := []struct{ body, want string }{
		{"wgmma.fence;", `:21: unknown instruction "wgmma"`},
		{"add.u128 %rd1, %rd1, %rd1;", `:21: unknown form "add.u128"`},
		{"add.u32 %rd1, %rd1, %rd1;", "register %rd1 has 64 bits, the instruction 32"},
		{"add.u32 %r1, %r1;", "too few operands"},
		{"add.u32 %r1, %r1, %r1, %r1;", "4 operands, expected 3"},
		{"ld.release.gpu.global.u32 %r1, [%rd1];", "a load can't release"},
		{"ld.relaxed.global.u32 %r1, [%rd1];", "needs a scope"},
		{"mov.u32 %r1, nowhere;", `unknown name "nowhere"`},
		{"bra NOWHERE;", `no statement at label "NOWHERE"`},
		{"add.u32 %r1, %r1, %r1", "expected"},
		{"add.u32 %r1|%p1, %r1, %r1;", "destination is not a register"},
		{"not.pred %p1|%p2, %p3;", "one destination too many"},
		{"mov.b128 %q1, 3;", "not a register of 128 bits"},
		{"ld.global.v4.u64 {%rd3, %rd4, %rd5, %rd6}, [%rd1];", "an access of 256 bits, more than 128"},
		{"barrier.sync 0;", `unknown form "barrier.sync"`},
		{"A: ret; A: ret;", `label "A" stands here twice`},
		{".shared .b8 much[50000];", "bytes of shared memory, at most 49152"},
		{".local .b8 much[9000000000000000000];", "array much cannot have 9000000000000000000 elements"},
		{".reg .b32 %many<70000>;", "70000 registers %many"},
		{".shared .align 3 .b8 odd[4];", "alignment is not a power of two"},
		{".shared .u32 z = 5;", "shared memory cannot have an initial value"},
		{".reg .b32 %twice; .reg .b64 %twice;", "%twice is declared twice"},
		{".reg .b32 %p1;", "%p1 is declared twice"},
		{".local .b8 lo[4];", "lo is declared twice"},
		{"ld.global.u32 %r3, [[%rd1+4]+4];", "an address that starts with"},
		{"ld.global.u32 %r3, [!%rd1];", "an address that starts with"},
		{"st.shared.u32 [_], 1;", "an address that starts with"},
		{"ld.shared.u32 %r3, [{%rd1}];", "an address that starts with"},
		{"ld.shared.u32 %r3, [1.5];", "an address that starts with"},
		{"ld.global.u32 %r3, [%rd1+1.5];", "displacement of an address is not an integer"},
		{"ld.global.u32 %r3, ![%rd1];", "before something that is not a predicate"},
		{"mov.u32 %r3, !1;", "not a plain number"},
		{"mov.u32 %r3, --1;", "minus before something"},
		{"mov.u64 %rd3, -9223372036854775809;", "minus before something"},
		{"bar.sync 4294967296;", "a number beyond the range of u32"},
		{"mov.u32 %r3, 4294967297;", "a number beyond the range of u32"},
		{"mov.u32 %r3, -2147483649;", "a number beyond the range of u32"},
		{"mov.b16 %rs1, 65536;", "a number beyond the range of b16"},
		{"mov.u64 %rd3, 18446744073709551616;", "value out of range"},
		{"lop3.b32 %r1, %r1, %r1, %r1, 256;", "a number beyond the range of u8"},
		{"mov.u32 %r3, 1_0;", "is not a number"},
		{"mov.u32 %r3, 1.5;", "a floating-point number of 64 bits is not a value of u32"},
		{"mov.u32 %r3, 0f3F800000;", "a floating-point number of 32 bits is not a value of u32"},
		{".reg .f32 %f; mov.f32 %f, 0d3FF8000000000000;", "a floating-point number of 64 bits is not a value of f32"},
		{".reg .f32 %f; mov.f32 %f, 1;", "an integer is not a value of f32"},
		{"ret; } .visible .entry k() {", "two kernels k"},
		{"ret; } .visible .entry j(.param .u64 a, .param .u64 a) {", "a is declared twice"},
		{"ret; } .global .u8 big = 256; .visible .entry j() {", "a number beyond the range of u8"},
	}
	for _, test := range tests {
		d, err := Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Load(&device.Image{Name: "test", Targets: []device.Target{{Arch: 80, PTX: ptx(test.body)}}})
		if !errors.Is(err, device.ErrKernel) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "test_sm80.ptx:") {
			t.Errorf("%s: error %v, want %q", test.body, err, test.want)
		}
	}
}

// The same seed gives the same run. Another seed gives another order.
func TestSeedsDecide(t *testing.T) {
	order := func(s Scheduler, seed uint64) string {
		r := newRig(t, &Options{Scheduler: s, Seed: seed}, ptx(`
	atom.global.add.u64 %rd3, [%rd1], 1;
	mul.wide.u32 %rd4, %r1, 8;
	add.u64 %rd5, %rd2, %rd4;
	st.global.u64 [%rd5], %rd3;`), []uint64{0}, 64)
		return fmt.Sprint(r.run(1, 64))
	}
	for _, s := range []Scheduler{Random, PCT} {
		one := order(s, 1)
		if again := order(s, 1); again != one {
			t.Errorf("%s: two runs of one seed differ", s)
		}
		if order(s, 2) == one {
			t.Errorf("%s: two seeds give the same order of 64 threads", s)
		}
	}
}
