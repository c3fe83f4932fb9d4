package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/lsm"
)

// Each call by which the host orders streams, or waits for them, is needed: left out, programs go
// wrong. Here are those of engines that take a batch as a whole, too.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	tries := []dst.Try{onSims(hostBehindStreams), onSims(lookupsBesideHost)}
	t.Cleanup(lsm.KeepSpare(0))
	dst.Omit(t, ".", map[string]string{
		"s.Sync(context.Background()) in (*gpuEngine).push": "only where a launch fails: TestFailsWhole",
	}, tries...)
	// What Whole brings back it need not wait for: the core counts behind a change. The counts that are read
	// behind ranks wait for both.
	dst.Omit(t, "../internal/gpu", dst.Judged(t, "../internal/gpu", "linear's programs, or the core", func(c devicetest.Call) bool {
		return c.Func == "(*Work).Free" || c.Func == "(*Queue).SubmitWaiting" || c.Func == "(*Queue).seek" ||
			c.Func == "(*Queue).spans" && strings.Contains(c.Text, "Counts")
	}), tries...)
}

// onSims tries something with a map of a few levels, on simulated GPUs with different schedules.
func onSims(try func(ctx context.Context, m *lsm.Map[uint32, uint32], s *device.Stream) error) dst.Try {
	return func(wrap func(device.Device) device.Device) (err error) {
		for seed := range uint64(4) {
			simulated, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed, Races: true})
			if err != nil {
				return err
			}
			defer simulated.Close()
			dev := wrap(simulated)
			m, err := lsm.New[uint32, uint32](dev, &lsm.Options{Base: 16})
			if err != nil {
				return err
			}
			s, err := dev.NewStream()
			if err == nil {
				err = errors.Join(try(context.Background(), m, s), s.Sync(context.Background()), s.Close())
			}
			if err = errors.Join(err, m.Close()); err != nil {
				return err
			}
		}
		return nil
	}
}

// hostBehindStreams has a batch of the host, whose outcome it checks, come behind one on a stream, and
// ranges deleted on the stream behind both.
func hostBehindStreams(ctx context.Context, m *lsm.Map[uint32, uint32], s *device.Stream) (err error) {
	const n = 60
	keys := conformance.Sequence[uint32](0, n)
	on, err := device.Upload(s, keys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Sync(ctx), on.Free()) }()
	for range 2 {
		for range 2 { // whose memory goes while it is under way
			if err := m.PutOn(s, on, on); err != nil {
				return err
			}
		}
		vals, deleted := make([]uint32, n), make([]bool, n)
		if hits, err := m.Get(ctx, keys, vals, nil); err != nil || hits != n || !slices.Equal(vals, keys) {
			return fmt.Errorf("%d hits: %v: %w", hits, vals, err)
		}
		if gone, err := m.Delete(ctx, keys[n/2:], deleted[n/2:]); err != nil || gone != n/2 || slices.Contains(deleted[n/2:], false) {
			return fmt.Errorf("%d keys deleted: %v, %v", gone, deleted[n/2:], err)
		}
		more := conformance.Sequence[uint32](n, 3*n) // in more memory
		if _, err := m.Put(ctx, more, more); err != nil {
			return err
		}
		lo, hi, removed := on.Sub(0, 2), on.Sub(n/4, n/4+2), make([]uint32, 2)
		counts, err := device.Upload(s, removed)
		if err != nil {
			return err
		}
		err = m.DeleteRangeOn(s, lo, hi, counts)
		err = errors.Join(err, counts.CopyTo(ctx, s, removed), s.Sync(ctx), counts.Free())
		if err != nil || removed[0] != n/4+1 || removed[1] != 1 {
			return fmt.Errorf("%d pairs of ranges deleted: %w", removed, err)
		}
		if err := errors.Join(m.Sync(ctx), m.Check(ctx)); err != nil || m.Len() != n/2-n/4-2+3*n {
			return fmt.Errorf("%d pairs: %w", m.Len(), err)
		}
	}
	return nil
}

// lookupsBesideHost looks up keys while batches of the host change others.
func lookupsBesideHost(ctx context.Context, m *lsm.Map[uint32, uint32], _ *device.Stream) error {
	const n = 20
	keys := conformance.Sequence[uint32](0, n)
	if _, err := m.Put(ctx, keys, keys); err != nil {
		return err
	}
	done := make(chan error)
	go func() {
		for i := range 12 {
			more := conformance.Sequence[uint32](n*(i+1), n)
			if _, err := m.Put(ctx, more, more); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		select {
		case err := <-done:
			return err
		default:
		}
		vals := make([]uint32, n)
		if hits, err := m.Get(ctx, keys, vals, nil); err != nil || hits != n || !slices.Equal(vals, keys) {
			return errors.Join(fmt.Errorf("%d hits: %v: %w", hits, vals, err), <-done)
		}
	}
}
