package cpu_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device"
)

func TestAllocAlignment(t *testing.T) {
	d := open(t, 1)
	for _, size := range []int{1, 255, 4096, 4097, 1 << 20, 2<<20 - 1, 2 << 20, 2<<20 + 1, 5 << 20} {
		b, err := d.Alloc(size)
		if err != nil {
			t.Fatalf("Alloc(%d): %v", size, err)
		}
		if len(b.Host) != size || cap(b.Host) != size || b.Size != size {
			t.Errorf("Alloc(%d): len %d, cap %d, Size %d", size, len(b.Host), cap(b.Host), b.Size)
		}
		if b.Ptr%256 != 0 {
			t.Errorf("Alloc(%d) at %#x: not a multiple of 256", size, b.Ptr)
		}
		b.Host[0], b.Host[size-1] = 1, 1 // mapped to its ends
		if err := d.Free(b); err != nil {
			t.Errorf("Free(%d): %v", size, err)
		}
	}
}

func TestAllocRefuses(t *testing.T) {
	d := open(t, 1)
	m, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		size int
		want error
	}{
		{"nothing", 0, device.ErrInvalid},
		{"less than nothing", -1, device.ErrInvalid},
		{"everything", math.MaxInt, device.ErrMemory},
		{"half the address space", math.MaxInt / 2, device.ErrMemory},
		{"more than the machine has", int(m.Total) + 1, device.ErrMemory},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if m.Total == 0 && c.want == device.ErrMemory {
				t.Skip("this system does not tell how much memory it has")
			}
			if _, err := d.Alloc(c.size); !errors.Is(err, c.want) {
				t.Errorf("Alloc(%d): %v", c.size, err)
			}
			if _, err := d.AllocHost(c.size); !errors.Is(err, c.want) {
				t.Errorf("AllocHost(%d): %v", c.size, err)
			}
		})
	}
}

// Blocks that were never written take no memory yet, but count against the machine's total.
func TestAllocCountsWhatItHolds(t *testing.T) {
	d := open(t, 1)
	m, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	if m.Total == 0 {
		t.Skip("this system does not tell how much memory it has")
	}
	size := int(m.Free * 3 / 4)
	first, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	var got uint64 = uint64(size)
	for err == nil && got <= 2*m.Total {
		_, err = d.Alloc(size)
		got += uint64(size)
	}
	if !errors.Is(err, device.ErrMemory) {
		t.Errorf("%d bytes of %d held, and then: %v", got, m.Total, err)
	}
	if err := d.Free(first); err != nil {
		t.Error(err)
	}
	if _, err := d.Alloc(size); err != nil {
		t.Errorf("after Free: %v", err)
	}
}

func TestFreeRefuses(t *testing.T) {
	d, other := open(t, 1), open(t, 1)
	b, _ := d.Alloc(1000)
	foreign, _ := other.Alloc(1000)
	h, _ := d.AllocHost(1000)
	bad := map[string]func() error{
		"zero buffer":          func() error { return d.Free(device.Buffer{}) },
		"inside of a buffer":   func() error { return d.Free(device.Buffer{Ptr: b.Ptr + 256, Size: 744}) },
		"wrong size":           func() error { return d.Free(device.Buffer{Ptr: b.Ptr, Size: 999}) },
		"another device's":     func() error { return d.Free(foreign) },
		"host memory":          func() error { return d.Free(device.Buffer{Ptr: b.Ptr + 1<<40, Size: 1000}) },
		"part of host memory":  func() error { return d.FreeHost(h[:999]) },
		"end of host memory":   func() error { return d.FreeHost(h[1:]) },
		"Go memory":            func() error { return d.FreeHost(make([]byte, 1000)) },
		"no memory":            func() error { return d.FreeHost(nil) },
		"buffer as host bytes": func() error { return d.FreeHost(b.Host) },
	}
	for name, free := range bad {
		if err := free(); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.Free(b); err != nil {
		t.Error(err)
	}
	if err := d.Free(b); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("freed twice: %v", err)
	}
	if err := d.FreeHost(h); err != nil {
		t.Error(err)
	}
}

