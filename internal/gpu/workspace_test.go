package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"github.com/weftgo/weft/internal/op"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/gpu/staging"
)

func openQueue(t *testing.T, dev device.Device) *gpu.Queue {
	t.Helper()
	q := new(gpu.Queue)
	if err := q.Open(dev, widths); err != nil {
		t.Fatal(errors.Join(err, q.Close()))
	}
	return q
}

// Transfers are kept for later calls of any structure, and are freed with the last structure. Their
// number is the number that was acquired at once.
func TestWorkspaceIsShared(t *testing.T) {
	dev := simulated(t)
	before := devicetest.Live(dev)
	p, q := openQueue(t, dev), openQueue(t, dev)
	a, err := p.AcquireTransfer()
	if err != nil {
		t.Fatal(err)
	}
	b, err := q.AcquireTransfer()
	if err != nil || a == b {
		t.Fatal("one carrier for two", err)
	}
	p.ReleaseTransfer(a)
	if c, err := q.AcquireTransfer(); c != a || err != nil {
		t.Error("a carrier was forgotten", err)
	}
	q.ReleaseTransfer(a)
	q.ReleaseTransfer(b)
	x, err := p.AcquireScratch(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	p.ReleaseScratch(x)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if c, err := q.AcquireTransfer(); c != b || err != nil {
		t.Error("the carriers went with the first structure", err)
	}
	q.ReleaseTransfer(b)
	if y, err := q.AcquireScratch(t.Context(), 100); x != y || err != nil {
		t.Error("the scratch went with the first structure", err)
	}
	q.ReleaseScratch(x)
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if now := devicetest.Live(dev); now != before {
		t.Errorf("%+v are left, before %+v", now, before)
	}
}

// While memory suffices, changes of several structures have separate scratches. After that they get
// smaller scratches, and at last they wait until their contexts end.
func TestScratchIsBounded(t *testing.T) {
	dev := simulated(t)
	const ops, op = 1 << 17, 17
	gpu.Limit(dev, ops*op*7/4)
	defer gpu.Limit(dev, 0)
	q := openQueue(t, dev)
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	var all []*gpu.Scratch
	for _, want := range []int{ops, ops / 2} {
		x, err := q.AcquireScratch(t.Context(), ops)
		if err != nil || x.Ops != want {
			t.Fatalf("%+v, want %d operations: %v", x, want, err)
		}
		all = append(all, x)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if x, err := q.AcquireScratch(ctx, ops); x != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%+v, %v", x, err)
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			x, err := q.AcquireScratch(t.Context(), ops)
			if err != nil || !slices.Contains(all, x) {
				t.Errorf("%+v, %v", x, err)
				return
			}
			q.ReleaseScratch(x)
		})
	}
	time.Sleep(time.Millisecond)
	for _, x := range all {
		q.ReleaseScratch(x)
	}
	wg.Wait()
	// No scratch is freed to make another of its size.
	for i := range all {
		if x, err := q.AcquireScratch(t.Context(), ops); err != nil || x != all[i] {
			t.Errorf("%+v, want %+v: %v", x, all[i], err)
		}
	}
	for _, x := range all {
		q.ReleaseScratch(x)
	}
	// A larger one replaces those that are too small.
	gpu.Limit(dev, 2*ops*op)
	if x, err := q.AcquireScratch(t.Context(), 2*ops); err != nil || x.Ops != 2*ops {
		t.Errorf("%+v, %v", x, err)
	} else {
		q.ReleaseScratch(x)
	}
}

// Structures that share a scratch run one after another on the device, including lookups that use
// the scratch. The test fails if any wait for that is omitted.
func TestScratchOmissions(t *testing.T) {
	if err := shareScratch(func(dev device.Device) device.Device { return dev }); err != nil {
		t.Fatal(err)
	}
	calls, err := devicetest.ListCalls(".")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, c := range calls {
		if c.Func != "(*Queue).setUser" && c.Func != "(*Workspace).waitScratch" {
			continue
		}
		tried++
		if err := shareScratch(devicetest.Omit(c.Site).Wrap); err == nil {
			t.Errorf("%v: nothing notices that it is left out", c)
		}
	}
	if len(calls) > 0 && tried != 2 {
		t.Errorf("%d calls were left out", tried)
	}
}

