package devicetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
)

// Conformance tests that a device, its streams and its events keep the promises of [device.Device].
// It calls open for every subtest and closes the device.
func Conformance(t *testing.T, open func(t testing.TB) device.Device) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, dev device.Device)
	}{
		{"properties", testProperties},
		{"alloc", testAlloc},
		{"host memory", testHostMemory},
		{"round trips", testRoundTrips},
		{"source can be reused", testSourceReuse},
		{"asynchronous copies", testAsync},
		{"copies within the device", testDeviceCopy},
		{"fill", testFill},
		{"nothing to do", testEmpty},
		{"slices", testSlices},
		{"mapped host memory", testMap},
		{"what cannot be mapped", testMapRefuses},
		{"kernels on mapped host memory", testMapKernel},
		{"ranges", testRange},
		{"ranges grow beside work", testRangeDuringWork},
		{"what ranges refuse", testRangeRefuses},
		{"wrapped slices", testWrap},
		{"events order streams", testEventOrder},
		{"events tell time", testEventTime},
		{"ended context", testEndedContext},
		{"concurrent streams", testConcurrentStreams},
		{"one stream, many goroutines", testSharedStream},
		{"kernels", testKernels},
		{"several parameters", testSeveralParameters},
		{"images are unloaded", testUnload},
		{"closed", testClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev := open(t)
			t.Cleanup(func() {
				if err := dev.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			c.run(t, dev)
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, name string, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Errorf("%s: error %v, want %v", name, err, sentinel)
	}
}

// stream opens a stream that is closed at the end of the test.
func stream(t testing.TB, dev device.Device) *device.Stream {
	t.Helper()
	s, err := dev.NewStream()
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing a stream: %v", err)
		}
	})
	return s
}

// event makes an event that is closed at the end of the test.
func event(t testing.TB, dev device.Device) *device.Event {
	t.Helper()
	e, err := dev.NewEvent()
	must(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("closing an event: %v", err)
		}
	})
	return e
}

// buffer allocates device memory that is freed at the end of the test.
func buffer(t testing.TB, dev device.Device, size int) device.Buffer {
	t.Helper()
	b, err := dev.Alloc(size)
	must(t, err)
	t.Cleanup(func() {
		if err := dev.Free(b); err != nil {
			t.Errorf("freeing a buffer: %v", err)
		}
	})
	return b
}

// noise returns n pseudorandom bytes that depend on the seed.
func noise(n int, seed uint64) []byte {
	b := make([]byte, 0, n+8)
	for r := rand.New(rand.NewPCG(seed, 1)); len(b) < n; {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

func read(t testing.TB, s *device.Stream, p device.Ptr, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	must(t, s.CopyOut(t.Context(), b, p))
	return b
}

// equal reports the first difference between got and want.
func equal(t testing.TB, name string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%s: byte %d of %d is %#x, want %#x", name, i, len(want), got[i], want[i])
			return
		}
	}
	t.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
}

func testProperties(t *testing.T, dev device.Device) {
	p := dev.Properties()
	if p.Kind == "" || p.Name == "" || p.Units < 1 {
		t.Errorf("incomplete properties: %+v", p)
	}
	m, err := dev.Memory()
	must(t, err)
	if m.Free > m.Total {
		t.Errorf("%d bytes free of %d", m.Free, m.Total)
	}
	if h, ok := dev.(device.Host); ok {
		var mu sync.Mutex
		visited := 0
		h.Parallel(1000, 7, func(lo, hi int) {
			mu.Lock()
			defer mu.Unlock()
			visited += hi - lo
		})
		if visited != 1000 {
			t.Errorf("Parallel went over %d of 1000", visited)
		}
	}
}

func testAlloc(t *testing.T, dev device.Device) {
	_, isHost := dev.(device.Host)
	for _, size := range []int{1, 3, 256, 4097, 5 << 20} {
		b := buffer(t, dev, size)
		if b.Size != size || b.Ptr == 0 || b.Ptr%256 != 0 {
			t.Errorf("Alloc(%d) gave %d bytes at %#x", size, b.Size, uint64(b.Ptr))
		}
		if got := len(b.Host); isHost && got != size || !isHost && got != 0 {
			t.Errorf("Alloc(%d): %d bytes are seen by the host", size, got)
		}
	}
	for _, size := range []int{0, -1, math.MinInt} {
		_, err := dev.Alloc(size)
		wantErr(t, "Alloc of no memory", err, device.ErrInvalid)
	}
	_, err := dev.Alloc(1 << 50)
	wantErr(t, "Alloc of 1 PiB", err, device.ErrMemory)
	buffer(t, dev, 1) // a failure has no effect
}

