package sim

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

// on makes the words of a stage lie in buffer b.
func (s *stage) on(b device.Buffer) {
	s.t.Helper()
	words, err := device.Wrap[uint64](s.dev, b, b.Size/8)
	s.must(err)
	s.words = words
}

// onMapping makes the words of a stage lie in mapped host memory.
func (s *stage) onMapping() (host []byte, unmap func() error) {
	s.t.Helper()
	host, err := s.dev.AllocHost(8 * stageWords)
	s.must(err)
	b, unmap, err := s.dev.Map(host)
	s.must(err)
	s.on(b)
	return host, unmap
}

// onRange makes the words of a stage lie in the mapped part of a range.
func (s *stage) onRange(size int) device.Range {
	s.t.Helper()
	r, err := s.dev.Reserve(1 << 20)
	s.must(err)
	s.must(r.Resize(size))
	s.on(r.Buffer())
	return r
}

// pending submits work that no caller waits for, so that the history of other writes is kept.
func (s *stage) pending() {
	s.t.Helper()
	s.launch(1, "store_2")
}

// A launch sees the host's earlier writes to mapped memory, even if other works are unfinished.
func TestHostWritesMappedMemory(t *testing.T) {
	weakly(t, 20, func(t *testing.T, opts *Options) {
		opts.Races = opts.Seed%2 == 0
		s := newStage(t, opts, 2)
		s.pending()
		host, unmap := s.onMapping()
		for i := range byte(3) {
			s.launch(0, "store_x")
			s.launch(0, "load_x")
			s.must(s.streams[0].Sync(t.Context()))
			if host[0] != 1 || host[512] != 1 {
				t.Fatalf("seed %d: the host sees %d and %d of a kernel's 1", opts.Seed, host[0], host[512])
			}
			host[0] = 7 + i
			s.launch(0, "load_x")
			s.must(s.streams[0].Sync(t.Context()))
			if host[512] != 7+i {
				t.Fatalf("seed %d: a kernel sees %d of the host's %d", opts.Seed, host[512], 7+i)
			}
		}
		s.must(unmap())
	})
}

// Two unordered launches race in mapped memory as in any other memory, even if the host waits for a
// third launch between them.
func TestRacesInMappedMemory(t *testing.T) {
	weakly(t, 20, func(t *testing.T, opts *Options) {
		opts.Races = true
		s := newStage(t, opts, 3)
		words := s.words
		_, unmap := s.onMapping()
		mapping := s.words
		s.launch(0, "weak_x")
		s.words = words
		s.launch(2, "slow")
		s.must(s.streams[2].Sync(t.Context()))
		s.words = mapping
		s.launch(1, "weakly_x")
		if err := s.dev.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "data race") {
			t.Errorf("seed %d: %v, want a data race", opts.Seed, err)
		}
		s.must(unmap())
	})
}

// A range can grow during work. It keeps the history of its memory.
func TestRangeGrowsBesideWork(t *testing.T) {
	every(t, func(t *testing.T, opts *Options) {
		s := newStage(t, opts, 2)
		s.pending()
		r := s.onRange(1024)
		s.must(s.streams[0].Fill(r.Ptr(), 0, 256))
		s.launch(0, "store_x")
		for size := 2048; size <= 16384; size *= 2 {
			s.must(r.Resize(size))
			half := device.Buffer{Ptr: r.Ptr() + device.Ptr(size/2), Size: size / 2}
			s.must(s.streams[0].Fill(half.Ptr, 0, size/8))
			s.on(half)
			s.launch(0, "store_x")
			s.launch(0, "load_x")
			s.must(s.streams[0].Sync(t.Context()))
		}
		s.on(r.Buffer())
		s.launch(0, "load_x")
		if got := s.word(8); got != 1 {
			t.Fatalf("seed %d: x is %d after growing", opts.Seed, got)
		}
		s.must(r.Free())
	})
}

// A shorter history has no cells beyond its end.
func TestHistoryResize(t *testing.T) {
	h := make(history, 3)
	for p := range h {
		h[p] = make([]*cell, cellPage)
		for i := range h[p] {
			h[p][i] = &cell{}
		}
	}
	const page = cellPage * cellBytes
	for _, size := range []int{3*page - 256, 2*page + 256, 2 * page, page + 512, 256, 0} {
		first := h.at(0)
		h = h.resize(size)
		if size > 0 && (h.at(0) != first || h.at(uint64(size-cellBytes)) == nil) {
			t.Errorf("%d bytes have lost a cell", size)
		}
		if h.at(uint64(size)) != nil {
			t.Errorf("%d bytes know of one more", size)
		}
		if grown := h.resize(3 * page); grown.at(uint64(size)) != nil || grown.at(3*page-cellBytes) != nil {
			t.Errorf("grown again from %d bytes, a history knows what it had forgotten", size)
		}
	}
}