// shareScratch makes changes of two structures, and a large key, use one scratch.
func shareScratch(wrap func(device.Device) device.Device) error {
	for seed := range uint64(20) {
		s, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed})
		if err != nil {
			return err
		}
		if err := sharing(wrap(s), seed); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// sharer is a structure that writes its mark to the scratch and reads it back.
type sharer struct {
	plain
	e    *gpu.Engine
	mark uint32
	seen device.Slice[uint32]
}

func (p *sharer) Change(s *device.Stream, _ core.Parts, c *gpu.Change) (bool, error) {
	return false, errors.Join(
		s.Fill(c.Args.Contended.Items, p.mark, p.seen.Len()),
		s.Copy(p.seen.Ptr(), c.Args.Contended.Items, 4*p.seen.Len()))
}

func (p *sharer) WriteRows(s *device.Stream, _ core.Parts, n int, _, _, vals, found device.Ptr, first, limit uint64) error {
	return errors.Join(s.Fill(vals, p.mark, int(limit-first)), s.Fill(found, sharedRows, 1))
}

// sharedRows is the number of rows per key, more than fit the scratch.
const sharedRows = 3000

func sharing(dev device.Device, seed uint64) (err error) {
	gpu.Limit(dev, 1)
	defer gpu.Limit(dev, 0)
	defer staging.Configure(dev, staging.Settings{PieceBytes: 1 << 10})()
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(seed, 0))
	var all [2]*sharer
	var streams [2]*device.Stream
	for i := range all {
		all[i] = &sharer{e: new(gpu.Engine), mark: uint32(i + 1)}
		p := all[i]
		if err := p.e.OpenEngine(dev, widths, 3, p); err != nil {
			return err
		}
		l, err := core.NewLines(dev, 4)
		if err != nil {
			return err
		}
		p.e.Leases = core.NewLeases(&memory{l})
		if streams[i], err = dev.NewStream(); err != nil {
			return err
		}
		if p.seen, err = device.Upload(streams[i], make([]uint32, 200)); err != nil {
			return err
		}
	}
	for range 10 {
		p := all[rng.IntN(2)]
		if rng.IntN(2) == 0 {
			if err := p.expand(ctx); err != nil {
				return err
			}
			continue
		}
		keys := batch.Column{Ptr: p.seen.Ptr(), Width: 4}
		b := &batch.Batch{N: 200, Kind: op.Delete, Flags: batch.Order, Columns: batch.Columns{batch.Keys: keys}}
		if _, _, err := p.e.Change(ctx, streams[p.mark-1], b); err != nil {
			return err
		}
	}
	for i, p := range all {
		got := make([]uint32, p.seen.Len())
		if err := p.seen.CopyTo(ctx, streams[i], got); err != nil {
			return err
		}
		if got[0] != 0 && (slices.Max(got) != p.mark || slices.Min(got) != p.mark) {
			err = fmt.Errorf("structure %d has seen %v", i, got)
		}
		_, first := p.e.Leases.Close()
		err = errors.Join(err, first, streams[i].Close(), p.e.Close(), p.e.Leases.Free(), p.seen.Free())
	}
	return err
}

// expand fetches all rows of a key.
func (p *sharer) expand(ctx context.Context) error {
	vals, offsets := make([]uint32, sharedRows), []uint64{5, 5 + sharedRows}
	found := make([]uint32, 1)
	b := &batch.Batch{N: 1, Columns: batch.Columns{batch.Keys: batch.Input([]uint32{1}), batch.Vals: batch.Output(vals), batch.Counts: batch.Output(found)}}
	b.Columns[batch.Vals].Offsets = offsets
	if err := p.e.Expand(ctx, nil, p.e.Leases.Current(), b, p); err != nil {
		return err
	}
	if slices.Max(vals) != p.mark || slices.Min(vals) != p.mark || found[0] != sharedRows {
		return fmt.Errorf("a row is another structure's, or %d rows were found", found[0])
	}
	return nil
}
