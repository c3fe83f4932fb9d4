package devicetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
)

// aligned allocates host memory that can be mapped. It shares its first and last pages with no
// other memory, because a GPU locks whole pages.
func aligned(size int) []byte {
	const page = 64 << 10 // the largest page size
	b := make([]byte, size+2*page)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (page - 1)
	return b[skip:][:size:size]
}

// mapped maps host memory until the end of the test.
func mapped(t testing.TB, dev device.Device, host []byte) (device.Buffer, func() error) {
	t.Helper()
	b, unmap, err := dev.Map(host)
	must(t, err)
	t.Cleanup(func() {
		if err := unmap(); err != nil {
			t.Errorf("unmapping: %v", err)
		}
	})
	return b, unmap
}

func testMap(t *testing.T, dev device.Device) {
	const n = 3<<20 + 8
	allocated, err := dev.AllocHost(n)
	must(t, err)
	t.Cleanup(func() { must(t, dev.FreeHost(allocated)) })
	for name, host := range map[string][]byte{"memory of the caller": aligned(n), "memory of AllocHost": allocated, "a part of it": allocated[device.MapAlign*3:][:1000]} {
		t.Run(name, func(t *testing.T) {
			s := stream(t, dev)
			before := noise(len(host), 1)
			copy(host, before)
			for range 2 { // the second time after an unmap
				b, unmap := mapped(t, dev, host)
				checkMapped(t, dev, s, b, host)
				must(t, unmap())
				must(t, unmap())
			}
		})
	}
}

// checkMapped checks that device and host access the same memory.
func checkMapped(t *testing.T, dev device.Device, s *device.Stream, b device.Buffer, host []byte) {
	t.Helper()
	if b.Size != len(host) || b.Ptr == 0 || b.Ptr%device.MapAlign != 0 {
		t.Fatalf("%d bytes are mapped as %d at %#x", len(host), b.Size, uint64(b.Ptr))
	}
	if _, ok := dev.(device.Host); ok && (len(b.Host) != len(host) || &b.Host[0] != &host[0]) || !ok && b.Host != nil {
		t.Errorf("the buffer shows %d bytes to the host", len(b.Host))
	}
	if !dev.Pinned(host) || !dev.Pinned(host[8:16]) {
		t.Error("mapped memory is not pinned")
	}
	equal(t, "what was there before", read(t, s, b.Ptr, b.Size), host)
	news := noise(len(host), 2)
	must(t, s.CopyIn(b.Ptr, news))
	must(t, s.Sync(t.Context()))
	equal(t, "what the device wrote", host, news)
	host[0], host[len(host)-1] = ^host[0], ^host[len(host)-1]
	equal(t, "what the host wrote", read(t, s, b.Ptr, b.Size), host)

	d := buffer(t, dev, len(host))
	must(t, s.Fill(b.Ptr+8, 0x01010101, 2))
	must(t, s.Copy(d.Ptr, b.Ptr, b.Size)) // from mapped to device memory
	must(t, s.Copy(b.Ptr+24, d.Ptr, 16))  // and back
	must(t, s.Sync(t.Context()))
	equal(t, "filled", host[8:16], bytes.Repeat([]byte{1}, 8))
	equal(t, "copied back", host[24:40], host[:16])

	// The memory is page-locked, so asynchronous copies accept its host address.
	must(t, s.CopyInAsync(d.Ptr, host))
	must(t, s.Sync(t.Context()))
	must(t, s.CopyOutAsync(host[:8], d.Ptr+8))
	must(t, s.Sync(t.Context()))
	equal(t, "an asynchronous round trip", host[:8], host[8:16])
}

