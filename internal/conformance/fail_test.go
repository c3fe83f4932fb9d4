package conformance

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Flaws of maps to which operations of a device fail, or that are full.
const (
	leaksOnFailure flaw = "what was allocated before a failure is not freed"
	losesOnFailure flaw = "a failure loses what is there"
	staysBroken    flaw = "after a failure all changes fail"
	breaksSilently flaw = "a failure is not reported"
	leaksCancelled flaw = "a cancelled call leaves memory behind"
	fullUnreported flaw = "that there is no room is not reported"
	fullForever    flaw = "that there is no room is reported again and again"
)

// frail is a map that needs memory of the device for each Put, and may have a
// limit.
type frail struct {
	*reference[uint64, uint64]
	how    flaw
	broken error
	limit  int
	full   bool
}

func newFrail(dev device.Device, how flaw) (*frail, error) {
	a, err := dev.Alloc(8)
	if err != nil {
		return nil, err
	}
	b, err := dev.Alloc(8)
	if err != nil {
		if how != leaksOnFailure {
			err = errors.Join(err, dev.Free(a))
		}
		return nil, err
	}
	return &frail{reference: newReference[uint64, uint64](none, dev), how: how}, errors.Join(dev.Free(a), dev.Free(b))
}

func (m *frail) Put(ctx context.Context, keys, vals []uint64) (int, error) {
	if err := ctx.Err(); err != nil && m.how == leaksCancelled {
		if _, aerr := m.dev.Alloc(8); aerr != nil {
			return 0, aerr
		}
	}
	b, err := m.dev.Alloc(8)
	if err == nil {
		err = m.dev.Free(b)
	}
	switch {
	case m.broken != nil:
		return 0, m.broken
	case err == nil:
		return m.reference.Put(ctx, keys, vals)
	case m.how == losesOnFailure:
		clear(m.reference.pairs)
	case m.how == staysBroken:
		m.broken = err
	case m.how == breaksSilently:
		return 0, nil
	}
	return 0, err
}

func (m *frail) PutOn(s *device.Stream, keys, vals device.Slice[uint64], n ...device.Slice[uint64]) error {
	m.full = keys.Len() > m.limit && m.how != fullUnreported
	return m.reference.PutOn(s, keys.Sub(0, m.limit), vals.Sub(0, m.limit), n...)
}

func (m *frail) Sync(ctx context.Context) error {
	if m.full {
		m.full = m.how == fullForever
		return weft.ErrFull
	}
	return m.reference.Sync(ctx)
}

// Each flaw is noticed by one of the tests for failures, and a map without any
// passes all.
func TestFailuresAreNoticed(t *testing.T) {
	tests := map[string]func(t testing.TB, dev device.Device, how flaw){
		"NewFails": func(t testing.TB, dev device.Device, how flaw) { NewFails(t, newFrail, dev, how) },
		"OperationsFail": func(t testing.TB, dev device.Device, how flaw) {
			OperationsFail(t, dev, 600, MapOf(newFrail, how))
		},
		"ReportsFull": func(t testing.TB, dev device.Device, how flaw) {
			m := made(t, newFrail, dev, how)
			m.limit = 64
			ReportsFull(t, dev, m, 100)
		},
	}
	for how, by := range map[flaw]string{
		none: "", leaksOnFailure: "NewFails", losesOnFailure: "OperationsFail", staysBroken: "OperationsFail",
		breaksSilently: "OperationsFail", leaksCancelled: "OperationsFail", fullUnreported: "ReportsFull", fullForever: "ReportsFull",
	} {
		for name, test := range tests {
			failed, log := Report(t, func(t testing.TB) { test(t, devicetest.OpenCPU(t, 1), how) })
			if failed != (name == by) {
				t.Errorf("%s, %q: failed is %v: %s", name, how, failed, log)
			}
		}
	}
}
