package gpu_test

import (
	"context"
	"errors"
	"slices"
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

func open(t *testing.T) (*gpubatch.Queue, device.Device) {
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
	q := new(gpubatch.Queue)
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
	for n, want := range map[int]int{1: 1, gpubatch.BlockThreads: 1, gpubatch.BlockThreads + 1: 2} {
		if got := gpubatch.Grid(n).X; got != want {
			t.Errorf("a grid of %d items has %d blocks, want %d", n, got, want)
		}
		if got := gpubatch.Wave(dev, n).X; got != want {
			t.Errorf("a wave of %d items has %d blocks, want %d", n, got, want)
		}
	}
	if got, most := gpubatch.Wave(dev, 1<<30).X, dev.Properties().Units*2048/gpubatch.BlockThreads; got != most {
		t.Errorf("a wave of many items has %d blocks, want %d", got, most)
	}
	if got := gpubatch.Wave(dev, 0).X; got != 1 {
		t.Errorf("a wave of no items has %d blocks", got)
	}
}

func TestWords(t *testing.T) {
	q, _ := open(t)
	ctx := t.Context()
	for w := range gpubatch.WordLongest + 2 {
		if v, err := q.Read(ctx, w); v != 0 || err != nil {
			t.Errorf("word %d is %d at first, %v", w, v, err)
		}
		if err := q.Set(q.Stream, w, uint32(w)+7); err != nil {
			t.Fatal(err)
		}
	}
	for w := range gpubatch.WordLongest + 2 {
		if v, err := q.Read(ctx, w); v != uint32(w)+7 || err != nil {
			t.Errorf("word %d is %d, %v", w, v, err)
		}
	}
	for _, want := range []int{gpubatch.WordLost + 7, 0} {
		if n, err := q.Lost(ctx); n != want || err != nil {
			t.Errorf("%d lost, want %d: %v", n, want, err)
		}
	}
}

// The memory for an ordered batch, as kernels see it.
func TestOrder(t *testing.T) {
	q, dev := open(t)
	keys, err := device.Make[uint32](dev, 300)
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Free()
	if err := q.Reserve(300, 0); err != nil {
		t.Fatal(err)
	}
	b := &batch.Batch{N: 300, Kind: weft.OpDelete, Flags: batch.Order, Keys: batch.On(keys)}
	deferred, ok, err := q.Defer(q.Stream, b)
	if err != nil || ok == 0 || deferred.Items == 0 || deferred.Count != q.Word(gpubatch.WordDeferred) {
		t.Fatalf("%+v, %d, %v", deferred, ok, err)
	}
	rank := q.Ranks(b, deferred)
	if rank.N != 300 || rank.Kind != uint32(weft.OpDelete) || rank.Keys != keys.Ptr() || rank.Mask < 2*300-1 || rank.Mask&(rank.Mask+1) != 0 {
		t.Errorf("%+v", rank)
	}
	ranks := make([]uint32, rank.Mask+1)
	if err := q.Stream.CopyOut(t.Context(), device.Bytes(ranks), rank.Ranks); err != nil || slices.Max(ranks) != 0 {
		t.Errorf("ranks begin with up to %d: %v", slices.Max(ranks), err)
	}
	// Puts need no flags; unordered and mixed batches defer nothing.
	for _, b := range []*batch.Batch{
		{N: 1, Kind: weft.OpDelete},
		{N: 1, Kinds: batch.Column{Ptr: 1}, Flags: batch.Order},
	} {
		if deferred, ok, err := q.Defer(q.Stream, b); deferred != (gpubatch.List{}) || ok != 0 || err != nil {
			t.Errorf("%+v: %+v, %d, %v", b, deferred, ok, err)
		}
	}
	if _, ok, err := q.Defer(q.Stream, &batch.Batch{N: 1, Kind: weft.OpPut, Flags: batch.Order}); ok != 0 || err != nil {
		t.Errorf("Put: %d, %v", ok, err)
	}
	if size := unsafe.Sizeof(rank); size != 48 {
		t.Errorf("%d bytes of parameters", size)
	}
}

// fails runs a change of n operations that fails every third, and returns what
// is reported and what should be.
func fails(t *testing.T, q *gpubatch.Queue, n int) (failed, want []uint32) {
	t.Helper()
	keys, vals := make([]uint32, n), make([]uint32, n)
	b := &batch.Batch{N: n, Kind: weft.OpPut, Flags: batch.Order, Keys: batch.Host(keys), Vals: batch.Host(vals)}
	done, failed, err := q.Change(t.Context(), b, func(s *device.Stream, part *batch.Batch, list gpubatch.List, first int) error {
		for i := part.N - 1; i >= 0; i-- { // in an order of the threads' own
			if (first+i)%3 == 0 {
				if err := s.Fill(list.Items+device.Ptr(4*len(want)), uint32(first+i), 1); err != nil {
					return err
				}
				want = append(want, uint32(first+i))
			}
		}
		return s.Fill(list.Count, uint32(len(want)), 1)
	})
	if done != n || err != nil {
		t.Fatalf("%d of %d changes done: %v", done, n, err)
	}
	slices.Sort(want)
	return failed, want
}

func TestChangeReportsFailures(t *testing.T) {
	q, _ := open(t)
	for _, n := range []int{0, 1, 2, 100, 1000} {
		if failed, want := fails(t, q, n); !slices.Equal(failed, want) {
			t.Errorf("%d operations: failed are %v, want %v", n, failed, want)
		}
	}
}

func TestGetCarriesColumns(t *testing.T) {
	q, _ := open(t)
	keys, vals, found := []uint32{1, 2, 3}, make([]uint32, 3), make([]bool, 3)
	b := &batch.Batch{N: 3, Load: .25, Keys: batch.Host(keys), Vals: batch.Host(vals), OK: batch.Host(found)}
	hits, err := q.Get(t.Context(), b, func(s *device.Stream, part *batch.Batch, hits device.Ptr) error {
		if part.N != 3 || part.Load != .25 {
			t.Errorf("%+v", part)
		}
		return errors.Join(s.Copy(part.Vals.Ptr, part.Keys.Ptr, 12), s.Fill(part.OK.Ptr, 0x00010001, 1), s.Fill(hits, 2, 1))
	})
	if hits != 2 || err != nil || !slices.Equal(vals, keys) || !slices.Equal(found, []bool{true, false, true}) {
		t.Errorf("%d, %v, %v, %v", hits, err, vals, found)
	}
	n, err := q.Present(t.Context(), q.Stream, func(hits device.Ptr) error { return q.Stream.Fill(hits, 5, 1) })
	if n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Get(ctx, &batch.Batch{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("an empty batch after its context ended: %v", err)
	}
}

// Carriers are kept for later calls, as many as were out at once.
func TestCarriersAreKept(t *testing.T) {
	q, _ := open(t)
	a, err := q.Take()
	if err != nil {
		t.Fatal(err)
	}
	b, err := q.Take()
	if err != nil || a == b {
		t.Fatal("one carrier for two", err)
	}
	q.Give(a)
	if c, err := q.Take(); c != a || err != nil {
		t.Error("a carrier was forgotten", err)
	}
	q.Give(a)
	q.Give(b)
}

// Whatever fails, nothing stays behind and a queue that was opened works on.
func TestEveryOperationFailsOnce(t *testing.T) {
	s, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dev := devicetest.Checked(t, s)
	before := devicetest.Live(dev)
	for n := 0; ; n++ {
		q := new(gpubatch.Queue)
		fired := devicetest.FailAfter(dev, n)
		err := q.Open(dev, widths)
		if err == nil {
			if err = q.Reserve(1000, 1000); err == nil {
				err = q.Reserve(2000, 2000)
			}
			if err != nil {
				if err := q.Reserve(2000, 2000); err != nil {
					t.Errorf("operation %d failed once, and Reserve for good: %v", n, err)
				}
			}
		}
		if fired() != (err != nil) || err != nil && !errors.Is(err, device.ErrMemory) {
			t.Errorf("operation %d failed: %v, %v", n, fired(), err)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		if now := devicetest.Live(dev); now != before {
			t.Errorf("operation %d failed and left %+v, before %+v", n, now, before)
		}
		if !fired() {
			devicetest.Heal(dev)
			break
		}
	}
}
