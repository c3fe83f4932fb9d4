package conformance

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Flaws that only full maps or failing devices reveal.
const (
	leaksOnFailure     flaw = "what was allocated before a failure is not freed"
	losesOnFailure     flaw = "a failure loses what is there"
	brokenAfterFailure flaw = "after a failure all changes fail"
	breaksSilently     flaw = "a failure is not reported"
	leaksCancelled     flaw = "a cancelled call leaves memory behind"
	fullUnreported     flaw = "that there is no room is not reported"
	fullForever        flaw = "that there is no room is reported again and again"
	fullLeavesGaps     flaw = "keys without room use up ids"
	fullClears         flaw = "rows of GetOrPut without room lose their values"
	fullLoads          flaw = "rows of GetOrPutOn without room count as loaded"
	fullForgetsRow     flaw = "one of the rows without room is not told"
)

// failingMap is a map that allocates device memory in each Put and may have a limit.
type failingMap struct {
	*reference[uint64, uint64]
	fault  flaw
	broken error
	limit  int
	full   error // returned by Sync
}

func newFailingMap(dev device.Device, f flaw) (*failingMap, error) {
	a, err := dev.Alloc(8)
	if err != nil {
		return nil, err
	}
	b, err := dev.Alloc(8)
	if err != nil {
		if f != leaksOnFailure {
			err = errors.Join(err, dev.Free(a))
		}
		return nil, err
	}
	return &failingMap{reference: newReference[uint64, uint64](none, dev), fault: f}, errors.Join(dev.Free(a), dev.Free(b))
}

func (m *failingMap) Put(ctx context.Context, keys, vals []uint64) (int, error) {
	if err := ctx.Err(); err != nil && m.fault == leaksCancelled {
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
	case m.fault == losesOnFailure:
		clear(m.reference.pairs)
	case m.fault == brokenAfterFailure:
		m.broken = err
	case m.fault == breaksSilently:
		return 0, nil
	}
	return 0, err
}

func (m *failingMap) PutOn(s *device.Stream, keys, vals device.Slice[uint64], n ...device.Slice[uint64]) error {
	if keys.Len() > m.limit && m.fault != fullUnreported {
		rows := Sequence[uint64](m.limit, keys.Len()-m.limit)
		m.full = partialOf(keys.Len(), rows)
	}
	return m.reference.PutOn(s, keys.Sub(0, m.limit), vals.Sub(0, m.limit), n...)
}

// partialOf returns the error of a batch with n operations in which the given rows overflowed.
func partialOf[R int | uint64](n int, rows []R) error {
	p := &weft.PartialError{Done: n, Failed: len(rows), Err: weft.ErrFull}
	for _, r := range rows {
		p.Rows = append(p.Rows, int(r))
	}
	return p
}

// admit reports for which keys the map has room. It rejects every third key, and keys beyond the
// limit.
func (m *failingMap) admit(keys []uint64) (fits []bool, err error) {
	fits, failed := make([]bool, len(keys)), []int{}
	present := maps.Clone(m.reference.pairs)
	for i, k := range keys {
		if _, ok := present[k]; ok || m.limit == 0 || k%3 > 0 && len(present) < m.limit {
			present[k], fits[i] = 0, true
		} else {
			failed = append(failed, i)
		}
	}
	if len(failed) > 0 {
		err = partialOf(len(keys), failed)
		if p := err.(*weft.PartialError); m.fault == fullForgetsRow {
			p.Rows = p.Rows[1:]
		}
	}
	return fits, err
}

func (m *failingMap) Assign(ctx context.Context, keys, ids []uint64) (n int, err error) {
	fits, full := m.admit(keys)
	for i, ok := range fits {
		ids[i] = 0
		if _, present := m.reference.pairs[keys[i]]; !present && !ok {
			if m.fault == fullLeavesGaps {
				m.next++
			}
			continue
		}
		one, err := m.reference.Assign(ctx, keys[i:i+1], ids[i:i+1])
		if n += one; err != nil {
			return n, err
		}
	}
	return n, full
}

func (m *failingMap) GetOrPut(ctx context.Context, keys, vals []uint64, loaded []bool) (n int, err error) {
	fits, full := m.admit(keys)
	for i, ok := range fits {
		if ok {
			one, err := m.reference.GetOrPut(ctx, keys[i:i+1], vals[i:i+1], loaded[min(i, len(loaded)):min(i+1, len(loaded))])
			if n += one; err != nil {
				return n, err
			}
			continue
		}
		if loaded[i] = false; m.fault == fullClears {
			vals[i] = 0
		}
	}
	return n, full
}

func (m *failingMap) GetOrPutOn(_ *device.Stream, keys, vals device.Slice[uint64], loaded device.Slice[bool], _ ...device.Slice[uint64]) error {
	fits, full := m.admit(keys.Host())
	_, err := m.GetOrPut(context.Background(), keys.Host(), vals.Host(), loaded.Host())
	for i, ok := range fits {
		loaded.Host()[i] = loaded.Host()[i] || !ok && m.fault == fullLoads
	}
	if m.full = full; full != nil {
		return nil
	}
	return err
}

func (m *failingMap) Sync(ctx context.Context) error {
	if err := m.full; err != nil {
		if m.fault != fullForever {
			m.full = nil
		}
		return err
	}
	return m.reference.Sync(ctx)
}

// One of the tests for failures must detect each flaw, and a map without flaws must pass all.
func TestFailuresAreNoticed(t *testing.T) {
	tests := map[string]func(t testing.TB, dev device.Device, f flaw){
		"NewFails": func(t testing.TB, dev device.Device, f flaw) { NewFails(t, newFailingMap, dev, f) },
		"OperationsFail": func(t testing.TB, dev device.Device, f flaw) {
			OperationsFail(t, dev, 600, MapOf(newFailingMap, f))
		},
		"ReportsFull": func(t testing.TB, dev device.Device, f flaw) {
			m := made(t, newFailingMap, dev, f)
			m.limit = 64
			ReportsFull(t, dev, m, 100)
		},
		"AnswersWhenFull": func(t testing.TB, dev device.Device, f flaw) {
			m := made(t, newFailingMap, dev, f)
			m.limit = 64
			ResultsWhenFull(t, dev, m, 100)
		},
	}
	for f, by := range map[flaw]string{
		none: "", leaksOnFailure: "NewFails", losesOnFailure: "OperationsFail", brokenAfterFailure: "OperationsFail",
		breaksSilently: "OperationsFail", leaksCancelled: "OperationsFail", fullUnreported: "ReportsFull", fullForever: "ReportsFull",
		fullLeavesGaps: "AnswersWhenFull", fullClears: "AnswersWhenFull", fullLoads: "AnswersWhenFull",
		fullForgetsRow: "AnswersWhenFull",
	} {
		for name, test := range tests {
			failed, log := Report(t, func(t testing.TB) { test(t, devicetest.OpenCPU(t, 1), f) })
			if failed != (name == by) {
				t.Errorf("%s, %q: failed is %v: %s", name, f, failed, log)
			}
		}
	}
}
