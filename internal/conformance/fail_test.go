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

// Flaws of maps that are full, or on a device with failing operations.
const (
	leaksOnFailure flaw = "what was allocated before a failure is not freed"
	losesOnFailure flaw = "a failure loses what is there"
	staysBroken    flaw = "after a failure all changes fail"
	breaksSilently flaw = "a failure is not reported"
	leaksCancelled flaw = "a cancelled call leaves memory behind"
	fullUnreported flaw = "that there is no room is not reported"
	fullForever    flaw = "that there is no room is reported again and again"
	fullLeavesGaps flaw = "keys without room use up ids"
	fullClears     flaw = "rows of GetOrPut without room lose their values"
	fullLoads      flaw = "rows of GetOrPutOn without room count as loaded"
	fullForgetsRow flaw = "one of the rows without room is not told"
)

// frail is a map that allocates device memory for each Put, and may have a limit.
type frail struct {
	*reference[uint64, uint64]
	how    flaw
	broken error
	limit  int
	full   error // returned by Sync
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
	if keys.Len() > m.limit && m.how != fullUnreported {
		rows := Sequence[uint64](m.limit, keys.Len()-m.limit)
		m.full = partialOf(keys.Len(), rows)
	}
	return m.reference.PutOn(s, keys.Sub(0, m.limit), vals.Sub(0, m.limit), n...)
}

// partialOf returns the error of a batch of n operations in which some rows did not fit.
func partialOf[R int | uint64](n int, rows []R) error {
	p := &weft.PartialError{Done: n, Failed: len(rows), Err: weft.ErrFull}
	for _, r := range rows {
		p.Rows = append(p.Rows, int(r))
	}
	return p
}

// cut reports for which keys there is capacity: not for every third, nor beyond the limit.
func (m *frail) cut(keys []uint64) (room []bool, err error) {
	room, failed := make([]bool, len(keys)), []int{}
	there := maps.Clone(m.reference.pairs)
	for i, k := range keys {
		if _, ok := there[k]; ok || m.limit == 0 || k%3 > 0 && len(there) < m.limit {
			there[k], room[i] = 0, true
		} else {
			failed = append(failed, i)
		}
	}
	if len(failed) > 0 {
		err = partialOf(len(keys), failed)
		if p := err.(*weft.PartialError); m.how == fullForgetsRow {
			p.Rows = p.Rows[1:]
		}
	}
	return room, err
}

func (m *frail) Assign(ctx context.Context, keys, ids []uint64) (n int, err error) {
	room, full := m.cut(keys)
	for i, ok := range room {
		ids[i] = 0
		if _, there := m.reference.pairs[keys[i]]; !there && !ok {
			if m.how == fullLeavesGaps {
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

func (m *frail) GetOrPut(ctx context.Context, keys, vals []uint64, loaded []bool) (n int, err error) {
	room, full := m.cut(keys)
	for i, ok := range room {
		if ok {
			one, err := m.reference.GetOrPut(ctx, keys[i:i+1], vals[i:i+1], loaded[min(i, len(loaded)):min(i+1, len(loaded))])
			if n += one; err != nil {
				return n, err
			}
			continue
		}
		if loaded[i] = false; m.how == fullClears {
			vals[i] = 0
		}
	}
	return n, full
}

func (m *frail) GetOrPutOn(_ *device.Stream, keys, vals device.Slice[uint64], loaded device.Slice[bool], _ ...device.Slice[uint64]) error {
	room, full := m.cut(keys.Host())
	_, err := m.GetOrPut(context.Background(), keys.Host(), vals.Host(), loaded.Host())
	for i, ok := range room {
		loaded.Host()[i] = loaded.Host()[i] || !ok && m.how == fullLoads
	}
	if m.full = full; full != nil {
		return nil
	}
	return err
}

func (m *frail) Sync(ctx context.Context) error {
	if err := m.full; err != nil {
		if m.how != fullForever {
			m.full = nil
		}
		return err
	}
	return m.reference.Sync(ctx)
}

// Each flaw is detected by one of the tests for failures, and a map without flaws passes all.
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
		"AnswersWhenFull": func(t testing.TB, dev device.Device, how flaw) {
			m := made(t, newFrail, dev, how)
			m.limit = 64
			AnswersWhenFull(t, dev, m, 100)
		},
	}
	for how, by := range map[flaw]string{
		none: "", leaksOnFailure: "NewFails", losesOnFailure: "OperationsFail", staysBroken: "OperationsFail",
		breaksSilently: "OperationsFail", leaksCancelled: "OperationsFail", fullUnreported: "ReportsFull", fullForever: "ReportsFull",
		fullLeavesGaps: "AnswersWhenFull", fullClears: "AnswersWhenFull", fullLoads: "AnswersWhenFull",
		fullForgetsRow: "AnswersWhenFull",
	} {
		for name, test := range tests {
			failed, log := Report(t, func(t testing.TB) { test(t, devicetest.OpenCPU(t, 1), how) })
			if failed != (name == by) {
				t.Errorf("%s, %q: failed is %v: %s", name, how, failed, log)
			}
		}
	}
}
