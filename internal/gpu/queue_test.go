package gpu_test

import (
	"context"
	"errors"
	"github.com/weftgo/weft/internal/op"
	"testing"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
)

var widths = batch.MapWidths[uint32, uint32]()

func open(t *testing.T) (*gpu.Queue, device.Device) {
	t.Helper()
	s, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	dev := devicetest.Checked(t, s)
	q := new(gpu.Queue)
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := q.Open(dev, widths); err != nil {
		t.Fatal(err)
	}
	return q, dev
}

func TestLaunchShapes(t *testing.T) {
	_, dev := open(t)
	for n, want := range map[int]int{1: 1, gpu.BlockThreads: 1, gpu.BlockThreads + 1: 2} {
		if got := gpu.Grid(n).X; got != want {
			t.Errorf("a grid of %d items has %d blocks, want %d", n, got, want)
		}
		if got := gpu.Wave(dev, n).X; got != want {
			t.Errorf("a wave of %d items has %d blocks, want %d", n, got, want)
		}
	}
	if got, most := gpu.Wave(dev, 1<<30).X, dev.Properties().Units*2048/gpu.BlockThreads; got != most {
		t.Errorf("a wave of many items has %d blocks, want %d", got, most)
	}
	if got := gpu.Wave(dev, 0).X; got != 1 {
		t.Errorf("a wave of no items has %d blocks", got)
	}
}

func TestWords(t *testing.T) {
	q, _ := open(t)
	ctx := t.Context()
	for w := range gpu.WordReport + 2 {
		if v, err := q.ReadWord(ctx, w); v != 0 || err != nil {
			t.Errorf("word %d is %d at first, %v", w, v, err)
		}
		if err := q.SetWord(q.Stream, w, uint32(w)+7); err != nil {
			t.Fatal(err)
		}
	}
	for w := range gpu.WordReport + 2 {
		if v, err := q.ReadWord(ctx, w); v != uint32(w)+7 || err != nil {
			t.Errorf("word %d is %d, %v", w, v, err)
		}
	}
	for _, want := range []int{gpu.WordDropped + 7, 0} {
		if n, err := q.ReadDropped(ctx); n != want || err != nil {
			t.Errorf("%d lost, want %d: %v", n, want, err)
		}
	}
}

// Kernels get valid memory for an ordered batch.
func TestOrder(t *testing.T) {
	q, dev := open(t)
	keys, err := device.Make[uint32](dev, 300)
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Free()
	x, err := q.AcquireScratch(t.Context(), 300)
	if err != nil || x.Ops < 300 {
		t.Fatal(x, err)
	}
	defer q.ReleaseScratch(x)
	b := &batch.Batch{N: 300, Kind: op.Delete, Flags: batch.Order, Columns: batch.Columns{batch.Keys: batch.InputOn(keys)}}
	contended, ok, err := q.Contend(q.Stream, b, x)
	if err != nil || ok == 0 || contended.Items == 0 || contended.Count != q.Word(gpu.WordContended) {
		t.Fatalf("%+v, %d, %v", contended, ok, err)
	}
	contest := x.Contest(b, contended)
	if contest.N != 300 || contest.Kind != uint32(weft.OpDelete) || contest.Keys != keys.Ptr() || contest.Mask < 2*300-1 || contest.Mask&(contest.Mask+1) != 0 {
		t.Errorf("%+v", contest)
	}
	// Puts need no flags; in unordered and mixed batches nothing contends.
	for _, b := range []*batch.Batch{
		{N: 1, Kind: op.Delete},
		{N: 1, Columns: batch.Columns{batch.Kinds: {Ptr: 1}}, Flags: batch.Order},
	} {
		if contended, ok, err := q.Contend(q.Stream, b, x); contended != (gpu.List{}) || ok != 0 || err != nil {
			t.Errorf("%+v: %+v, %d, %v", b, contended, ok, err)
		}
	}
	if _, ok, err := q.Contend(q.Stream, &batch.Batch{N: 1, Kind: op.Put, Flags: batch.Order}, x); ok != 0 || err != nil {
		t.Errorf("Put: %d, %v", ok, err)
	}
	if size := unsafe.Sizeof(contest); size != 48 {
		t.Errorf("%d bytes of parameters", size)
	}
}

// Whatever operation fails, no memory leaks and an open queue continues to work.
func TestEveryOperationFailsOnce(t *testing.T) {
	s, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dev := devicetest.Checked(t, s)
	before := devicetest.Live(dev)
	for n := 0; ; n++ {
		q := new(gpu.Queue)
		fired := devicetest.FailAfter(dev, n)
		err := q.Open(dev, widths)
		less := false // whether a smaller scratch was used for lack of memory
		if err == nil {
			if less, err = take(q); err != nil {
				if _, err := take(q); err != nil {
					t.Errorf("operation %d failed once, and memory for good: %v", n, err)
				}
			}
		}
		if fired() != (err != nil || less) || err != nil && !errors.Is(err, device.ErrMemory) {
			t.Errorf("operation %d failed: %v, %v", n, fired(), err)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		if now := devicetest.Live(dev); now != before {
			t.Errorf("operation %d failed and left %+v, before %+v", n, now, before)
		}
		if !fired() {
			devicetest.ClearFailures(dev)
			break
		}
	}
}

// take acquires and releases scratches and transfers. It reports whether a scratch was smaller than
// requested.
func take(q *gpu.Queue) (less bool, err error) {
	for _, n := range []int{1000, 2000} {
		x, err := q.AcquireScratch(context.Background(), n)
		if err != nil {
			return less, err
		}
		less = less || x.Ops < n
		q.ReleaseScratch(x)
		c, err := q.AcquireTransfer()
		if err != nil {
			return less, err
		}
		q.ReleaseTransfer(c)
	}
	return less, nil
}

// A change gets a smaller scratch if memory is short.
func TestScratchFitsMemory(t *testing.T) {
	dev := devicetest.OpenSim(t, &sim.Options{Memory: 1 << 20})
	q := openQueue(t, dev)
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	x, err := q.AcquireScratch(t.Context(), 1<<20)
	if err != nil || x.Ops < 1<<14 || x.Ops >= 1<<17 {
		t.Fatalf("%+v: %v", x, err)
	}
	q.ReleaseScratch(x)
}