func TestFaultsOfMappings(t *testing.T) {
	image := func(s *stage) *device.Image {
		for img := range s.dev.(*Device).modules {
			return img
		}
		return nil
	}
	for _, test := range []struct {
		name string
		run  func(s *stage) error
		says string
	}{
		{"beyond what is mapped", func(s *stage) error {
			s.onRange(65536)
			s.launch(0, "wild")
			return s.dev.Sync(s.t.Context())
		}, "byte 65536 of a range with 65536 bytes mapped"},
		{"beyond what is left", func(s *stage) error {
			r := s.onRange(65536)
			s.must(r.Resize(0))
			s.launch(0, "store_x")
			return s.dev.Sync(s.t.Context())
		}, "byte 0 of a range with 0 bytes mapped"},
		{"memory that has never been written", func(s *stage) error {
			s.onRange(4096)
			s.launch(0, "load_x")
			return s.dev.Sync(s.t.Context())
		}, "never written"},
		{"memory that was forgotten", func(s *stage) error {
			r := s.onRange(4096)
			s.must(s.streams[0].Fill(r.Ptr(), 1, 1024))
			s.must(r.Resize(0))
			s.must(r.Resize(4096))
			s.launch(0, "load_x")
			return s.dev.Sync(s.t.Context())
		}, "never written"},
		{"a range that was freed", func(s *stage) error {
			s.must(s.onRange(4096).Free())
			s.launch(0, "store_x")
			return s.dev.Sync(s.t.Context())
		}, "byte 0 of a range with 4096 bytes mapped that was freed"},
		{"unmapped too early", func(s *stage) error {
			_, unmap := s.onMapping()
			s.launch(0, "store_x")
			return unmap()
		}, "a mapping of 32768 bytes at"},
		{"unmapped while it is copied", func(s *stage) error {
			host, unmap := s.onMapping()
			b, err := s.dev.Alloc(len(host))
			s.must(err)
			s.must(s.streams[0].CopyInAsync(b.Ptr, host))
			return unmap()
		}, "an asynchronous copy may still use"},
		{"what was unmapped", func(s *stage) error {
			_, unmap := s.onMapping()
			s.launch(0, "store_x")
			s.must(s.dev.Sync(s.t.Context()))
			s.must(unmap())
			s.launch(0, "store_x")
			return s.dev.Sync(s.t.Context())
		}, "byte 0 of a mapping of 32768 bytes that was freed"},
		{"unloaded too early", func(s *stage) error {
			s.launch(0, "store_x")
			return s.dev.Unload(image(s))
		}, "stage_sm80.ptx is unloaded, but a launch of its kernels is not done"},
	} {
		t.Run(test.name, func(t *testing.T) {
			every(t, func(t *testing.T, opts *Options) {
				s := newStage(t, opts, 1)
				err := test.run(s)
				f, ok := errors.AsType[*Fault](err)
				if !ok || !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%v (%+v), want a fault and %q", err, f, test.says)
				}
			})
		})
	}
}

// Mapped parts of ranges count against the memory of the device. Mapped host memory does not.
func TestMemoryOfMappings(t *testing.T) {
	s := newStage(t, nil, 1)
	used := func() uint64 {
		m, err := s.dev.Memory()
		s.must(err)
		return m.Total - m.Free
	}
	before := used()
	check := func(what string, want uint64) {
		t.Helper()
		if got := used() - before; got != want {
			t.Errorf("%s takes %d bytes, want %d", what, got, want)
		}
	}
	host, unmap := s.onMapping()
	check("a mapping", 0)
	s.must(errors.Join(unmap(), unmap(), s.dev.FreeHost(host)))
	check("after unmapping", 0)
	r := s.onRange(1000)
	check("a range", 1024)
	s.must(r.Resize(1))
	check("a smaller range", rangeStep)
	s.must(errors.Join(r.Free(), r.Free()))
	check("after freeing", 0)
	if _, err := s.dev.Alloc(1); err != nil {
		t.Error(err)
	}
}

// Unloading an image frees its variables.
func TestUnloadFreesVariables(t *testing.T) {
	d, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	src := strings.Replace(ptx(""), ".visible .entry", ".global .align 8 .b8 table[4096];\n.visible .entry", 1)
	img := &device.Image{Name: "variables", Targets: []device.Target{{Arch: 80, PTX: src}}}
	for range 2 {
		if _, err := d.Load(img); err != nil {
			t.Fatal(err)
		}
		if d.heap.used != 4096 {
			t.Errorf("loaded, %d bytes are in use", d.heap.used)
		}
		if err := d.Unload(img); err != nil {
			t.Fatal(err)
		}
		if d.heap.used != 0 {
			t.Errorf("unloaded, %d bytes are in use", d.heap.used)
		}
	}
}
