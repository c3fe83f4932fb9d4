package staging_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu/staging"
)

// The memory does not change with the batch, until it is closed.
func TestMemoryIsConstant(t *testing.T) {
	dev := devicetest.Open(t)
	m := staging.NewMemory(dev, 0)
	r := staging.New(dev, m)
	if live := devicetest.Live(dev).Bytes; live != 0 {
		t.Errorf("a new ring holds %d bytes", live)
	}
	sizes := map[int]int{}
	for _, n := range []int{8_000_000, 12_000_000, 1000, 8_000_000} {
		if done, err := newEcho(n, 8, 1).run(t.Context(), r, false); done != n || err != nil {
			t.Fatal(done, err)
		}
		sizes[devicetest.Live(dev).Bytes]++
	}
	if len(sizes) != 1 {
		t.Errorf("sizes of the ring, by how often: %v", sizes)
	}
	if err := errors.Join(r.Close(), m.Close()); err != nil {
		t.Fatal(err)
	}
	if live := devicetest.Live(dev); live != (devicetest.Counts{}) {
		t.Errorf("after Close there are %+v", live)
	}
	if err := r.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

// One call always fits, even if the limit is less than a row.
func TestOneCallAlwaysFits(t *testing.T) {
	dev := devicetest.Open(t)
	m := newMemory(t, dev, 1)
	r := ringOf(t, dev, m)
	for _, n := range []int{1, 1000, 300_000} {
		for _, inOrder := range []bool{false, true} {
			e := newEcho(n, 8, 1)
			if done, err := e.run(t.Context(), r, inOrder); done != n || err != nil {
				t.Fatalf("%d rows of %d: %v", done, n, err)
			}
			e.arrived(t, n)
		}
	}
	whole := make([]byte, 1<<20)
	b := &batch.Batch{N: len(whole), Columns: batch.Columns{batch.OK: batch.Output(whole)}}
	done, err := r.RunWhole(t.Context(), b, func(p *staging.Piece) error {
		return p.Stream.Fill(p.Batch.Columns[batch.OK].Ptr, 0x01010101, len(whole)/4)
	})
	if done != len(whole) || err != nil || whole[len(whole)-1] != 1 {
		t.Errorf("in one piece: %d, %v", done, err)
	}
	if host, own := m.Allocated(); host != 0 || own != 0 {
		t.Errorf("beyond the limit, %d and %d bytes stay taken", host, own)
	}
}

// With less memory pieces are smaller, and several are still in flight.
func TestPiecesShrink(t *testing.T) {
	dev := devicetest.Open(t)
	const n = 1 << 20
	last := 0
	for _, limit := range []int{64 << 20, 8 << 20, 2 << 20} {
		m := newMemory(t, dev, limit)
		e := newEcho(n, 8, 1)
		if done, err := e.run(t.Context(), ringOf(t, dev, m), false); done != n || err != nil {
			t.Fatal(done, err)
		}
		e.arrived(t, n)
		if host, own := m.Allocated(); host > limit || own > 2*limit || host == 0 {
			t.Errorf("with a limit of %d, %d and %d bytes are taken", limit, host, own)
		}
		if len(e.pieces) <= last {
			t.Errorf("with a limit of %d there are %d pieces, with more memory %d", limit, len(e.pieces), last)
		}
		last = len(e.pieces)
	}
}

// blocked starts a call that keeps its memory until letGo is called.
func blocked(t *testing.T, r *staging.Ring, n int) (letGo func()) {
	t.Helper()
	inside, leave, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	e := newEcho(n, 8, 1)
	e.fail = func(piece int) error {
		if piece == 0 {
			close(inside)
			<-leave
		}
		return nil
	}
	go func() {
		defer close(over)
		if done, err := e.run(context.Background(), r, true); done != n || err != nil {
			t.Errorf("%d rows of %d: %v", done, n, err)
		}
	}()
	select {
	case <-inside:
	case <-time.After(10 * time.Second):
		t.Fatal("it found no memory")
	}
	return func() {
		close(leave)
		<-over
	}
}

// A call that finds no memory waits, and returns when its context ends. The next call then
// continues.
func TestWaitsForMemory(t *testing.T) {
	dev := devicetest.Open(t)
	m := newMemory(t, dev, 1<<10)
	letGo := blocked(t, ringOf(t, dev, m), 100_000)
	e, waiting := newEcho(100_000, 8, 1), ringOf(t, dev, m)
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if done, err := e.run(ctx, waiting, false); done != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d rows, %v", done, err)
	}
	if waited := time.Since(start); waited < 20*time.Millisecond || waited > 5*time.Second {
		t.Errorf("it waited %v", waited)
	}
	var wg sync.WaitGroup
	for range 3 {
		r, e := ringOf(t, dev, m), newEcho(100_000, 8, 1)
		wg.Go(func() {
			if done, err := e.run(t.Context(), r, false); done != e.n || err != nil {
				t.Errorf("%d rows: %v", done, err)
			}
		})
	}
	time.Sleep(10 * time.Millisecond)
	letGo()
	wg.Wait()
}

