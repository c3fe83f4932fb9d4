package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

// stage is a device for tests of several streams. It has words of memory, named kernels, and
// numbered streams.
type stage struct {
	t       *testing.T
	dev     device.Device
	mod     device.Module
	words   device.Slice[uint64]
	streams []*device.Stream
	events  []*device.Event
}

// stageKernels are the kernels of the tests. The words are x, y, z and so on, 64 bytes apart. A
// kernel stores the values that it loads in the words from 8 on, or from 10 on.
var stageKernels = map[string]string{
	"store_x":  "st.relaxed.gpu.global.u64 [%rd1], 1;",
	"store_2":  "st.relaxed.gpu.global.u64 [%rd1], 2;",
	"weak_x":   "st.global.u64 [%rd1], 1;",
	"store_xy": "st.relaxed.gpu.global.u64 [%rd1], 1; st.relaxed.gpu.global.u64 [%rd1+64], 1;",
	"publish":  "st.global.u64 [%rd1], 1; st.release.gpu.global.u64 [%rd1+64], 1;",
	"set_z_y":  "st.relaxed.gpu.global.u64 [%rd1+128], 1; st.relaxed.gpu.global.u64 [%rd1+64], 1;",
	"load_x":   "ld.relaxed.gpu.global.u64 %rd10, [%rd1]; st.global.u64 [%rd1+512], %rd10;",
	"weakly_x": "ld.global.u64 %rd10, [%rd1]; st.global.u64 [%rd1+512], %rd10;",
	"load_yx":  "ld.relaxed.gpu.global.u64 %rd10, [%rd1+64]; ld.relaxed.gpu.global.u64 %rd11, [%rd1]; st.global.u64 [%rd1+512], %rd10; st.global.u64 [%rd1+576], %rd11;",
	"acquire":  "ld.acquire.gpu.global.u64 %rd10, [%rd1+64]; setp.eq.u64 %p1, %rd10, 0; @%p1 bra OUT; ld.global.u64 %rd11, [%rd1]; st.global.u64 [%rd1+512], %rd11; OUT:",
	"load_x2":  "ld.relaxed.gpu.global.u64 %rd10, [%rd1]; st.global.u64 [%rd1+640], %rd10;",
	"set_y":    "st.relaxed.gpu.global.u64 [%rd1+64], 1; SPIN: ld.relaxed.gpu.global.u64 %rd10, [%rd1+128]; setp.eq.u64 %p1, %rd10, 0; @%p1 bra SPIN;",
	"await_y":  "SPIN: ld.relaxed.gpu.global.u64 %rd10, [%rd1+64]; setp.eq.u64 %p1, %rd10, 0; @%p1 bra SPIN; st.relaxed.gpu.global.u64 [%rd1+128], 1;",
	"nc_x":     "ld.global.nc.u64 %rd10, [%rd1]; st.global.u64 [%rd1+512], %rd10;",
	"add_x":    "atom.relaxed.gpu.global.add.u64 %rd10, [%rd1], 1;",
	"many":     "mul.wide.u32 %rd3, %r1, 8; add.u64 %rd3, %rd3, %rd1; ld.relaxed.gpu.global.u64 %rd10, [%rd3]; st.relaxed.gpu.global.u64 [%rd3+2048], %rd10;",
	"wild":     "ld.global.u64 %rd10, [%rd1+65536];",
	"nothing":  "",
	"slow":     "mov.u32 %r20, 0; LOOP: ld.relaxed.gpu.global.u64 %rd10, [%rd1]; add.u32 %r20, %r20, 1; setp.lt.u32 %p1, %r20, 200; @%p1 bra LOOP;",
}

const stageWords = 4096

func newStage(t *testing.T, opts *Options, streams int) *stage {
	t.Helper()
	d, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	return stageOn(t, d, streams)
}