func testMapRefuses(t *testing.T, dev device.Device) {
	const n = 1 << 20
	host := aligned(4 * n)
	refused := func(name string, b []byte) {
		t.Helper()
		_, _, err := dev.Map(b)
		wantErr(t, "Map of "+name, err, device.ErrInvalid)
	}
	refused("nothing", nil)
	refused("an empty slice", host[:0])
	refused("a place that is not aligned", host[8:][:n])
	refused("an odd length", host[:n+4])

	_, unmap := mapped(t, dev, host[n:][:2*n])
	refused("what is mapped", host[n:][:2*n])
	refused("a part of it", host[2*n:][:256])
	refused("its end and more", host[2*n:])
	refused("more than it", host)
	_, err := dev.Register(host[2*n:])
	wantErr(t, "Register of what is mapped", err, device.ErrInvalid)
	adjacent, _ := mapped(t, dev, host[3*n:])
	must(t, unmap())
	whole, _ := mapped(t, dev, host[:3*n])
	if adjacent.Ptr == whole.Ptr {
		t.Error("two mappings have one address")
	}

	other := aligned(n)
	unregister, err := dev.Register(other)
	must(t, err)
	refused("what is registered", other)
	must(t, unregister())
	mapped(t, dev, other)

	allocated, err := dev.AllocHost(2 * n)
	must(t, err)
	_, unmap = mapped(t, dev, allocated[n:])
	refused("what is mapped of AllocHost", allocated)
	wantErr(t, "FreeHost of what is mapped", dev.FreeHost(allocated), device.ErrInvalid)
	must(t, unmap())
	must(t, dev.FreeHost(allocated))
}

func testMapKernel(t *testing.T, dev device.Device) {
	if _, runsGo := dev.(device.Host); runsGo {
		return
	}
	_, add := loadAdd(t, dev, addImage())
	const n = 1002 // not a multiple of a block, nor of a warp
	host := aligned(4 * n)
	b, _ := mapped(t, dev, host)
	s, d := stream(t, dev), buffer(t, dev, 4*n)
	must(t, s.Fill(d.Ptr, 5, n))
	for i := range n {
		binary.LittleEndian.PutUint32(host[4*i:], uint32(i))
	}
	must(t, launchAdd(s, add, b.Ptr, d.Ptr, b.Ptr, n))
	must(t, s.Sync(t.Context()))
	for i := range n {
		if got := binary.LittleEndian.Uint32(host[4*i:]); got != uint32(i)+5 {
			t.Fatalf("the kernel left %d in element %d, want %d", got, i, i+5)
		}
		binary.LittleEndian.PutUint32(host[4*i:], 7)
	}
	must(t, launchAdd(s, add, b.Ptr, d.Ptr, d.Ptr, n))
	equal(t, "what a later launch made of the host's writes", read(t, s, d.Ptr, 4*n), bytes.Repeat([]byte{12, 0, 0, 0}, n))
}

// reserve reserves addresses until the end of the test, or skips the test if the device cannot.
func reserve(t testing.TB, dev device.Device, size int) device.Range {
	t.Helper()
	r, err := dev.Reserve(size)
	if errors.Is(err, device.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() {
		for range 2 {
			if err := r.Free(); err != nil {
				t.Errorf("freeing a range: %v", err)
			}
		}
	})
	return r
}

// checkRange checks the values that a range reports after a Resize to n bytes.
func checkRange(t testing.TB, dev device.Device, r device.Range, n int) {
	t.Helper()
	got, b := r.Mapped(), r.Buffer()
	if got < n || got > 2*n+2<<20 || n == 0 && got != 0 {
		t.Errorf("%d bytes are mapped for %d", got, n)
	}
	if b.Ptr != r.Ptr() || b.Size != got || b.Ptr == 0 || b.Ptr%256 != 0 {
		t.Errorf("%d bytes mapped at %#x are a buffer of %d at %#x", got, uint64(r.Ptr()), b.Size, uint64(b.Ptr))
	}
	if _, isHost := dev.(device.Host); isHost && len(b.Host) != got || !isHost && b.Host != nil {
		t.Errorf("%d bytes mapped: %d are seen by the host", got, len(b.Host))
	}
}