func testHostMemory(t *testing.T, dev device.Device) {
	b, err := dev.AllocHost(10000)
	must(t, err)
	if len(b) != 10000 {
		t.Errorf("AllocHost(10000) gave %d bytes", len(b))
	}
	copy(b, noise(len(b), 1)) // the memory is writable
	must(t, dev.FreeHost(b))
	wantErr(t, "FreeHost of other memory", dev.FreeHost(make([]byte, 10)), device.ErrInvalid)
	_, err = dev.AllocHost(0)
	wantErr(t, "AllocHost of no memory", err, device.ErrInvalid)
	_, err = dev.Register(nil)
	wantErr(t, "Register of an empty slice", err, device.ErrInvalid)
}

// copySizes are sizes near those at which implementations copy in another way.
var copySizes = []int{
	1, 2, 3, 4, 255, 256, 257, 4095, 4096, 65535, 65536, 65537,
	1<<20 - 1, 1 << 20, 1<<20 + 1, 2<<20 + 3, 5<<20 + 7, 17 << 20,
}

func testRoundTrips(t *testing.T, dev device.Device) {
	s := stream(t, dev)
	for i, n := range copySizes {
		b := buffer(t, dev, n+16)
		src := noise(n, uint64(i))
		must(t, s.CopyIn(b.Ptr, src))
		equal(t, "round trip", read(t, s, b.Ptr, n), src)
		must(t, s.CopyIn(b.Ptr+13, src)) // an odd address
		equal(t, "round trip at 13", read(t, s, b.Ptr+13, n), src)
		if b.Host != nil {
			equal(t, "what the host sees", b.Host[13:13+n], src)
		}
	}
}

func testSourceReuse(t *testing.T, dev device.Device) {
	const n, pieces = 3000, 2000 // several MiB in total
	s := stream(t, dev)
	b := buffer(t, dev, n*pieces)
	src, all := make([]byte, n), []byte(nil)
	for i := range pieces {
		copy(src, noise(n, uint64(i)))
		must(t, s.CopyIn(b.Ptr+device.Ptr(i*n), src))
		all = append(all, src...)
		clear(src)
	}
	equal(t, "small copies", read(t, s, b.Ptr, len(all)), all)

	big := noise(n*pieces, 9)
	sent := bytes.Clone(big)
	must(t, s.CopyIn(b.Ptr, sent))
	clear(sent)
	equal(t, "a large copy", read(t, s, b.Ptr, len(big)), big)
}

func testAsync(t *testing.T, dev device.Device) {
	const n = 3<<20 + 5
	s, b := stream(t, dev), buffer(t, dev, n)
	check := func(in, out []byte) {
		copy(in, noise(n, 5))
		must(t, s.CopyInAsync(b.Ptr, in))
		must(t, s.CopyOutAsync(out, b.Ptr))
		must(t, s.Sync(t.Context()))
		equal(t, "asynchronous round trip", out, in)
		clear(out)
		must(t, s.CopyIn(b.Ptr, in))
		must(t, s.CopyOut(t.Context(), out, b.Ptr))
		equal(t, "round trip of memory that needs no staging", out, in)
	}
	host, err := dev.AllocHost(2 * n)
	must(t, err)
	check(host[:n], host[n:])
	must(t, dev.FreeHost(host))

	registered := make([]byte, 2*n) // large, and therefore on the heap
	unregister, err := dev.Register(registered)
	must(t, err)
	check(registered[:n], registered[n:])
	must(t, unregister())
}

func testDeviceCopy(t *testing.T, dev device.Device) {
	const n = 1<<20 + 9
	s, a, b := stream(t, dev), buffer(t, dev, n), buffer(t, dev, n)
	src := noise(n, 3)
	must(t, s.CopyIn(a.Ptr, src))
	must(t, s.Fill(b.Ptr, 0, n/4))
	must(t, s.Copy(b.Ptr+4, a.Ptr+1, n-100))
	got := read(t, s, b.Ptr, n-96)
	equal(t, "before the copy", got[:4], make([]byte, 4))
	equal(t, "the copy", got[4:], src[1:n-99])
	wantErr(t, "Copy of a negative size", s.Copy(b.Ptr, a.Ptr, -1), device.ErrInvalid)
}

