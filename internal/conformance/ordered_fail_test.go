package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Flaws of ordered maps that only failing devices reveal.
const (
	allocatesNothing flaw = "no operation of the device is asked for"
	leaksInChanges   flaw = "a change that fails leaves memory behind"
	losesInChanges   flaw = "a change that fails loses what is there"
	failsForever     flaw = "after a failure all changes fail"
	failsSilently    flaw = "a change that fails says nothing"
	failsUnreported  flaw = "a change that fails does not say what it has done"
	failsUnderstated flaw = "a change that fails has done more than it says"
	failsOverstated  flaw = "a change that fails has done less than it says"
	failsStale       flaw = "a change that fails leaves what outputs held"
	failsSnapshots   flaw = "a change that fails happens to snapshots, too"
	failsFound       flaw = "a lookup that fails has found something"
	failsLookups     flaw = "a lookup that has failed finds nothing the next time"
	failsTwice       flaw = "a range that has failed has its first rows twice the next time"
)

// failingOrderedMap is an ordered map that allocates device memory in each call. If a change gets
// no memory, it does half of its operations.
type failingOrderedMap struct {
	*referenceOrdered[uint32, uint32]
	fault         flaw
	broken        error
	missed        bool // a lookup has failed
	openSnapshots []*referenceOrdered[uint32, uint32]
}

func newFailingOrderedMap(f flaw) Maker[AnyOrderedMap[uint32, uint32]] {
	return func(_ testing.TB, dev device.Device) AnyOrderedMap[uint32, uint32] {
		return &failingOrderedMap{referenceOrdered: newReferenceOrdered[uint32, uint32](none, dev).(*referenceOrdered[uint32, uint32]), fault: f}
	}
}

// allocate runs first in each call.
func (m *failingOrderedMap) allocate() error {
	if m.fault == allocatesNothing {
		return nil
	}
	a, err := m.dev.Alloc(8)
	if err != nil {
		return err
	}
	b, err := m.dev.Alloc(8)
	if err != nil {
		if m.fault == leaksInChanges {
			return err
		}
		return errors.Join(err, m.dev.Free(a))
	}
	return errors.Join(m.dev.Free(a), m.dev.Free(b))
}

// change runs a change of n operations, or half of it after a failure. blank zeroes the outputs of
// the other operations.
func (m *failingOrderedMap) change(n int, do func(rows int) error, blank func(from int)) error {
	if m.broken != nil {
		return m.broken
	}
	err := m.allocate()
	if err == nil {
		return do(n)
	}
	done := n / 2
	switch m.fault {
	case losesInChanges:
		clear(m.reference.pairs)
	case failsForever:
		m.broken = &weft.PartialError{Err: err}
	case failsSilently:
		return nil
	case failsSnapshots:
		for _, s := range m.openSnapshots {
			s.reference.pairs[1] = 1
		}
	case failsOverstated:
		done = 0
	}
	if derr := do(done); derr != nil {
		return derr
	}
	if m.fault != failsStale {
		blank(done)
	}
	switch m.fault {
	case failsUnreported:
		return err
	case failsUnderstated:
		done /= 2
	case failsOverstated:
		done = n / 2
	}
	return &weft.PartialError{Done: done, Err: err}
}

func (m *failingOrderedMap) Build(ctx context.Context, keys, vals []uint32) (added int, err error) {
	err = m.change(len(keys), func(n int) error {
		added, err = m.referenceOrdered.Build(ctx, keys[:n], vals[:n])
		return err
	}, func(int) {})
	return added, err
}

func (m *failingOrderedMap) Apply(ctx context.Context, ops []weft.Op[uint32, uint32], res []weft.Result[uint32]) error {
	return m.change(len(ops), func(n int) error { return m.referenceOrdered.Apply(ctx, ops[:n], res[:n]) }, func(from int) { clear(res[from:]) })
}

func (m *failingOrderedMap) Delete(ctx context.Context, keys []uint32, deleted []bool) (nDeleted int, err error) {
	err = m.change(len(keys), func(n int) error {
		nDeleted, err = m.referenceOrdered.Delete(ctx, keys[:n], deleted[:n])
		return err
	}, func(from int) { clear(deleted[from:]) })
	return nDeleted, err
}

func (m *failingOrderedMap) DeleteRange(ctx context.Context, lo, hi, removed []uint32) (nDeleted int, err error) {
	err = m.change(len(lo), func(n int) error {
		nDeleted, err = m.referenceOrdered.DeleteRange(ctx, lo[:n], hi[:n], removed[:n])
		return err
	}, func(from int) { clear(removed[from:]) })
	return nDeleted, err
}

func (m *failingOrderedMap) Snapshot(ctx context.Context) (AnySeeker[uint32, uint32], error) {
	if err := m.allocate(); err != nil {
		return nil, err
	}
	s, err := m.referenceOrdered.Snapshot(ctx)
	if err == nil {
		m.openSnapshots = append(m.openSnapshots, s.(*referenceSnapshot[uint32, uint32]).referenceOrdered)
	}
	return s, err
}

func (m *failingOrderedMap) Count(ctx context.Context, lo, hi, counts []uint32) (int, error) {
	if err := m.allocate(); err != nil {
		if m.missed = true; m.fault == failsFound {
			return 1, err
		}
		return 0, err
	}
	if m.missed && m.fault == failsLookups {
		clear(counts)
		return 0, nil
	}
	return m.referenceOrdered.Count(ctx, lo, hi, counts)
}

func (m *failingOrderedMap) Range(ctx context.Context, lo, hi []uint32, limit int, rows *weft.PairRows[uint32, uint32]) error {
	if err := m.allocate(); err != nil {
		if m.fault == failsTwice {
			return errors.Join(err, m.referenceOrdered.Range(ctx, lo[:1], hi[:1], limit, rows))
		}
		return err
	}
	return m.referenceOrdered.Range(ctx, lo, hi, limit, rows)
}

// Each flaw must be detected with its own message, and a map without flaws must pass.
func TestOrderedFailuresAreNoticed(t *testing.T) {
	for f, message := range map[flaw]string{
		none:             "",
		allocatesNothing: "none has failed",
		leaksInChanges:   "is left",
		losesInChanges:   "pairs, want",
		failsForever:     "fails again and again",
		failsSilently:    "0 pairs, want 24",
		failsUnreported:  "does not say what it has done",
		failsUnderstated: "12 pairs, want 6",
		failsOverstated:  "0 pairs, want 12",
		failsStale:       "has outputs",
		failsSnapshots:   "pair",
		failsFound:       "Count finds 1",
		failsLookups:     "Count: 0 pairs",
		failsTwice:       "Range with limit",
	} {
		t.Run(string(f), func(t *testing.T) {
			failed, log := Report(t, func(t testing.TB) {
				OrderedFails(t, devicetest.OpenCPU(t, 1), Failures{FailAfter: devicetest.FailAfter, Stride: 1, MaxOps: 12}, newFailingOrderedMap(f))
			})
			if failed != (f != none) || !strings.Contains(log, message) {
				t.Errorf("failed is %v, want it to say %q: %s", failed, message, log)
			}
		})
	}
	t.Run("two failures", func(t *testing.T) {
		failed, log := Report(t, func(t testing.TB) {
			OrderedFails(t, devicetest.OpenCPU(t, 1), Failures{FailAfter: FailTwoAllocations, Stride: 1, MaxOps: 12}, newFailingOrderedMap(none))
		})
		if failed {
			t.Error(log)
		}
	})
}