func stageOn(t *testing.T, d device.Device, streams int) *stage {
	t.Helper()
	s := &stage{t: t, dev: d}
	var src strings.Builder
	src.WriteString(".version 8.5\n.target sm_90\n.address_size 64\n")
	for _, name := range slices.Sorted(maps.Keys(stageKernels)) {
		_, k, _ := strings.Cut(ptx(stageKernels[name]), ".address_size 64")
		src.WriteString(strings.Replace(k, ".entry k(", ".entry "+name+"(", 1))
	}
	var err error
	if s.mod, err = d.Load(&device.Image{Name: "stage", Targets: []device.Target{{Arch: 80, PTX: src.String()}}}); err != nil {
		t.Fatal(err)
	}
	for range streams {
		x, err := d.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		e, err := d.NewEvent()
		if err != nil {
			t.Fatal(err)
		}
		s.streams, s.events = append(s.streams, x), append(s.events, e)
	}
	if s.words, err = device.Upload(s.streams[0], make([]uint64, stageWords)); err != nil {
		t.Fatal(err)
	}
	s.must(d.Sync(t.Context()))
	return s
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// launch submits a kernel with one thread, or with the given number of threads.
func (s *stage) launch(stream int, kernel string, threads ...int) {
	s.t.Helper()
	k, err := s.mod.Kernel(kernel)
	s.must(err)
	p := [2]device.Ptr{s.words.Ptr(), 0}
	block := device.Dim{X: 1}
	if len(threads) > 0 {
		block.X = threads[0]
	}
	s.must(device.Launch(s.streams[stream], k, device.Dim{}, block, &p))
}

// edge orders earlier work of one stream before later work of another stream.
func (s *stage) edge(from, to int) {
	s.t.Helper()
	s.must(s.streams[from].Record(s.events[from]))
	s.must(s.streams[to].Wait(s.events[from]))
}

// word reads a word after all work is done.
func (s *stage) word(i int) uint64 {
	s.t.Helper()
	s.must(s.dev.Sync(s.t.Context()))
	var v [1]uint64
	s.must(s.streams[0].CopyOut(s.t.Context(), device.Bytes(v[:]), s.words.Ptr()+device.Ptr(64*i)))
	return v[0]
}

// weakly runs a test under many schedules in weak memory.
func weakly(t *testing.T, seeds uint64, f func(t *testing.T, opts *Options)) {
	t.Helper()
	for _, how := range []Scheduler{Random, PCT} {
		for seed := range seeds {
			f(t, &Options{Scheduler: how, Seed: seed})
		}
	}
}

// Unordered accesses of two launches, or of a launch and a copy, are data races unless both are
// strong. The message names both accesses.
func TestRacesOfStreams(t *testing.T) {
	bytes64 := make([]byte, 64)
	tests := []struct {
		name   string
		submit func(s *stage)
		want   string // "": no race
	}{
		{"weak store, load", func(s *stage) { s.launch(0, "weak_x"); s.launch(1, "load_x") }, "of launch "},
		{"strong store, weak load", func(s *stage) { s.launch(0, "store_x"); s.launch(1, "weakly_x") }, "of launch "},
		{"strong store, strong load", func(s *stage) { s.launch(0, "store_x"); s.launch(1, "load_x") }, ""},
		{"same stream", func(s *stage) { s.launch(0, "weak_x"); s.launch(0, "weakly_x") }, ""},
		{"event", func(s *stage) { s.launch(0, "weak_x"); s.edge(0, 1); s.launch(1, "weakly_x") }, ""},
		{"read, event, write", func(s *stage) { s.launch(0, "weakly_x"); s.edge(0, 1); s.launch(1, "weak_x") }, ""},
		{"read, write", func(s *stage) { s.launch(0, "weakly_x"); s.launch(1, "store_x") }, "of launch "},
		{"published", func(s *stage) { s.launch(0, "publish"); s.launch(1, "acquire") }, ""},
		{"launch, fill", func(s *stage) {
			s.launch(0, "load_x")
			s.must(s.streams[1].Fill(s.words.Ptr(), 1, 2))
		}, "of launch "},
		{"fill, launch", func(s *stage) {
			s.must(s.streams[1].Fill(s.words.Ptr(), 1, 2))
			s.launch(0, "load_x")
		}, "fill of 8 bytes"},
		{"fill, event, launch", func(s *stage) {
			s.must(s.streams[1].Fill(s.words.Ptr(), 1, 2))
			s.edge(1, 0)
			s.launch(0, "weakly_x")
		}, ""},
		{"fill of other bytes", func(s *stage) {
			s.must(s.streams[1].Fill(s.words.Ptr()+8, 1, 2))
			s.launch(0, "weakly_x")
		}, ""},
		{"copy in, launch", func(s *stage) {
			s.must(s.streams[1].CopyIn(s.words.Ptr(), bytes64))
			s.launch(0, "load_x")
		}, "copy of 64 bytes from the host"},
		{"launch, copy out", func(s *stage) {
			s.launch(0, "store_x")
			_ = s.streams[1].CopyOut(s.t.Context(), bytes64, s.words.Ptr()) // Sync returns it, too
		}, "copy of 64 bytes"},
		{"reading launch, copy out", func(s *stage) {
			s.launch(0, "weakly_x")
			s.must(s.streams[1].CopyOut(s.t.Context(), bytes64, s.words.Ptr()))
		}, ""},
		{"copy within, copy within", func(s *stage) {
			s.must(s.streams[0].Copy(s.words.Ptr()+1024, s.words.Ptr(), 64))
			s.must(s.streams[1].Copy(s.words.Ptr(), s.words.Ptr()+2048, 64))
		}, "copy of 64 bytes"},
		{"two copies from one place", func(s *stage) {
			s.must(s.streams[0].Copy(s.words.Ptr()+1024, s.words.Ptr(), 64))
			s.must(s.streams[1].Copy(s.words.Ptr()+2048, s.words.Ptr(), 64))
		}, ""},
		{"waited for another stream only", func(s *stage) {
			s.launch(0, "weak_x")
			s.launch(2, "nothing")
			s.must(s.streams[2].Sync(s.t.Context()))
			s.launch(1, "weakly_x")
		}, "of launch "},
		{"read-only path beside a store", func(s *stage) { s.launch(0, "store_x"); s.launch(1, "nc_x") }, "read-only path"},
		{"read-only path behind a store", func(s *stage) { s.launch(0, "store_x"); s.launch(0, "nc_x") }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found, other := 0, error(nil)
			weakly(t, 60, func(t *testing.T, opts *Options) {
				opts.Races = true
				s := newStage(t, opts, 3)
				test.submit(&stage{t: t, dev: s.dev, mod: s.mod, words: s.words, streams: s.streams, events: s.events})
				err := s.dev.Sync(t.Context())
				if err == nil {
					return
				}
				var f *Fault
				switch {
				case test.want == "" || !errors.As(err, &f):
					t.Fatalf("%s, seed %d: %v", opts.Scheduler, opts.Seed, err)
				case strings.Contains(err.Error(), test.want):
					found++
				default:
					other = err
				}
			})
			if test.want != "" && found == 0 {
				t.Errorf("nothing says %q; %v", test.want, other)
			}
		})
	}
}

