package cuckoo_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
)

// Each call by which the host orders streams, or waits for them, is needed: left out,
// programs go wrong.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	closed := dst.OnClosedStream(func(dev device.Device) (*cuckoo.Map[uint32, uint32], error) {
		return cuckoo.New[uint32, uint32](dev, nil)
	}, func(m *cuckoo.Map[uint32, uint32], s *device.Stream, keys device.Slice[uint32]) map[string]error {
		return map[string]error{"PutOn": m.PutOn(s, keys, keys), "GetOn": m.GetOn(s, keys, keys, device.Slice[bool]{})}
	})
	if err := iterateBehindChanges(func(dev device.Device) device.Device { return dev }); err != nil {
		t.Fatal(err)
	}
	dst.Omit(t, "../internal/cpu", nil, closed)
	dst.Omit(t, "../internal/gpu", onlyHere(t), iterateBehindChanges)
}

// onlyHere are the calls of the engine that linear's programs reach, too, and judge: all
// but what changes that move pairs add.
func onlyHere(t *testing.T) map[string]string {
	t.Helper()
	calls, err := devicetest.ListCalls("../internal/gpu")
	if err != nil {
		t.Fatal(err)
	}
	judged := map[string]string{}
	for _, c := range calls {
		if call := c.Text + " in " + c.Func; call != "s.Wait(e.Changed()) in (*Engine).beforeExport" {
			judged[call] = "linear's programs"
		}
	}
	return judged
}

// An iteration sees what has been submitted to a stream before.
func iterateBehindChanges(wrap func(device.Device) device.Device) error {
	for seed := range uint64(5) {
		simulated, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed})
		if err != nil {
			return err
		}
		defer simulated.Close()
		dev := wrap(simulated)
		m, err := cuckoo.New[uint32, uint32](dev, &cuckoo.Options{Capacity: 1000, Seed: 1})
		if err != nil {
			return err
		}
		defer m.Close()
		s, err := dev.NewStream()
		if err != nil {
			return err
		}
		defer s.Close()
		keys, err := device.Upload(s, conformance.Sequence[uint32](0, 700))
		if err != nil {
			return err
		}
		if err := m.PutOn(s, keys, keys); err != nil {
			return err
		}
		seen := 0
		for range m.All() {
			seen++
		}
		if seen != keys.Len() {
			return fmt.Errorf("seed %d: %d of %d keys seen", seed, seen, keys.Len())
		}
		if err := errors.Join(m.Sync(context.Background()), keys.Free()); err != nil {
			return err
		}
	}
	return nil
}