// rangeSizes is a sequence of sizes that grow and shrink, by small and large steps.
var rangeSizes = []int{
	1, 256, 4097, 2<<20 - 1, 2 << 20, 2<<20 + 1, 5 << 20, 17<<20 + 3, 17<<20 + 4, 9 << 20, 8 << 20, 33 << 20,
	3 << 20, 3 << 20, 1, 0, 0, 24 << 20, 5 << 20, 24 << 20, 24<<20 - 1,
}

func testRange(t *testing.T, dev device.Device) {
	s := stream(t, dev)
	r := reserve(t, dev, slices.Max(rangeSizes))
	checkRange(t, dev, r, 0)
	at := r.Ptr()
	all := noise(slices.Max(rangeSizes), 11)
	written := 0 // length of the prefix of all that the range holds
	for _, n := range rangeSizes {
		must(t, r.Resize(n))
		checkRange(t, dev, r, n)
		if r.Ptr() != at {
			t.Fatalf("the range moved from %#x to %#x", uint64(at), uint64(r.Ptr()))
		}
		if written = min(written, n); written > 0 {
			equal(t, "what Resize keeps", read(t, s, at, written), all[:written])
		}
		if n > written {
			must(t, s.CopyIn(at+device.Ptr(written), all[written:n]))
		}
		if written = n; n > 0 {
			// The last mapped byte is accessible.
			must(t, s.CopyOut(t.Context(), make([]byte, 1), at+device.Ptr(r.Mapped()-1)))
		}
	}
	equal(t, "what is there in the end", read(t, s, at, written), all[:written])
	if host := r.Buffer().Host; host != nil {
		equal(t, "what the host sees", host[:written], all[:written])
	}
	// The pieces form one block of memory: these operations span all of it.
	must(t, s.Copy(at, at+12<<20+12345, 10<<20))
	must(t, s.Fill(at+10<<20, 0x04030201, 3<<20))
	equal(t, "copied", read(t, s, at, 10<<20), all[12<<20+12345:][:10<<20])
	equal(t, "filled", read(t, s, at+10<<20, 12<<20), bytes.Repeat([]byte{1, 2, 3, 4}, 3<<20))
	must(t, r.Free())
	if b := r.Buffer(); r.Mapped() != 0 || b.Size != 0 || len(b.Host) != 0 {
		t.Errorf("after Free %d bytes are mapped", r.Mapped())
	}
	wantErr(t, "Resize of a freed range", r.Resize(1), device.ErrClosed)
}

// testRangeDuringWork checks that work on bytes that stay mapped continues while a range grows, and
// that shrinking and freeing wait for work on bytes that are unmapped.
func testRangeDuringWork(t *testing.T, dev device.Device) {
	const n = 4 << 20
	s, other, b := stream(t, dev), stream(t, dev), buffer(t, dev, 4*n)
	r := reserve(t, dev, 16*n)
	must(t, r.Resize(n))
	for i := 1; i <= 4; i *= 2 {
		must(t, s.Fill(r.Ptr(), uint32(i), i*n/4))
		must(t, r.Resize(2*i*n)) // while the fill runs
		must(t, s.Fill(r.Ptr()+device.Ptr(i*n), uint32(i), i*n/4))
	}
	got := read(t, s, r.Ptr(), 8*n)
	equal(t, "filled before and after growing", got, bytes.Repeat([]byte{4, 0, 0, 0}, 2*n))

	for range 5 {
		must(t, r.Resize(8*n))
		must(t, s.Fill(r.Ptr()+7*n, 9, n/4))
		must(t, other.Copy(b.Ptr, r.Ptr()+4*n, 4*n))
		must(t, r.Resize(n))
	}
	must(t, s.Sync(t.Context()))
	equal(t, "what stayed", read(t, s, r.Ptr(), n), got[:n])
	must(t, s.Fill(r.Ptr(), 1, n/4))
	must(t, r.Free())
	must(t, s.Sync(t.Context()))
}

