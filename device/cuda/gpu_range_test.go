package cuda

import (
	"errors"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
)

// resize resizes a range and returns the time that it took.
func resize(t *testing.T, r device.Range, n int) time.Duration {
	t.Helper()
	start := time.Now()
	if err := r.Resize(n); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

// Mapping many GiB takes little time. The range is one block of memory, even for kernels.
func TestGPURangeOf16GiB(t *testing.T) {
	d, s := gpu(t)
	m, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	size := 16 << 30
	for uint64(size) > m.Free/2 {
		size /= 2
	}
	r, err := d.Reserve(4 * size)
	if err != nil {
		t.Fatal(err)
	}
	at := r.Ptr()
	first := resize(t, r, 1)
	if r.Mapped() != 2<<20 {
		t.Errorf("one byte maps %d", r.Mapped())
	}
	if err := s.Fill(at, 7, 2<<18); err != nil {
		t.Fatal(err)
	}
	whole := resize(t, r, size) // while the fill runs
	t.Logf("mapped %d bytes in %v, then %d GiB in %v, in %d pieces", 2<<20, first, size>>30, whole, len(r.(*reservation).pieces))
	if whole > 200*time.Millisecond {
		t.Errorf("mapping %d GiB took %v", size>>30, whole)
	}
	if r.Ptr() != at {
		t.Error("the range has moved")
	}

	// A kernel adds across the boundaries of pieces.
	const n = 4 << 20
	for off := 2 << 20; off < size; off *= 2 {
		a := at + device.Ptr(off-2*n)
		if off < 2*n {
			a = at
		}
		if err := s.Fill(a, 5, n); err != nil {
			t.Fatal(err)
		}
		add(t, d, s, a, a, a, n)
		expect(t, s, a, n, 10)
	}
	if err := s.Fill(at, 7, 2<<18); err != nil {
		t.Fatal(err)
	}
	half := resize(t, r, size/2)
	t.Logf("shrunk to %d GiB in %v, %d bytes mapped", size>>31, half, r.Mapped())
	expect(t, s, at, 2<<18, 7)
	resize(t, r, size)
	expect(t, s, at, 2<<18, 7)
	start := time.Now()
	if err := r.Free(); err != nil {
		t.Fatal(err)
	}
	t.Logf("freed in %v", time.Since(start))
	after := memoryOf(t, d)
	if after.Free+64<<20 < m.Free {
		t.Errorf("%d bytes free, before %d", after.Free, m.Free)
	}
}

func add(t *testing.T, d *Device, s *device.Stream, a, b, c device.Ptr, n int) {
	t.Helper()
	p := addParams{A: a, B: b, C: c, N: uint32(n)}
	if err := device.Launch(s, gpuKernel(t, d, "add"), device.Dim{X: (n + 255) / 256}, device.Dim{X: 256}, &p); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, s *device.Stream, p device.Ptr, n int, want uint32) {
	t.Helper()
	got := make([]uint32, n)
	if err := s.CopyOut(t.Context(), device.Bytes(got), p); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != want {
			t.Fatalf("word %d at %#x is %d, want %d", i, uint64(p), v, want)
		}
	}
}

// Growing does not wait for a running kernel. Shrinking and freeing wait.
func TestGPURangeBesideKernel(t *testing.T) {
	d, s := gpu(t)
	spin := gpuKernel(t, d, "spin")
	const long = 200 * time.Millisecond
	launch := func() {
		t.Helper()
		if err := device.Launch(s, spin, device.Dim{}, device.Dim{}, &addParams{N: uint32(long.Microseconds())}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := d.Reserve(4 << 30)
	if err != nil {
		t.Fatal(err)
	}
	resize(t, r, 64<<20) // the driver allocates what it keeps
	launch()
	grown := resize(t, r, 1<<30)
	launch()
	shrunk := resize(t, r, 1<<20)
	launch()
	start := time.Now()
	if err := r.Free(); err != nil {
		t.Fatal(err)
	}
	freed := time.Since(start)
	t.Logf("beside a kernel of %v: grown to 1 GiB in %v; shrunk in %v; freed in %v", long, grown, shrunk, freed)
	if grown > long/2 || shrunk < long/2 || freed < long/2 {
		t.Error("growing waited, or shrinking or freeing did not")
	}
}

// A range can use all memory of a GPU, and no more. A failure leaves the range unchanged.
func TestGPURangeOutOfMemory(t *testing.T) {
	d, s := gpu(t)
	m := memoryOf(t, d)
	r, err := d.Reserve(int(2 * m.Total))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	resize(t, r, 32<<20)
	if err := s.Fill(r.Ptr(), 3, 8<<20); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err = r.Resize(int(m.Total))
	t.Logf("refused in %v: %v", time.Since(start), err)
	if !errors.Is(err, device.ErrMemory) || r.Mapped() != 32<<20 {
		t.Errorf("%v, %d bytes mapped", err, r.Mapped())
	}
	expect(t, s, r.Ptr(), 8<<20, 3)
	if after := memoryOf(t, d); after.Free+128<<20 < m.Free {
		t.Errorf("%d bytes free, before %d", after.Free, m.Free)
	}
}

// The driver loads an image again after Unload. A kernel of the unloaded image returns an error
// without a driver call.
func TestGPUUnload(t *testing.T) {
	d, s := gpu(t)
	k := gpuKernel(t, d, "add")
	if err := d.Unload(vectors); err != nil {
		t.Fatal(err)
	}
	if err := device.Launch(s, k, device.Dim{}, device.Dim{}, &addParams{}); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Launch: %v", err)
	}
	k = gpuKernel(t, d, "add")
	if err := errors.Join(device.Launch(s, k, device.Dim{}, device.Dim{}, &addParams{}), s.Sync(t.Context())); err != nil {
		t.Error(err)
	}
}