// A call that could use all memory leaves half of the unused memory to the next call.
func TestLargeLeavesSome(t *testing.T) {
	dev := devicetest.Open(t)
	m := newMemory(t, dev, 8<<20)
	defer staging.Configure(dev, staging.Settings{Slots: 32})()
	for range 4 {
		defer blocked(t, ringOf(t, dev, m), 1_000_000)()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	e := newEcho(500_000, 8, 1)
	if done, err := e.run(ctx, ringOf(t, dev, m), false); done != e.n || err != nil {
		t.Errorf("%d rows: %v", done, err)
	}
	e.arrived(t, e.n)
}

// A small call overtakes a large one that waits.
func TestSmallPassesLarge(t *testing.T) {
	dev := devicetest.Open(t)
	m := newMemory(t, dev, 1<<20)
	inside, leave := make(chan struct{}, 2), make(chan struct{})
	var wg sync.WaitGroup
	for range 2 { // only one fits
		r := ringOf(t, dev, m)
		wg.Go(func() {
			b := &batch.Batch{N: 600 << 10, Columns: batch.Columns{batch.OK: batch.Output(make([]byte, 600<<10))}}
			_, err := r.RunWhole(t.Context(), b, func(p *staging.Piece) error {
				inside <- struct{}{}
				<-leave
				return p.Stream.Fill(p.Batch.Columns[batch.OK].Ptr, 0, 150<<10)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	<-inside
	time.Sleep(20 * time.Millisecond) // until the other one is in line
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	e := newEcho(10, 8, 1)
	if done, err := e.run(ctx, ringOf(t, dev, m), false); done != 10 || err != nil {
		t.Errorf("%d rows: %v", done, err)
	}
	e.arrived(t, 10)
	if len(inside) > 0 {
		t.Error("both large calls are under way")
	}
	close(leave)
	wg.Wait()
}

// If several resources are released at once, as many waiting calls continue.
func TestLine(t *testing.T) {
	var mu sync.Mutex
	var line staging.WaitQueue
	var wg sync.WaitGroup
	left := 0
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 3 {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			err := line.Wait(ctx, &mu, false, func() (bool, error) {
				if left == 0 {
					return false, nil
				}
				left--
				return true, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	mu.Lock()
	left = 3
	line.Wake()
	mu.Unlock()
	wg.Wait()
}

// Many calls share little memory: all end, none takes more than the limit, and contexts end calls
// that wait.
func TestManyCallsLittleMemory(t *testing.T) {
	dev := devicetest.Open(t)
	const limit = 16 << 10
	m := newMemory(t, dev, limit)
	t.Cleanup(staging.Configure(dev, staging.Settings{PieceBytes: 2 << 10}))
	var wg sync.WaitGroup
	for i := range 16 {
		r := ringOf(t, dev, m)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			for range 20 {
				share(t, r, rng)
				if host, own := m.Allocated(); host > limit || own > 2*limit {
					t.Errorf("%d and %d bytes are taken", host, own)
				}
			}
		})
	}
	wg.Wait()
}

// share runs a batch, which may be cancelled at any time.
func share(t *testing.T, r *staging.Ring, rng *rand.Rand) {
	ctx := t.Context()
	cancelled := rng.IntN(3) == 0
	if cancelled {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(2000))*time.Microsecond)
		defer cancel()
	}
	e := newEcho(1+rng.IntN(4000), 8, 1)
	done, err := e.run(ctx, r, rng.IntN(2) == 0)
	if err == nil && done != e.n || err != nil && (!cancelled || !errors.Is(err, context.DeadlineExceeded)) {
		t.Errorf("%d rows of %d: %v", done, e.n, err)
	}
	e.arrived(t, done)
}

// Rows of variable size arrive at their places, in pieces within the maximum size.
func TestVariableRows(t *testing.T) {
	dev := devicetest.Open(t)
	const n, most = 200, 64
	t.Cleanup(staging.Configure(dev, staging.Settings{PieceBytes: most, Slots: 3, Order: seeded(1)}))
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		offsets := []uint64{seed}
		for range n {
			offsets = append(offsets, offsets[len(offsets)-1]+uint64(rng.IntN(most/4+1)))
		}
		rows := int(offsets[n] - offsets[0])
		vals := make([]uint32, rows)
		if seed%2 == 1 {
			pinned, err := dev.AllocHost(4 * max(1, rows))
			if err != nil {
				t.Fatal(err)
			}
			defer dev.FreeHost(pinned)
			vals = batch.View[uint32](pinned)[:rows]
		}
		b := &batch.Batch{N: n, Columns: batch.Columns{batch.Keys: batch.Input(make([]uint32, n)), batch.Vals: batch.Output(vals), batch.Offsets: batch.OffsetsIn(offsets)}}
		b.Columns[batch.Vals].Offsets = offsets
		done, err := newRing(t, dev).Run(t.Context(), b, func(p *staging.Piece) error { return number(p, offsets, most) })
		if done != n || err != nil {
			t.Fatalf("%d of %d: %v", done, n, err)
		}
		for i, v := range vals {
			if v != uint32(i)+uint32(offsets[0]) {
				t.Fatalf("row %d of %d is %d", i, rows, v)
			}
		}
	}
}

// number writes its number to each variable row.
func number(p *staging.Piece, offsets []uint64, most int) error {
	vals := p.Batch.Columns[batch.Vals]
	lo, hi := offsets[p.Lo], offsets[p.Lo+p.Batch.N]
	if vals.Offsets[0] != lo || vals.Offsets[p.Batch.N] != hi {
		return fmt.Errorf("rows %v to %v, want %d to %d", vals.Offsets[0], vals.Offsets[p.Batch.N], lo, hi)
	}
	if size := vals.Bytes(0, p.Batch.N); size > most {
		return fmt.Errorf("a piece of %d bytes", size)
	}
	// The offsets of the piece are on the device, too.
	got := make([]uint64, p.Batch.N+1)
	if err := p.Stream.CopyOut(context.Background(), device.Bytes(got), p.Batch.Columns[batch.Offsets].Ptr); err != nil || got[0] != lo || got[p.Batch.N] != hi {
		return fmt.Errorf("offsets %v, want %d to %d: %w", got, lo, hi, err)
	}
	for row := lo; row < hi; row++ {
		if err := p.Stream.Fill(vals.Ptr+device.Ptr(4*(row-lo)), uint32(row), 1); err != nil {
			return err
		}
	}
	return nil
}
