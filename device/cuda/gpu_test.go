package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
)

// gpu opens the first GPU, or skips the test.
func gpu(t testing.TB) (*Device, *device.Stream) {
	t.Helper()
	RequireGPU(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	return d, s
}

func gpuKernel(t testing.TB, d *Device, name string) device.Kernel {
	t.Helper()
	m, err := d.Load(vectors)
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestGPUProperties(t *testing.T) {
	d, _ := gpu(t)
	list, err := Devices()
	if err != nil {
		t.Fatal(err)
	}
	p := d.Properties()
	if len(list) == 0 || list[0] != p {
		t.Errorf("Devices: %+v, Open: %+v", list, p)
	}
	if p.Name == "" || p.Units < 1 || p.Arch < minArch || p.L2 < 1<<20 || p.Driver == "" {
		t.Errorf("properties %+v", p)
	}
	m, err := d.Memory()
	if err != nil || m.Total < 1<<30 {
		t.Errorf("memory %+v, %v", m, err)
	}
	t.Logf("%+v %+v", p, m)
	if _, err := Open(len(list)); !errors.Is(err, device.ErrNoDevice) {
		t.Errorf("Open of one more: %v", err)
	}
}

func TestGPUAdd(t *testing.T) {
	for _, arch := range []string{"", "80"} {
		t.Run("WEFT_PTX="+arch, func(t *testing.T) {
			t.Setenv(archVariable, arch)
			d, s := gpu(t)
			add := gpuKernel(t, d, "add")
			const n = 1_000_003
			a, b := make([]uint32, n), make([]uint32, n)
			for i := range a {
				a[i], b[i] = uint32(i), uint32(i)*0x9e3779b9
			}
			da, err1 := device.Upload(s, a)
			db, err2 := device.Upload(s, b)
			dc, err3 := device.Make[uint32](d, n)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			p := addParams{A: da.Ptr(), B: db.Ptr(), C: dc.Ptr(), N: n}
			if err := device.Launch(s, add, device.Dim{X: (n + 255) / 256}, device.Dim{X: 256}, &p); err != nil {
				t.Fatal(err)
			}
			if err := dc.CopyTo(t.Context(), s, b); err != nil {
				t.Fatal(err)
			}
			for i, got := range b {
				if want := uint32(i) + uint32(i)*0x9e3779b9; got != want {
					t.Fatalf("element %d is %#x, want %#x", i, got, want)
				}
			}
			if err := errors.Join(da.Free(), db.Free(), dc.Free()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The sizes of parameters that the fake driver parses from PTX equal those of the real driver.
func TestGPUParamSizes(t *testing.T) {
	d, _ := gpu(t)
	if !d.drv.has(symFuncGetParamInfo) {
		t.Skipf("the driver is for CUDA %s; cuFuncGetParamInfo came with 12.4", d.Properties().Driver)
	}
	m, err := d.Load(vectors)
	if err != nil {
		t.Fatal(err)
	}
	found, err := entries(vectors.Targets[0].PTX)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range found {
		err := d.do(func(fr *frame) error {
			if err := fr.call(symModuleGetFunction, fr.result(0), m.(*module).whole, fr.cString(name)); err != nil {
				return err
			}
			got, err := fr.paramSizes(uintptr(fr.out[0]))
			if !slices.Equal(got, want) {
				t.Errorf("%s: the driver says %v, PTX says %v", name, got, want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestGPUBadPTX(t *testing.T) {
	d, _ := gpu(t)
	bad := strings.Replace(vectors.Targets[0].PTX, "setp.ge.u32", "setp.maybe.u32", 1)
	_, err := d.Load(&device.Image{Name: "bad", Targets: []device.Target{{Arch: 80, PTX: bad}}})
	if !errors.Is(err, device.ErrKernel) || !strings.Contains(err.Error(), ".maybe") {
		t.Errorf("error is %v, want ErrKernel and what the compiler says", err)
	}
	t.Log(err)
	gpuKernel(t, d, "add") // the device stays usable
}

func TestGPUOutOfMemory(t *testing.T) {
	d, s := gpu(t)
	m, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Alloc(int(m.Total) + 1)
	if !errors.Is(err, device.ErrMemory) {
		t.Errorf("error is %v", err)
	}
	t.Log(err)
	b, err := device.Upload(s, []uint64{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Free(); err != nil {
		t.Error(err)
	}
}

func TestGPURefusals(t *testing.T) {
	d, s := gpu(t)
	add := gpuKernel(t, d, "add")
	if err := device.Launch(s, add, device.Dim{}, device.Dim{X: 4096}, &addParams{}); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Launch of a block that is too large: %v", err)
	}
	mem := make([]byte, 1<<20)
	undo, err := d.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Register(mem); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Register twice: %v", err)
	}
	if err := errors.Join(undo(), undo()); err != nil {
		t.Error(err)
	}
	m, err := d.Load(vectors)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Kernel("absent"); !errors.Is(err, device.ErrKernel) {
		t.Errorf("Kernel: %v", err)
	}
}

func TestGPUWaitEndsWithTheContext(t *testing.T) {
	d, s := gpu(t)
	spin := gpuKernel(t, d, "spin")
	const long = 300 * time.Millisecond
	start := time.Now()
	if err := device.Launch(s, spin, device.Dim{}, device.Dim{}, &addParams{N: uint32(long.Microseconds())}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > long/2 {
		t.Errorf("Sync: %v after %v", err, time.Since(start))
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took < long || took > long+long/4 {
		t.Errorf("a kernel of %v took %v", long, took)
	}
}

func TestGPUEventTime(t *testing.T) {
	d, s := gpu(t)
	spin := gpuKernel(t, d, "spin")
	a, err1 := d.NewEvent()
	b, err2 := d.NewEvent()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	const long = 20 * time.Millisecond
	err := errors.Join(s.Record(a),
		device.Launch(s, spin, device.Dim{}, device.Dim{}, &addParams{N: uint32(long.Microseconds())}), s.Record(b))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Since(a); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Since before it is reached: %v", err)
	}
	if err := b.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took, err := b.Since(a); err != nil || took < long || took > 2*long {
		t.Errorf("a kernel of %v took %v, %v", long, took, err)
	}
}

func TestGPULeavesNothingBehind(t *testing.T) {
	d, s := gpu(t)
	add := gpuKernel(t, d, "add")
	x := &fixture{d: d, s: s}
	round := func() {
		var users sync.WaitGroup
		for range 8 {
			users.Go(func() {
				for range 20 {
					if err := use(x, add); err != nil {
						t.Error(err)
					}
				}
			})
		}
		users.Wait()
	}
	round() // the driver and the runtime allocate what they keep
	threads, goroutines := threadCount(t), runtime.NumGoroutine()
	// The free memory is that of the card, which other processes also use. A leak shows in every
	// round. The driver keeps small blocks for itself.
	var before, after device.Memory
	for range 5 {
		before = memoryOf(t, d)
		for range 10 {
			round()
		}
		if after = memoryOf(t, d); before.Free <= after.Free+64<<20 {
			break
		}
	}
	if before.Free > after.Free+64<<20 {
		t.Errorf("%d bytes free, before %d", after.Free, before.Free)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, before %d", n, goroutines)
	}
	if n := threadCount(t); n > threads+runtime.GOMAXPROCS(0) {
		t.Errorf("%d threads, before %d", n, threads)
	}
}

func memoryOf(t *testing.T, d *Device) device.Memory {
	t.Helper()
	m, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func threadCount(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// childVariable marks the test binary as the child process of TestGPULost.
const childVariable = "WEFT_TEST_LOSE_GPU"

// A kernel that writes to an unmapped address makes the GPU unusable for its process, so a child
// process runs the kernel.
func TestGPULost(t *testing.T) {
	if os.Getenv(childVariable) == "1" {
		loseGPU(t)
		return
	}
	RequireGPU(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestGPULost$", "-test.v")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("lost as it should")) {
		t.Errorf("child: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func loseGPU(t *testing.T) {
	d, s := gpu(t)
	b, err := d.Alloc(3 << 20)
	if err != nil {
		t.Fatal(err)
	}
	host, err := d.AllocHost(1000)
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Reserve(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	_, unmap, err := d.Map(host[:512])
	if err := errors.Join(err, r.Resize(100<<20)); err != nil {
		t.Fatal(err)
	}
	if err := s.CopyIn(b.Ptr, make([]byte, b.Size)); err != nil { // fills the ring
		t.Fatal(err)
	}
	wild := gpuKernel(t, d, "wild")
	if err := device.Launch(s, wild, device.Dim{}, device.Dim{}, &addParams{}); err != nil {
		t.Fatal(err)
	}
	first := s.Sync(t.Context())
	var cause *Error
	if !errors.Is(first, device.ErrLost) || !errors.As(first, &cause) || cause.Code != illegalAddress {
		t.Fatalf("Sync: %v", first)
	}
	_, memErr := d.Memory()
	_, loadErr := d.Load(&device.Image{})
	_, regErr := d.Register(make([]byte, 100))
	_, resErr := d.Reserve(1)
	_, _, mapErr := d.Map(make([]byte, 64<<10))
	if err := unmap(); err != nil { // of AllocHost: nothing to undo
		t.Errorf("unmap: %v", err)
	}
	for what, err := range map[string]error{
		"Memory": memErr, "Load": loadErr, "Register": regErr, "Free": d.Free(b), "FreeHost": d.FreeHost(host),
		"Reserve": resErr, "Map": mapErr, "Resize": r.Resize(200 << 20), "Range.Free": r.Free(), "Unload": d.Unload(vectors),
		"CopyOut": s.CopyOut(t.Context(), make([]byte, 100), b.Ptr), "Record": s.Record(e), "Event.Close": e.Close(),
		"Launch": device.Launch(s, wild, device.Dim{}, device.Dim{}, &addParams{}), "Sync": d.Sync(t.Context()), "Stream.Close": s.Close(),
	} {
		if !errors.Is(err, device.ErrLost) || !errors.As(err, &cause) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	again, err := Open(0)
	if err == nil {
		_, err = again.Memory()
		err = errors.Join(err, again.Close())
	}
	fmt.Printf("lost as it should: %v\nopening again in the same process: %v\n", first, err)
}

func BenchmarkGPULaunch(b *testing.B) {
	d, s := gpu(b)
	k := gpuKernel(b, d, "add")
	var p addParams
	b.ReportAllocs()
	for b.Loop() {
		if err := device.Launch(s, k, device.Dim{}, device.Dim{}, &p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGPULaunchSync(b *testing.B) {
	d, s := gpu(b)
	k := gpuKernel(b, d, "add")
	for _, c := range []struct {
		name string
		ctx  context.Context
	}{{"background", context.Background()}, {"cancellable", b.Context()}} {
		b.Run(c.name, func(b *testing.B) {
			var p addParams
			b.ReportAllocs()
			for b.Loop() {
				if err := device.Launch(s, k, device.Dim{}, device.Dim{}, &p); err != nil {
					b.Fatal(err)
				}
				if err := s.Sync(c.ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGPUCopy compares copies through the ring with copies of page-locked memory.
func BenchmarkGPUCopy(b *testing.B) {
	d, s := gpu(b)
	const most = 256 << 20
	buf, err := d.Alloc(most)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Free(buf)
	pinned, err := d.AllocHost(most)
	if err != nil {
		b.Fatal(err)
	}
	defer d.FreeHost(pinned)
	plain := bytes.Repeat([]byte{1}, most)
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20, 4 << 20, 32 << 20, most} {
		for name, mem := range map[string][]byte{"ring": plain[:size], "pinned": pinned[:size]} {
			b.Run(fmt.Sprintf("in/%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					if err := s.CopyIn(buf.Ptr, mem); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Sync(b.Context()); err != nil {
					b.Fatal(err)
				}
			})
			b.Run(fmt.Sprintf("out/%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					if err := s.CopyOut(context.Background(), mem, buf.Ptr); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkGPURegister(b *testing.B) {
	d, _ := gpu(b)
	mem := bytes.Repeat([]byte{1}, 64<<20)
	b.SetBytes(int64(len(mem)))
	for b.Loop() {
		undo, err := d.Register(mem)
		if err != nil {
			b.Fatal(err)
		}
		if err := undo(); err != nil {
			b.Fatal(err)
		}
	}
}
