package btree

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
)

// TestOmissionsAreNoticed omits, one at a time, each call by which the host orders streams or waits
// for them. Some program must fail without that call.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	var tries []dst.Try
	for seed, v := range []Versions{Whole, InPlace, OutOfPlace} {
		tries = append(tries, afterStreams(v, uint64(seed)))
	}
	const fails, copied = "only where a launch fails", "the copy behind it waits for both"
	dst.Omit(t, ".", map[string]string{
		"e.Stream.Sync(context.Background()) in (*gpuEngine).runSync":                    "who reads the counters behind it waits for the same stream",
		"e.Stream.Sync(context.Background()) in (*gpuEngine).makeTree":                   fails,
		"e.Stream.Sync(context.Background()) in (*gpuEngine).Pin":                        fails,
		"s.Sync(context.Background()) in (*gpuEngine).newPast":                           fails,
		"s.Sync(context.Background()) in (*gpuEngine).load":                              fails,
		"s.CopyOut(ctx, head, p.control.Ptr) in (*past).readCounters":                    copied,
		"s.CopyOut(ctx, device.Bytes(from), mem.Ptr) in (*gpuEngine).spans":              copied,
		"s.Sync(context.Background()) in (*gpuEngine).spans":                             "the copy before it waits, unless a context ends",
		"e.Stream.CopyOut(ctx, c.Host, e.work.Ptr+places[r]) in (*gpuEngine).changeHost": "the Sync behind it waits for all columns",
		"e.Stream.Sync(ctx) in (*gpuEngine).changeHost":                                  "the copies before it wait; of a batch without results the host reads nothing",
	}, tries...)
}

// afterStreams runs batches of the host and snapshots, and closes a map, after batches on a
// stream.
func afterStreams(v Versions, seed uint64) dst.Try {
	return func(wrap func(device.Device) device.Device) error {
		simulated, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed, Races: true})
		if err != nil {
			return err
		}
		defer simulated.Close()
		dev, ctx := wrap(devicetest.Narrow(simulated)), context.Background()
		m, err := New[uint32, uint32](dev, &Options{Versions: v})
		if err != nil {
			return err
		}
		s, err := dev.NewStream()
		if err != nil {
			return err
		}
		const n = 40
		on, err := device.Upload(s, conformance.Sequence[uint32](0, n))
		if err != nil {
			return err
		}
		if err := errors.Join(m.GetOn(s, on, on, device.Slice[bool]{}), on.CopyFrom(s, conformance.Sequence[uint32](0, n))); err != nil {
			return err
		}
		if err := errors.Join(m.PutOn(s, on, on), snapshotAfterStreams(ctx, m, s, on)); err != nil {
			return err
		}
		err = errors.Join(dst.HostAfterStreams(ctx, m, s), m.PutOn(s, on, on), m.Close())
		return errors.Join(err, s.Sync(ctx), on.Free(), s.Close(), simulated.Sync(ctx))
	}
}

// snapshotAfterStreams submits changes and takes snapshots after batches that a stream still runs,
// and calls the other methods.
func snapshotAfterStreams(ctx context.Context, m *Map[uint32, uint32], s *device.Stream, on device.Slice[uint32]) error {
	n, none := on.Len(), device.Slice[bool]{}
	count := func(m interface {
		Count(ctx context.Context, lo, hi, counts []uint32) (int, error)
	}, want int) error {
		n, err := m.Count(ctx, []uint32{0}, []uint32{^uint32(0)}, make([]uint32, 1))
		if err == nil && n != want {
			err = fmt.Errorf("%d pairs, want %d", n, want)
		}
		return err
	}
	if err := errors.Join(m.DeleteOn(s, on.Sub(0, n/2), none), m.PutOn(s, on, on)); err != nil {
		return err
	}
	if deleted, err := m.Delete(ctx, []uint32{0, 1, uint32(n)}, nil); err != nil || deleted != 2 {
		return fmt.Errorf("%d keys deleted, want 2: %w", deleted, err)
	}
	if err := m.PutOn(s, on, on); err != nil {
		return err
	}
	at, err := m.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := m.DeleteOn(s, on.Sub(n/2, n), none); err != nil {
		return err
	}
	stats, err := m.Stats(ctx)
	if err == nil && (stats.Len != n/2) {
		err = fmt.Errorf("%v, want %d pairs", stats, n/2)
	}
	return errors.Join(err, count(at, n), count(m, n/2), at.Close(), m.Compact(ctx), m.PutOn(s, on, on), changeInside(ctx, m, s, on), m.Clear(ctx), count(m, 0))
}

// changeInside changes a map during an iteration, which copies the map, and then ends the
// iteration. The memory that is then freed must not be in use.
func changeInside(ctx context.Context, m *Map[uint32, uint32], s *device.Stream, on device.Slice[uint32]) error {
	for _, err := range m.Pages(ctx) {
		return errors.Join(err, m.PutOn(s, on, on))
	}
	return errors.New("an iteration without pages")
}
