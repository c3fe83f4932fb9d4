package pmtest

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
)

// publishing returns a kernel. Each thread has two words in the memory at %rd1: a value, and a flag
// memoryAt bytes before it. It also has two words in the device memory at %rd2: ready and done.
func publishing(body string) string {
	return strings.NewReplacer("value", "%rd3+64", "flag", "%rd3", "other", "%rd3+128", "ready", "%rd4", "done", "%rd4+8").Replace(`
.version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .align 8 .b8 p[16])
{
	.reg .pred %p<3>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [p+8];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd3, %r2, 8;
	add.u64 %rd4, %rd2, %rd3;
	add.u64 %rd4, %rd4, %rd3;
	add.u64 %rd3, %rd1, %rd3;
	setp.ne.u32 %p1, %r1, 0;
` + body + `
	ret;
}
`)
}

const (
	publishers = 4  // number of threads
	memoryAt   = 64 // byte offset of the values
)

func aligned(bytes int) []uint64 {
	words := make([]uint64, 2*bytes/8)
	for uintptr(unsafe.Pointer(&words[0]))%256 != 0 {
		words = words[1:]
	}
	return words[:bytes/8]
}

// explore runs the kernel with a seed. broken is the number of flags without a value in possible
// crash images, and flags the number of all flags.
func explore(t *testing.T, body string, blocks int, o sim.Options, check func(k *Kernels)) (broken, flags int) {
	t.Helper()
	words := aligned(256)
	mapped := device.Bytes(words)
	k := NewKernels(mapped)
	o.Domain = k
	dev, err := sim.Open(&o)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	buffer, unmap, err := dev.Map(mapped)
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()
	k.Base = buffer.Ptr
	module, err := dev.Load(&device.Image{Name: "publish", Targets: []device.Target{{Arch: 80, PTX: publishing(body)}}})
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := module.Kernel("k")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	ready, err := device.Upload(stream, make([]uint64, 2*publishers))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(o.Seed, 3))
	k.Step = func() error {
		k.Crash(rng, 64, func() {
			m := k.Memory()
			for i := range uint64(publishers) {
				value, flag := m.Load(memoryAt/8+i), m.Load(i)
				if flag != 0 {
					if flags++; value != 7 {
						broken++
					}
				}
				m.Store(i, 99) // is discarded with the image
			}
		})
		return nil
	}
	params := [2]device.Ptr{buffer.Ptr, ready.Ptr()}
	if err := device.Launch(stream, kernel, device.Dim{X: blocks}, device.Dim{X: publishers}, &params); err != nil {
		t.Fatal(err)
	}
	if err := stream.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, w := range words {
		if k.Word(uint64(i)) != w || i < publishers && w != 1 {
			t.Errorf("word %d is %#x, and %#x in the domain", i, w, k.Word(uint64(i)))
		}
	}
	if check != nil {
		check(k)
	}
	return broken, flags
}