func testRangeRefuses(t *testing.T, dev device.Device) {
	for _, size := range []int{0, -1, math.MinInt} {
		_, err := dev.Reserve(size)
		wantErr(t, "Reserve of no addresses", err, device.ErrInvalid)
	}
	const n = 8 << 20
	r := reserve(t, dev, n)
	for _, size := range []int{1 << 55, math.MaxInt} {
		_, err := dev.Reserve(size)
		wantErr(t, "Reserve of more addresses than there are", err, device.ErrMemory)
	}
	must(t, r.Resize(n)) // a failure has no effect
	for _, size := range []int{-1, math.MinInt, n + 2<<20, math.MaxInt} {
		wantErr(t, "Resize out of bounds", r.Resize(size), device.ErrInvalid)
	}
	checkRange(t, dev, r, n)

	m, err := dev.Memory()
	must(t, err)
	if m.Total == 0 {
		t.Skip("the device does not tell how much memory it has")
	}
	s := stream(t, dev)
	huge := reserve(t, dev, int(2*m.Total))
	src := noise(n, 7)
	must(t, huge.Resize(n))
	must(t, s.CopyIn(huge.Ptr(), src))
	before := huge.Mapped()
	wantErr(t, "Resize to more than there is", huge.Resize(int(2*m.Total)), device.ErrMemory)
	if huge.Mapped() != before {
		t.Errorf("the failure left %d bytes mapped of %d", huge.Mapped(), before)
	}
	equal(t, "what was there before the failure", read(t, s, huge.Ptr(), n), src)
	must(t, huge.Resize(2*n))
	equal(t, "and after growing", read(t, s, huge.Ptr(), n), src)
}

func testWrap(t *testing.T, dev device.Device) {
	s, b := stream(t, dev), buffer(t, dev, 8000)
	d, err := device.Wrap[uint64](dev, b, 1000)
	must(t, err)
	src := make([]uint64, 1000)
	for i := range src {
		src[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	must(t, d.CopyFrom(s, src))
	if _, isHost := dev.(device.Host); d.Ptr() != b.Ptr || d.Device() != dev || d.Len() != 1000 || isHost != (d.Host() != nil) {
		t.Errorf("wrapped %d elements at %#x, host view %d", d.Len(), uint64(d.Ptr()), len(d.Host()))
	}
	got := make([]uint64, 10)
	must(t, d.Sub(500, 510).CopyTo(t.Context(), s, got))
	if !slices.Equal(got, src[500:510]) {
		t.Errorf("a part of a wrapped slice is %v", got)
	}
	must(t, d.Free()) // does nothing
	equal(t, "the buffer", read(t, s, b.Ptr, 8), []byte{0, 0, 0, 0, 0, 0, 0, 0})

	host := aligned(1024)
	m, _ := mapped(t, dev, host)
	w, err := device.Wrap[uint32](dev, m, 256)
	must(t, err)
	must(t, s.Fill(w.Ptr(), 3, w.Len()))
	must(t, s.Sync(t.Context()))
	equal(t, "mapped memory, wrapped", host, bytes.Repeat([]byte{3, 0, 0, 0}, 256))

	_, err = device.Wrap[uint64](dev, b, 1001)
	wantErr(t, "Wrap of too many elements", err, device.ErrInvalid)
	_, err = device.Wrap[uint64](dev, device.Buffer{Ptr: b.Ptr + 4, Size: 800, Host: b.Host}, 10)
	wantErr(t, "Wrap at an odd address", err, device.ErrInvalid)
	r := reserve(t, dev, 1<<20)
	must(t, r.Resize(4000))
	u, err := device.Wrap[uint32](dev, r.Buffer(), 1000)
	must(t, err)
	must(t, u.CopyFrom(s, make([]uint32, 1000)))
}
