package sim

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/weftgo/weft/device"
)

// Copies of one stream may use the same host memory one after another, in both directions.
func TestCopiesShareHostMemory(t *testing.T) {
	weakly(t, 5, func(t *testing.T, opts *Options) {
		st := newStage(t, opts, 1)
		s, at := st.streams[0], st.words.Ptr()
		h, err := st.dev.AllocHost(256)
		st.must(err)
		copy(h, bytes.Repeat([]byte{7}, 256))
		st.must(s.CopyInAsync(at, h))
		st.must(s.CopyOutAsync(h[:128], at+64))
		st.must(s.CopyInAsync(at+512, h))
		st.must(s.Fill(at, 0x05050505, 64))
		st.must(s.CopyOutAsync(h, at))
		st.must(s.CopyInAsync(at+1024, h))
		st.must(s.Sync(t.Context()))
		for at, want := range map[device.Ptr]byte{at + 512: 7, at + 1024: 5} {
			st.must(s.CopyOut(t.Context(), h, at))
			if !bytes.Equal(h, bytes.Repeat([]byte{want}, 256)) {
				t.Errorf("%d, want %d", h, want)
			}
		}
		st.must(st.dev.FreeHost(h))
	})
}

// Without an order between two copies, one copy changes the memory that the other reads.
func TestCopiesShareHostMemoryUnordered(t *testing.T) {
	st := newStage(t, &Options{Scheduler: Random}, 2)
	h, err := st.dev.AllocHost(256)
	st.must(err)
	st.must(st.streams[0].CopyInAsync(st.words.Ptr(), h))
	st.must(st.streams[1].CopyOutAsync(h, st.words.Ptr()+512))
	if err := st.dev.Sync(t.Context()); err == nil {
		t.Error("not noticed")
	}
}

// The simulator does not take two adjacent numbers in a kernel's parameters for an address.
func TestNumbersAreNoAddress(t *testing.T) {
	d, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(1024)
	if err != nil {
		t.Fatal(err)
	}
	for high := range uint64(4096) {
		if s, _ := d.heap.find(high<<32|8, 1); s != nil {
			t.Errorf("8 and %d look like an address of %#x", high, uint64(b.Ptr))
		}
	}
}

// While Close waits, other goroutines may close the stream or the device.
func TestConcurrentStreamClose(t *testing.T) {
	for seed := range uint64(50) {
		d, err := Open(&Options{Scheduler: Random, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		b, err := d.Alloc(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if err := s.Fill(b.Ptr, 1, 1<<10); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				s.Close()
				if seed%2 == 1 {
					d.Close()
					return
				}
				n, err := d.NewStream() // which may get the index of s
				if err == nil {
					_, err = d.Alloc(64)
				}
				if err == nil {
					err = n.Fill(b.Ptr, 2, 1)
				}
				if err == nil {
					err = n.Sync(context.Background())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// An event that is recorded but never waited for does not keep the history of memory alive.
func TestRecordsKeepNoHistory(t *testing.T) {
	st := newStage(t, &Options{Scheduler: Random}, 2)
	e, err := st.dev.NewEvent()
	st.must(err)
	st.must(st.streams[1].Record(e))
	st.launch(0, "publish")
	st.must(st.streams[0].Sync(t.Context()))
	if n := st.dev.(*Device).views.threads; n != 0 {
		t.Errorf("the views of %d threads are kept", n)
	}
}

// A block of memory does not keep the host memory alive that was copied to it.
func TestCopiesOfTheHostAreDropped(t *testing.T) {
	st := newStage(t, nil, 1)
	st.must(st.streams[0].CopyIn(st.words.Ptr(), make([]byte, 4096)))
	st.must(st.streams[0].Sync(t.Context()))
	if w := st.streams[0].Driver().(*stream).latest; w.transfer.host != nil {
		t.Errorf("%d bytes are kept", len(w.transfer.host))
	}
}
