package linear_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/linear"
)

// Each call with which the host orders streams, or waits for them, must be necessary: if it is
// omitted, some program must fail.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	ordered, unordered := schedules[uint32, uint64](mode{arch: 90}), schedules[uint64, uint64](mode{arch: 90, unordered: true})
	ordered.Shapes, unordered.Shapes = dst.Overlapping(), dst.Overlapping()
	open := func(dev device.Device) (*linear.Map[uint32, uint32], error) {
		return linear.New[uint32, uint32](dev, &linear.Options{Capacity: 2000})
	}
	dst.Omit(t, ".", nil, dst.MapClosedStreamTry(open), cleanAtPace, ordered.Try(), unordered.Try())
	dst.Omit(t, "../internal/gpu", notCovered, updateFullMap, cleanAtPace, dst.IterateAfterChanges(open), ordered.Try(), unordered.Try())
}

// notCovered lists calls of the engine that programs on maps do not make, or that they do not need.
var notCovered = map[string]string{
	"e.Stream.Wait(e.LastChange()) in (*Engine).submitPart":                "only parts of a change in a growing table report",
	"e.Stream.Sync(context.WithoutCancel(ctx)) in (*Engine).Rearrange":     "only tables that reclaim, of package horton, move pairs in place",
	"s.Wait(x.user.LastChange()) in (*Workspace).waitScratch":              "TestScratchOmissions of package gpu",
	"s.Wait(x.user.LastChange()) in (*Queue).setUser":                      "TestScratchOmissions of package gpu",
	"x.user.LastChange().Sync(core.EndedContext) in (*Workspace).done":     "asks, and does not wait",
	"s.Sync(context.Background()) in (*Queue).submit":                      "only where an event cannot be recorded: TestSimulatedFailures of package experiment",
	"s.Sync(context.Background()) in (*Engine).expandLarge":                "a map's answers are of one size",
	"s.CopyOut(ctx, device.Bytes(now[:]), found) in (*Engine).expandLarge": "a map's answers are of one size",
	// These calls run only in engines that take whole batches; see TestOmissionsAreNoticed in
	// package lsm.
	"q.LastChange().Sync(context.Background()) in (*Work).Free":                                    wholeBatches,
	"q.Stream.CopyOut(context.WithoutCancel(ctx), c.Host, w.Buf.Ptr+ptrs[r]) in (*Queue).RunWhole": wholeBatches,
	"s.Wait(q.Visible) in (*Queue).seek":                                                           wholeBatches,
	"s.CopyOut(ctx, device.Bytes(from), rank.Columns[batch.Ranks].Ptr) in (*Queue).findSpans":      wholeBatches,
	"s.CopyOut(ctx, device.Bytes(n), count.Columns[batch.Counts].Ptr) in (*Queue).findSpans":       wholeBatches,
	"s.Sync(context.Background()) in (*Queue).SubmitSync":                                          wholeBatches,
}

const wholeBatches = "TestOmissionsAreNoticed of package lsm"

// onMap opens a map on a device and calls f with the map, a stream, and a batch of keys.
func onMap(dev device.Device, o *linear.Options, f func(m *linear.Map[uint32, uint32], s *device.Stream, keys device.Slice[uint32]) error) error {
	m, err := linear.New[uint32, uint32](dev, o)
	if err != nil {
		return err
	}
	defer m.Close()
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	keys, err := device.Upload(s, conformance.Sequence[uint32](0, 1000))
	if err != nil {
		return err
	}
	return errors.Join(f(m, s, keys), m.Sync(context.Background()), keys.Free())
}

// paced is a context that waits, at each check, until all launches so far have run. Its end takes
// effect after one more launch.
type paced struct {
	context.Context
	dev *sim.Device
	ran int // number of launches that have run
	err error
}

func (p *paced) watch(a sim.Access) { p.ran = max(p.ran, a.Thread.Launch+1) }

func (p *paced) Err() error {
	if p.dev == nil {
		return nil
	}
	if n := p.dev.Launches(); p.ran < n && p.err == nil {
		p.err = fmt.Errorf("asked when %d of %d launches had run", p.ran, n)
	}
	return nil
}

// cleanAtPace runs a rehash in place, which checks its context between launches. Later lookups must
// find all keys.
func cleanAtPace(wrap func(device.Device) device.Device) error {
	ctx := &paced{Context: context.Background()}
	dev, err := sim.Open(&sim.Options{Watch: ctx.watch})
	if err != nil {
		return err
	}
	defer dev.Close()
	return onMap(wrap(dev), &linear.Options{Capacity: 1000, Fixed: true}, func(m *linear.Map[uint32, uint32], s *device.Stream, keys device.Slice[uint32]) error {
		m.SmallLaunches()
		if err := errors.Join(m.PutOn(s, keys, keys), m.DeleteOn(s, keys.Sub(0, 200), device.Slice[bool]{}), m.Sync(ctx)); err != nil {
			return err
		}
		ctx.dev = dev
		before := dev.Launches()
		if err := errors.Join(m.Compact(ctx), ctx.err); err != nil {
			return err
		}
		if n := dev.Launches() - before; n < 6 {
			return fmt.Errorf("only %d launches", n)
		}
		found, err := device.Make[bool](keys.Device(), keys.Len())
		if err != nil {
			return err
		}
		host := make([]bool, keys.Len())
		if err := errors.Join(m.ContainsOn(s, keys, found), found.CopyTo(ctx.Context, s, host), found.Free()); err != nil {
			return err
		}
		for k, there := range host {
			if there != (k >= 200) {
				return fmt.Errorf("key %d: %v", k, there)
			}
		}
		return nil
	})
}

// updateFullMap requires that updates do not grow a map.
func updateFullMap(wrap func(device.Device) device.Device) error {
	dev, err := sim.Open(nil)
	if err != nil {
		return err
	}
	defer dev.Close()
	return onMap(wrap(dev), &linear.Options{Capacity: 1000}, func(m *linear.Map[uint32, uint32], s *device.Stream, keys device.Slice[uint32]) error {
		var slots [2]int
		for i := range slots {
			if err := m.PutOn(s, keys, keys); err != nil {
				return err
			}
			stats, err := m.Stats(context.Background())
			if err != nil {
				return err
			}
			slots[i] = stats.Slots
		}
		if slots[0] != slots[1] {
			return fmt.Errorf("a map of %d slots has %d after its keys were put again", slots[0], slots[1])
		}
		return nil
	})
}