// A kernel may see a part of a copy that is not ordered with the kernel.
func TestCopiesGoInPieces(t *testing.T) {
	parts, whole := 0, 0
	weakly(t, 60, func(t *testing.T, opts *Options) {
		s := newStage(t, opts, 2)
		s.must(s.streams[0].CopyIn(s.words.Ptr(), bytes.Repeat([]byte{1}, 2048)))
		s.launch(1, "many", 256)
		s.must(s.dev.Sync(t.Context()))
		got := make([]byte, 2048)
		s.must(s.streams[0].CopyOut(t.Context(), got, s.words.Ptr()+2048))
		if n := bytes.Count(got, []byte{1}); n == 0 || n == 2048 {
			whole++
		} else {
			parts++
		}
	})
	if parts == 0 || whole == 0 {
		t.Errorf("a part of a copy was seen %d times, all or nothing %d times", parts, whole)
	}
}

// Launches of different streams run concurrently and can wait for each other. In one stream the
// first launch would wait forever. The fault names both launches.
func TestLaunchesThatWaitForEachOther(t *testing.T) {
	weakly(t, 20, func(t *testing.T, opts *Options) {
		s := newStage(t, opts, 2)
		s.launch(0, "set_y")
		s.launch(1, "await_y")
		if got := s.word(2); got != 1 {
			t.Fatalf("word 2 is %d", got)
		}
	})
	for _, how := range []Scheduler{Fast, Random, PCT} {
		s := newStage(t, &Options{Scheduler: how, Budget: 20_000}, 2)
		s.launch(0, "set_y")
		s.launch(0, "await_y")
		err := s.dev.Sync(t.Context())
		var f *Fault
		if !errors.As(err, &f) || f.Kernel != "set_y" || !strings.Contains(err.Error(), "kernel await_y") || !strings.Contains(err.Error(), "queued after it") {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// Under Fast, works run in the order of submission.
func TestFastKeepsTheOrderOfSubmission(t *testing.T) {
	s := newStage(t, nil, 2)
	s.launch(0, "store_x")
	s.launch(1, "load_x")
	s.launch(0, "store_2")
	if got := [2]uint64{s.word(8), s.word(0)}; got != [2]uint64{1, 2} {
		t.Errorf("words 8 and 0 are %d", got)
	}
}

// A call of the host that comes too early is a fault that names the work.
func TestFaultsOfTheHost(t *testing.T) {
	tests := []struct {
		name string
		run  func(s *stage) error
		want string // "": no fault
	}{
		{"free while a launch is queued", func(s *stage) error {
			s.launch(0, "store_x")
			return s.words.Free()
		}, "is freed, but the host has not waited for all work that uses it: launch 0, kernel store_x"},
		{"free when it was waited for", func(s *stage) error {
			s.launch(0, "store_x")
			s.must(s.streams[0].Sync(s.t.Context()))
			return s.words.Free()
		}, ""},
		{"free when another stream was waited for", func(s *stage) error {
			s.launch(0, "store_x")
			s.launch(1, "nothing")
			s.must(s.streams[1].Sync(s.t.Context()))
			return s.words.Free()
		}, "is freed"},
		{"free behind an event that was waited for", func(s *stage) error {
			s.launch(0, "store_x")
			s.edge(0, 1)
			s.must(s.streams[1].Sync(s.t.Context()))
			return s.words.Free()
		}, ""},
		{"free while a copy is queued", func(s *stage) error {
			s.must(s.streams[0].CopyIn(s.words.Ptr(), make([]byte, 8)))
			return s.words.Free()
		}, "copy of 8 bytes from the host"},
		{"an event is closed that a stream waits for", func(s *stage) error {
			s.launch(0, "slow")
			s.edge(0, 1)
			return s.events[0].Close()
		}, "an event was closed while queued work may still need it: wait for an event, stream 1"},
		{"an event is closed that is not reached", func(s *stage) error {
			s.must(s.streams[0].Record(s.events[0]))
			return s.events[0].Close()
		}, "recording of an event"},
		{"an event is closed that was waited for", func(s *stage) error {
			s.launch(0, "slow")
			s.must(s.streams[0].Record(s.events[0]))
			s.must(s.events[0].Sync(s.t.Context()))
			return s.events[0].Close()
		}, ""},
		{"a stream drains when it is closed", func(s *stage) error {
			s.launch(1, "store_x")
			s.must(s.streams[1].Close())
			return s.words.Free()
		}, ""},
		{"host memory is changed", func(s *stage) error {
			b, err := s.dev.AllocHost(64)
			s.must(err)
			s.must(s.streams[0].CopyInAsync(s.words.Ptr(), b))
			b[9] = 1
			return s.streams[0].Sync(s.t.Context())
		}, "host memory changed while an asynchronous copy still reads it: copy of 64 bytes"},
		{"host memory is changed when the copy is done", func(s *stage) error {
			b, err := s.dev.AllocHost(64)
			s.must(err)
			s.must(s.streams[0].CopyInAsync(s.words.Ptr(), b))
			s.must(s.streams[0].Sync(s.t.Context()))
			b[9] = 1
			return s.dev.FreeHost(b)
		}, ""},
		{"host memory is freed", func(s *stage) error {
			b, err := s.dev.AllocHost(64)
			s.must(err)
			s.must(s.streams[0].CopyOutAsync(b, s.words.Ptr()))
			return s.dev.FreeHost(b)
		}, "host memory was freed or unregistered"},
		{"host memory is unregistered", func(s *stage) error {
			undo, err := s.dev.Register(make([]byte, 64))
			s.must(err)
			b := make([]byte, 64)
			undo2, err := s.dev.Register(b)
			s.must(err)
			s.must(s.streams[0].CopyInAsync(s.words.Ptr(), b[8:16]))
			return errors.Join(undo(), undo2())
		}, "host memory was freed or unregistered"},
		{"a source that CopyIn was given is changed", func(s *stage) error {
			b := []byte{1, 0, 0, 0, 0, 0, 0, 0}
			s.must(s.streams[0].CopyIn(s.words.Ptr(), b))
			b[0] = 9
			if got := s.word(0); got != 1 {
				return fmt.Errorf("word 0 is %d", got)
			}
			return nil
		}, ""},
		{"a target is read too early", func(s *stage) error {
			b, err := s.dev.AllocHost(8)
			s.must(err)
			s.must(s.streams[0].CopyOutAsync(b, s.words.Ptr()))
			if early := bytes.Clone(b); !bytes.Equal(early, bytes.Repeat([]byte{unfilled}, 8)) {
				return fmt.Errorf("early: %x", early)
			}
			s.must(s.streams[0].Sync(s.t.Context()))
			if !bytes.Equal(b, make([]byte, 8)) {
				return fmt.Errorf("in the end: %x", b)
			}
			return nil
		}, ""},
		{"another launch fails", func(s *stage) error {
			s.launch(0, "wild")
			s.must(s.streams[0].Record(s.events[0]))
			return s.events[0].Sync(s.t.Context())
		}, "kernel wild"},
	}
	for _, test := range tests {
		for _, how := range []Scheduler{Fast, Random, PCT} {
			s := newStage(t, &Options{Scheduler: how, Seed: 1}, 2)
			err := test.run(s)
			if test.want == "" {
				if err != nil {
					t.Errorf("%s, %s: %v", test.name, how, err)
				}
				continue
			}
			if !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s, %s: %v, want one that says %q", test.name, how, err, test.want)
			}
			if _, again := s.dev.Alloc(1); !errors.Is(again, device.ErrLost) {
				t.Errorf("%s, %s: the device goes on: %v", test.name, how, again)
			}
		}
	}
}

// If a context ends, the wait stops between two steps. The work stays queued for a later wait.
func TestContextEndsBetweenSteps(t *testing.T) {
	for _, how := range []Scheduler{Random, PCT} {
		stopped := 0
		for limit := range 60 {
			s := newStage(t, &Options{Scheduler: how, Seed: 3}, 2)
			s.launch(0, "store_x")
			s.launch(0, "slow")
			dst := []byte{5, 5, 5, 5, 5, 5, 5, 5}
			err := s.streams[0].CopyOut(&countdown{t.Context(), limit}, dst, s.words.Ptr())
			if err != nil {
				stopped++
				if !errors.Is(err, context.Canceled) || dst[0] != 5 {
					t.Fatalf("%s: %v, %d", how, err, dst[0])
				}
			}
			if got := s.word(0); got != 1 {
				t.Fatalf("%s: the work is gone: %d", how, got)
			}
			if dst[0] != 5 && err != nil {
				t.Fatalf("%s: a copy that was given up came in later", how)
			}
		}
		if stopped == 0 {
			t.Errorf("%s: no wait was stopped", how)
		}
	}
}

// countdown is a context that ends after a number of calls of Err.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A replay of overlapping streams is identical. A run with another seed is not.
func TestReplayOfStreams(t *testing.T) {
	for _, how := range []Scheduler{Fast, Random, PCT} {
		trace := func(seed uint64) string {
			file := filepath.Join(t.TempDir(), "trace")
			s := newStage(t, &Options{Scheduler: how, Seed: seed, Trace: file}, 3)
			s.launch(0, "slow", 40)
			s.must(s.streams[1].CopyIn(s.words.Ptr()+4096, make([]byte, 4096)))
			s.launch(1, "add_x", 64)
			s.edge(1, 2)
			s.launch(2, "load_x")
			s.must(s.streams[2].Sync(t.Context()))
			s.launch(2, "many", 64)
			s.must(s.dev.Sync(t.Context()))
			s.must(s.dev.Close())
			text, err := os.ReadFile(file)
			s.must(err)
			return string(text)
		}
		one := trace(7)
		if again := trace(7); again != one {
			t.Errorf("%s: two traces of one seed differ", how)
		}
		if other := strings.ReplaceAll(trace(8), "seed 8", "seed 7"); (other == one) != (how == Fast) {
			t.Errorf("%s: another seed has the same trace: %v", how, other == one)
		}
		overlaps := false
		for seed := range uint64(20) {
			overlaps = overlaps || strings.Contains(trace(seed), "goes on")
		}
		if overlaps != (how != Fast) {
			t.Errorf("%s: launches overlap: %v", how, overlaps)
		}
	}
}

// A stream is not ordered with a stream that was closed before it was opened.
func TestStreamsComeAndGo(t *testing.T) {
	weakly(t, 10, func(t *testing.T, opts *Options) {
		opts.Races = true
		s := newStage(t, opts, 2)
		for range 20 {
			s.launch(1, "add_x")
			s.launch(0, "slow")
			s.must(s.streams[1].Close())
			x, err := s.dev.NewStream()
			s.must(err)
			s.streams[1] = x
		}
		if got := s.word(0); got != 20 || len(s.dev.(*Device).streams) != 2 {
			t.Fatalf("word 0 is %d, with %d streams", got, len(s.dev.(*Device).streams))
		}
	})
}

// Queues of streams are bounded. A submission beyond the bound waits.
func TestQueuesAreBounded(t *testing.T) {
	s := newStage(t, nil, 1)
	for range maxQueued + 100 {
		s.launch(0, "add_x")
	}
	if n := s.dev.(*Device).queued; n > maxQueued {
		t.Errorf("%d works are queued", n)
	}
	if got := s.word(0); got != maxQueued+100 {
		t.Errorf("word 0 is %d", got)
	}
}