// A flag implies its value in two cases only. Either a thread that wrote or acquired the value
// executes a fence of system scope in between, or the flag is a release of system scope.
func TestPublish(t *testing.T) {
	const value, flag = "st.relaxed.sys.global.u64 [value], 7;", "st.relaxed.sys.global.u64 [flag], 1;"
	// The second block executes the fence. The threads synchronize by words of the device.
	helped := func(first, second string) string {
		return "@%p1 bra HELP;" + value + first + `
WAIT:	ld.acquire.gpu.global.u64 %rd5, [done]; setp.eq.u64 %p2, %rd5, 0; @%p2 bra WAIT;` + flag + `
	bra.uni END;
HELP:	` + second + ` setp.eq.u64 %p2, %rd5, 0; @%p2 bra HELP;
	fence.acq_rel.sys;
	st.release.gpu.global.u64 [done], 1;
END:`
	}
	for _, test := range []struct {
		name, body string
		blocks     int
		holds      bool
	}{
		{"fence", value + "fence.acq_rel.sys;" + flag, 1, true},
		{"fence.sc", value + "fence.sc.sys;" + flag, 1, true},
		{"no fence", value + flag, 1, false},
		{"fence of the device", value + "fence.acq_rel.gpu;" + flag, 1, false},
		{"fence.sc of the device", value + "fence.sc.gpu;" + flag, 1, false},
		{"fence too late", value + flag + "fence.acq_rel.sys;", 1, false},
		{"release", value + "st.release.sys.global.u64 [flag], 1;", 1, true},
		{"release by an atomic", value + "atom.release.sys.global.exch.b64 %rd5, [flag], 1;", 1, true},
		{"release of the device", value + "st.release.gpu.global.u64 [flag], 1;", 1, false},
		{"release of another word", value + "st.release.sys.global.u64 [other], 1;" + flag, 1, false},
		{"fence of who has acquired", helped("st.release.gpu.global.u64 [ready], 1;", "ld.acquire.gpu.global.u64 %rd5, [ready];"), 2, true},
		{"fence of who was told without a release", helped("st.relaxed.gpu.global.u64 [ready], 1;", "ld.acquire.gpu.global.u64 %rd5, [ready];"), 2, false},
		{"fence of who was not told", helped("", "mov.u64 %rd5, 1;"), 2, false},
		{"two words at once", "st.global.v2.u64 [%rd1+64], {7, 7}; st.global.v2.u64 [%rd1+80], {7, 7}; fence.acq_rel.sys;" + flag, 1, true},
		{"halves", "st.global.u16 [%rd3+134], 5; st.global.u32 [value], 7; fence.acq_rel.sys; st.global.u32 [flag], 1;", 1, true},
		{"halves without a fence", "st.global.u32 [value], 7; st.global.u32 [flag], 1;", 1, false},
	} {
		broken, flags := 0, 0
		for seed := range uint64(20) {
			o := sim.Options{Scheduler: []sim.Scheduler{sim.Random, sim.PCT}[seed%2], Seed: seed}
			b, f := explore(t, test.body, test.blocks, o, nil)
			broken, flags = broken+b, flags+f
		}
		if flags == 0 || broken > 0 == test.holds {
			t.Errorf("%s: %d of %d flags have no value", test.name, broken, flags)
		}
	}
}

// A crash leaves only one value of a fenced word. After SyncFromHost each word has one value.
func TestSettle(t *testing.T) {
	const body = "st.global.u64 [value], 6; fence.acq_rel.sys; st.global.u64 [value], 7; fence.acq_rel.sys; st.global.u64 [flag], 1;"
	explore(t, body, 1, sim.Options{}, func(k *Kernels) {
		if k.Dirty() != publishers {
			t.Errorf("%d words may be lost, want %d", k.Dirty(), publishers)
		}
		k.mapped[0] = 5 // written by the host
		k.SyncFromHost()
		if k.Dirty() != 0 || k.Word(0) != 5 {
			t.Errorf("%d words may be lost, want none; word 0 is %d, want 5", k.Dirty(), k.Word(0))
		}
	})
}

// If a released value is durable, all stores before the release are, too. A fence after the release
// makes both durable.
func TestRelease(t *testing.T) {
	m := newImages(8)
	m.recordStore(0, 1, 0)
	m.recordStore(0, 2, 1)
	m.recordStore(1, 1, 2).deps = []dependency{{value: 2, at: 0, store: 0}}
	m.recordStore(1, 2, 3)
	seen := map[[2]uint64]bool{}
	m.Crash(rand.New(rand.NewPCG(1, 1)), 100, func() { seen[[2]uint64{m.Load(0), m.Load(1)}] = true })
	if len(seen) != 8 || seen[[2]uint64{0, 1}] || !seen[[2]uint64{1, 1}] || !seen[[2]uint64{0, 2}] {
		t.Errorf("images %v", seen)
	}
	m.makeDurable(1, func(store int) bool { return store == 2 })
	if h := m.dirty[0]; h == nil || len(h.values) != 2 || len(m.dirty[1].deps) != 0 {
		t.Errorf("behind a fence that has seen the release: %+v, %+v", h, m.dirty[1])
	}
}

// If Step returns an error, the device is lost.
func TestStepFails(t *testing.T) {
	mapped := device.Bytes(make([]uint64, 8))
	k, failed := NewKernels(mapped), errors.New("power failed")
	k.Base, k.Step = 4096, func() error { return failed }
	if k.Holds(4095) || !k.Holds(4096) || k.Holds(4096+64) {
		t.Error("the memory is elsewhere")
	}
	if err := k.Store(sim.Thread{}, 4096+8, mapped[:8]); err != failed {
		t.Errorf("a store: error %v", err)
	}
	if err := k.Fence(sim.Thread{}, sim.ScopeSys, func(int) bool { return true }); err != failed || k.Steps() != 2 || k.Dirty() != 0 {
		t.Errorf("a fence: error %v, %d steps, %d words dirty", err, k.Steps(), k.Dirty())
	}
}