func testFill(t *testing.T, dev device.Device) {
	const n = 100_000
	s, b := stream(t, dev), buffer(t, dev, 4*n)
	must(t, s.Fill(b.Ptr, 0xffffffff, n))
	must(t, s.Fill(b.Ptr+8, 0x04030201, n-3))
	got := read(t, s, b.Ptr, 4*n)
	ones := bytes.Repeat([]byte{0xff}, 8)
	equal(t, "before", got[:8], ones)
	equal(t, "filled", got[8:4*n-4], bytes.Repeat([]byte{1, 2, 3, 4}, n-3))
	equal(t, "after", got[4*n-4:], ones[:4])
	wantErr(t, "Fill of a negative count", s.Fill(b.Ptr, 0, -1), device.ErrInvalid)
	wantErr(t, "Fill at an odd address", s.Fill(b.Ptr+2, 0, 1), device.ErrInvalid)
}

func testEmpty(t *testing.T, dev device.Device) {
	s, b := stream(t, dev), buffer(t, dev, 8)
	must(t, s.CopyIn(b.Ptr, nil))
	must(t, s.CopyOut(t.Context(), nil, b.Ptr))
	must(t, s.CopyInAsync(b.Ptr, nil))
	must(t, s.CopyOutAsync(nil, b.Ptr))
	must(t, s.Copy(b.Ptr, b.Ptr, 0))
	must(t, s.Fill(b.Ptr, 1, 0))
	must(t, s.Sync(t.Context()))
	must(t, dev.Sync(t.Context()))
	must(t, event(t, dev).Sync(t.Context())) // an event that was never recorded
}

func testSlices(t *testing.T, dev device.Device) {
	s := stream(t, dev)
	if s.Device() != dev {
		t.Error("the stream belongs to another device")
	}
	src := make([]uint64, 10_000)
	for i := range src {
		src[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	d, err := device.Upload(s, src)
	must(t, err)
	got := make([]uint64, 100)
	must(t, d.Sub(500, 600).CopyTo(t.Context(), s, got))
	for i, v := range got {
		if v != src[500+i] {
			t.Fatalf("element %d is %#x, want %#x", 500+i, v, src[500+i])
		}
	}
	must(t, d.Free())
	must(t, d.Free())
}

func testEventOrder(t *testing.T, dev device.Device) {
	const n, rounds = 1 << 20, 20
	a, b := stream(t, dev), stream(t, dev)
	x, y := buffer(t, dev, n), buffer(t, dev, n)
	filled, copied := event(t, dev), event(t, dev)
	for i := range rounds {
		// in the first round copied was never recorded, so it counts as reached
		must(t, a.Wait(copied))
		must(t, a.Fill(x.Ptr, uint32(i), n/4))
		must(t, a.Record(filled))
		must(t, b.Wait(filled))
		must(t, b.Copy(y.Ptr, x.Ptr, n))
		must(t, b.Record(copied))
	}
	must(t, copied.Sync(t.Context()))
	must(t, a.Sync(t.Context()))
	equal(t, "what the last round left", read(t, b, y.Ptr, n), bytes.Repeat([]byte{rounds - 1, 0, 0, 0}, n/4))
}

func testEventTime(t *testing.T, dev device.Device) {
	s, b := stream(t, dev), buffer(t, dev, 64<<20)
	start, end := event(t, dev), event(t, dev)
	_, err := end.Since(start)
	wantErr(t, "Since of events never recorded", err, device.ErrInvalid)
	before := time.Now()
	must(t, s.Record(start))
	must(t, s.Fill(b.Ptr, 7, b.Size/4))
	must(t, s.Record(end))
	must(t, end.Sync(t.Context()))
	wall := time.Since(before)
	d, err := end.Since(start)
	must(t, err)
	// The two clocks differ, so the device may measure a little more than the host.
	if d <= 0 || d > wall+wall/10+time.Millisecond {
		t.Errorf("filling 64 MiB took the device %v, within %v of the host", d, wall)
	}
}

func testEndedContext(t *testing.T, dev device.Device) {
	s, b := stream(t, dev), buffer(t, dev, 1<<20)
	must(t, s.Fill(b.Ptr, 1, b.Size/4))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	dst := make([]byte, b.Size)
	wantErr(t, "CopyOut", s.CopyOut(ended, dst, b.Ptr), context.Canceled)
	for name, err := range map[string]error{"Stream.Sync": s.Sync(ended), "Device.Sync": dev.Sync(ended)} {
		if err != nil { // nil if the work was done already
			wantErr(t, name, err, context.Canceled)
		}
	}
	must(t, s.Sync(t.Context()))
	equal(t, "the stream's work", read(t, s, b.Ptr, b.Size), bytes.Repeat([]byte{1, 0, 0, 0}, b.Size/4))
}

func testConcurrentStreams(t *testing.T, dev device.Device) {
	var wg sync.WaitGroup
	for g := range 8 {
		s, b := stream(t, dev), buffer(t, dev, 3<<20)
		wg.Go(func() { churn(t, s, b.Ptr, b.Size, uint64(g)) })
	}
	wg.Wait()
}

func testSharedStream(t *testing.T, dev device.Device) {
	const n = 2<<20 + 1
	s := stream(t, dev)
	b := buffer(t, dev, 8*n)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() { churn(t, s, b.Ptr+device.Ptr(g*n), n, uint64(g)) })
	}
	wg.Wait()
	must(t, dev.Sync(t.Context()))
}

