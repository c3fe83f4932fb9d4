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

// TestOmissionsAreNoticed omits, one at a time, each call by which the host orders streams or waits
// for them. Some program must fail without that call. It includes the engine functions that run a
// batch as a whole.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	tries := []dst.Try{onSims(func(ctx context.Context, m *lsm.Map[uint32, uint32], s *device.Stream) error {
		return dst.HostAfterStreams(ctx, m, s)
	}), onSims(lookupsBesideHost)}
	t.Cleanup(lsm.KeepSpare(0))
	dst.Omit(t, ".", map[string]string{
		"s.Sync(context.Background()) in (*gpuEngine).push": "only where a launch fails: TestFailsWhole",
	}, tries...)
	// RunWhole need not wait for the results that it copies back, since the core counts after a
	// change. The counts that are read after ranks wait for both.
	dst.Omit(t, "../internal/gpu", dst.JudgedElsewhere(t, "../internal/gpu", "linear's programs, or the core", func(c devicetest.Call) bool {
		return c.Func == "(*Work).Free" || c.Func == "(*Queue).SubmitSync" || c.Func == "(*Queue).seek" ||
			c.Func == "(*Queue).findSpans" && strings.Contains(c.Text, "Counts")
	}), tries...)
}

// onSims runs a program on a map with a few levels, on simulated GPUs with different schedules.
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

// lookupsBesideHost looks up keys while batches of the host change other keys.
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
