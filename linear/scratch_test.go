package linear_test

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// interjecting wraps a device and calls a function once, before an event is recorded. The function
// does what another goroutine might do at that time.
type interjecting struct {
	device.Device
	now func()
}

func (d *interjecting) NewStream() (*device.Stream, error) {
	s, err := d.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(d, interjectingStream{s.Driver(), d}), nil
}

type interjectingStream struct {
	device.StreamDriver
	of *interjecting
}

func (s interjectingStream) Record(e device.EventDriver) error {
	if now := s.of.now; now != nil {
		s.of.now = nil
		now()
	}
	return s.StreamDriver.Record(e)
}

// The scratch memory that resolves duplicates must go to another table only after the change that
// uses it, even while that change is being submitted.
func TestScratchGoesOnBehindItsChange(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for seed := range uint64(4) {
		dev := &interjecting{Device: devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: seed, Races: true})}
		a := conformance.Open(t, linear.New[uint32, uint32], dev, nil)
		b := conformance.Open(t, linear.New[uint32, uint32], dev, nil)
		sa, sb := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
		rows := make([]uint32, 256)
		for i := range rows {
			rows[i] = uint32(i / 8)
		}
		keys, vals := devicetest.Upload(t, sa, rows), devicetest.Upload(t, sa, conformance.Sequence[uint32](0, 256))
		count := devicetest.Upload(t, sa, []uint64{0})
		check(sa.Sync(t.Context()))
		check(a.PutOn(sa, keys, vals))
		dev.now = func() { check(b.PutOn(sb, keys, vals)) }
		check(a.PutOn(sa, keys, vals, count)) // the count is submitted separately from the change
		for _, m := range []*linear.Map[uint32, uint32]{a, b} {
			check(m.Sync(t.Context()))
			if m.Len() != 32 {
				t.Errorf("seed %d: %d keys of 32", seed, m.Len())
			}
		}
	}
}