// churn copies random sizes to [p,p+n) and back.
func churn(t *testing.T, s *device.Stream, p device.Ptr, n int, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	src, dst := noise(n, seed), make([]byte, n)
	for range 20 {
		size := 1 + r.IntN(n)
		if r.IntN(2) == 0 {
			size = 1 + size%5000
		}
		at := device.Ptr(r.IntN(n - size + 1))
		if err := s.CopyIn(p+at, src[:size]); err != nil {
			t.Errorf("CopyIn: %v", err)
			return
		}
		if err := s.CopyOut(t.Context(), dst[:size], p+at); err != nil {
			t.Errorf("CopyOut: %v", err)
			return
		}
		equal(t, "round trip beside others", dst[:size], src[:size])
	}
}

func testClosed(t *testing.T, dev device.Device) {
	s, err := dev.NewStream()
	must(t, err)
	e, err := dev.NewEvent()
	must(t, err)
	other := event(t, dev)
	s2 := stream(t, dev)
	b, err := dev.Alloc(100)
	must(t, err)
	data := make([]byte, 100)

	must(t, e.Close())
	must(t, e.Close())
	wantErr(t, "Event.Sync", e.Sync(t.Context()), device.ErrClosed)
	wantErr(t, "Record of a closed event", s.Record(e), device.ErrClosed)
	wantErr(t, "Wait for a closed event", s.Wait(e), device.ErrClosed)
	_, err = e.Since(other)
	wantErr(t, "Since of a closed event", err, device.ErrClosed)
	_, err = other.Since(e)
	wantErr(t, "Since a closed event", err, device.ErrClosed)

	must(t, s.Fill(b.Ptr, 1, 25))
	must(t, s.Close())
	must(t, s.Close())
	wantErr(t, "CopyIn", s.CopyIn(b.Ptr, data), device.ErrClosed)
	wantErr(t, "CopyOut", s.CopyOut(t.Context(), data, b.Ptr), device.ErrClosed)
	wantErr(t, "Copy", s.Copy(b.Ptr, b.Ptr+50, 50), device.ErrClosed)
	wantErr(t, "Fill", s.Fill(b.Ptr, 1, 1), device.ErrClosed)
	wantErr(t, "Stream.Sync", s.Sync(t.Context()), device.ErrClosed)
	wantErr(t, "Record", s.Record(other), device.ErrClosed)
	wantErr(t, "Wait", s.Wait(other), device.ErrClosed)
	equal(t, "the closed stream's work", read(t, s2, b.Ptr, 4), []byte{1, 0, 0, 0})

	must(t, s2.Close())
	must(t, other.Close())
	must(t, dev.Free(b))
	must(t, dev.Close())
	must(t, dev.Close())
	_, err = dev.Memory()
	wantErr(t, "Memory", err, device.ErrClosed)
	_, err = dev.Alloc(1)
	wantErr(t, "Alloc", err, device.ErrClosed)
	_, err = dev.AllocHost(1)
	wantErr(t, "AllocHost", err, device.ErrClosed)
	_, err = dev.Register(data)
	wantErr(t, "Register", err, device.ErrClosed)
	_, err = dev.NewStream()
	wantErr(t, "NewStream", err, device.ErrClosed)
	_, err = dev.NewEvent()
	wantErr(t, "NewEvent", err, device.ErrClosed)
	wantErr(t, "Unload", dev.Unload(&device.Image{}), device.ErrClosed)
	_, _, err = dev.Map(aligned(device.MapAlign))
	wantErr(t, "Map", err, device.ErrClosed)
	_, err = dev.Reserve(1)
	wantErr(t, "Reserve", err, device.ErrClosed)
	wantErr(t, "Device.Sync", dev.Sync(t.Context()), device.ErrClosed)
}