func TestCopiesStayWithinBuffers(t *testing.T) {
	d := open(t, 2)
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := d.Alloc(1024)
	end := b.Ptr + 1024
	for name, op := range map[string]func() error{
		"CopyIn over the end":       func() error { return s.CopyIn(end-3, make([]byte, 4)) },
		"CopyIn before the start":   func() error { return s.CopyIn(b.Ptr-1, make([]byte, 4)) },
		"CopyIn to null":            func() error { return s.CopyIn(0, make([]byte, 4)) },
		"CopyOut over the end":      func() error { return s.CopyOut(t.Context(), make([]byte, 1025), b.Ptr) },
		"CopyInAsync to the end":    func() error { return s.CopyInAsync(end, make([]byte, 1)) },
		"CopyOutAsync off the end":  func() error { return s.CopyOutAsync(make([]byte, 2), end-1) },
		"Copy from outside":         func() error { return s.Copy(b.Ptr, end, 1) },
		"Copy to outside":           func() error { return s.Copy(end, b.Ptr, 1) },
		"Copy of a negative size":   func() error { return s.Copy(b.Ptr, b.Ptr, -1) },
		"Copy of everything":        func() error { return s.Copy(b.Ptr, b.Ptr, math.MaxInt) },
		"Fill over the end":         func() error { return s.Fill(end-4, 0, 2) },
		"Fill of an odd address":    func() error { return s.Fill(b.Ptr+2, 0, 1) },
		"Fill of a negative count":  func() error { return s.Fill(b.Ptr, 0, -1) },
		"Fill of everything":        func() error { return s.Fill(b.Ptr, 0, math.MaxInt) },
		"Fill of the address space": func() error { return s.Fill(b.Ptr, 0, math.MaxInt/4) },
	} {
		if err := op(); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.CopyIn(end-4, []byte{1, 2, 3, 4}); err != nil {
		t.Errorf("last bytes: %v", err)
	}
}

// Random allocations, frees and copies give the same contents as a model of Go slices.
func TestMemoryAgreesWithGoSlices(t *testing.T) {
	d := open(t, 2)
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	type block struct {
		buf   device.Buffer
		model []byte
	}
	rapid.Check(t, func(t *rapid.T) {
		var blocks []block
		defer func() {
			for _, b := range blocks {
				if err := d.Free(b.buf); err != nil {
					t.Fatal(err)
				}
			}
		}()
		pick := func() block { return blocks[rapid.IntRange(0, len(blocks)-1).Draw(t, "block")] }
		part := func(b block) (lo, hi int) {
			lo = rapid.IntRange(0, len(b.model)).Draw(t, "lo")
			return lo, rapid.IntRange(lo, len(b.model)).Draw(t, "hi")
		}
		grow := func(t *rapid.T) {
			size := rapid.IntRange(1, 4<<20).Draw(t, "size")
			buf, err := d.Alloc(size)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Fill(buf.Ptr, 0x01010101, size/4); err != nil {
				t.Fatal(err)
			}
			b := block{buf, make([]byte, size)}
			for i := range size / 4 * 4 {
				b.model[i] = 1
			}
			blocks = append(blocks, b)
		}
		grow(t)
		t.Repeat(map[string]func(*rapid.T){
			"grow": grow,
			"write": func(t *rapid.T) {
				b := pick()
				lo, hi := part(b)
				r := rand.New(rand.NewPCG(uint64(lo), uint64(hi)))
				for i := lo; i < hi; i++ {
					b.model[i] = byte(r.Uint32())
				}
				if err := s.CopyIn(b.buf.Ptr+device.Ptr(lo), b.model[lo:hi]); err != nil {
					t.Fatal(err)
				}
			},
			"copy": func(t *rapid.T) {
				from, to := pick(), pick()
				lo, hi := part(from)
				if hi-lo > len(to.model) {
					hi = lo + len(to.model)
				}
				at := rapid.IntRange(0, len(to.model)-(hi-lo)).Draw(t, "at")
				copy(to.model[at:], from.model[lo:hi])
				if err := s.Copy(to.buf.Ptr+device.Ptr(at), from.buf.Ptr+device.Ptr(lo), hi-lo); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				b := pick()
				got := make([]byte, len(b.model))
				if err := s.CopyOut(ctx, got, b.buf.Ptr); err != nil {
					t.Fatal(err)
				}
				if string(got) != string(b.model) {
					t.Fatal("device and model differ")
				}
			},
		})
	})
}

func TestEventsMeasureTime(t *testing.T) {
	d := open(t, 1)
	s, _ := d.NewStream()
	var events [3]*device.Event
	for i := range events {
		events[i], _ = d.NewEvent()
	}
	if err := events[2].Sync(t.Context()); err != nil {
		t.Errorf("Sync of an event never recorded: %v", err)
	}
	for _, e := range events[:2] {
		if err := s.Record(e); err != nil {
			t.Fatal(err)
		}
	}
	if dt, err := events[1].Since(events[0]); err != nil || dt < 0 {
		t.Errorf("Since = %v, %v", dt, err)
	}
	if _, err := events[2].Since(events[0]); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Since of an event never recorded: %v", err)
	}
	for range 2 {
		if err := events[0].Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Wait(events[0]); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Wait for a closed event: %v", err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Record(events[1]); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Record on a closed stream: %v", err)
	}
}

func TestAllocFromManyGoroutines(t *testing.T) {
	d := open(t, 2)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				b, err := d.Alloc(1 + g*i)
				if err != nil {
					t.Error(err)
					return
				}
				b.Host[0] = 1
				if err := d.Free(b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkAlloc(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"4KiB", 4 << 10}, {"64MiB", 64 << 20}} {
		b.Run(size.name, func(b *testing.B) {
			d := open(b, 1)
			for b.Loop() {
				buf, err := d.Alloc(size.bytes)
				if err != nil {
					b.Fatal(err)
				}
				if err := d.Free(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
