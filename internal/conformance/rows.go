package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/gpu/staging"
)

// RowsOfMap puts n rows into maps of fixed size that hold only some of them. It tests all methods
// that insert, in host and device memory. Each [weft.PartialError] must be accurate, and running
// the remaining rows again must lose nothing. open makes an empty map. On a GPU, batches are
// divided into small pieces.
func RowsOfMap[K weft.Key, V weft.Value](t *testing.T, dev device.Device, n int, open Maker[AnyMap[K, V]]) {
	mapKind(mapTarget(dev, 0, open)).checkPartialErrors(t, n)
}

// RowsOfSet puts n rows into sets of fixed size that hold only some of them. See [RowsOfMap].
func RowsOfSet[K weft.Key](t *testing.T, dev device.Device, n int, open Maker[AnySet[K]]) {
	setKind(setTarget(dev, 0, open)).checkPartialErrors(t, n)
}

// RowsOfMultiMap puts n rows into multimaps of fixed size that hold only some of them. See
// [RowsOfMap].
func RowsOfMultiMap[K weft.Key, V weft.Value](t *testing.T, dev device.Device, n int, open Maker[AnyMultiMap[K, V]]) {
	multiKind(multiMapTarget(dev, 0, open)).checkPartialErrors(t, n)
}

func (k kind[S]) checkPartialErrors(t *testing.T, n int) {
	SkipRaced(t, "one call after another")
	for _, f := range slices.Concat(k.forms, k.hostOnly) {
		if !f.adds() {
			continue
		}
		for _, piece := range []int{0, 1 << 9} {
			t.Run(fmt.Sprintf("%s/piece%d", f.name, piece), func(t *testing.T) {
				if piece > 0 {
					t.Cleanup(staging.Configure(k.dev, staging.Settings{PieceBytes: piece, Slots: 3}))
				}
				k.checkPartialHost(t, f, n)
				k.checkPartialCancelled(t, f, n)
				if f.on != nil && piece == 0 {
					k.checkPartialDevice(t, f, n)
				}
			})
		}
	}
}

// refiller is a structure of fixed size with the keys of a batch that have been inserted so far.
type refiller[S Structure] struct {
	kind[S]
	form[S]
	s        S
	inserted map[uint64]bool
}

func (k kind[S]) newRefiller(t testing.TB, f form[S]) *refiller[S] {
	return &refiller[S]{k, f, k.newStructure(t, k.dev), map[uint64]bool{}}
}

func (x *refiller[S]) newRows(n int) *rows {
	r := x.batch(rng(), n)
	for i := range r.Kinds {
		r.Kinds[i] = weft.OpPut
	}
	return r
}

// remainingRows requires an error to describe the effect of a batch. It records the inserted rows,
// deletes them to make space, and returns the rows to run again.
func (x *refiller[S]) remainingRows(t testing.TB, r *rows, err error) *rows {
	t.Helper()
	n := len(r.Keys)
	p := &weft.PartialError{Done: n}
	if err != nil && !errors.As(err, &p) {
		t.Fatalf("%s of %d rows: %v", x.form.name, n, err)
	}
	full, ended := errors.Is(err, weft.ErrFull), errors.Is(err, context.Canceled)
	if p.Done < 0 || p.Done > n || p.Failed != len(p.Rows) || full && p.Failed == 0 || p.Failed > 0 && !full && !ended {
		t.Fatalf("%s of %d rows: Done %d, Failed %d, %d Rows: %v", x.form.name, n, p.Done, p.Failed, len(p.Rows), err)
	}
	failed := make([]bool, n)
	for i, row := range p.Rows {
		if row < 0 || row >= p.Done || i > 0 && row <= p.Rows[i-1] {
			t.Fatalf("%s: row %d is number %d of those that failed, of %d: %v", x.form.name, row, i, p.Done, err)
		}
		failed[row] = true
	}
	found, retry, deleted := make([]bool, n), &rows{}, []uint64{}
	_, err = x.lookup(ctx(), x.s, r.Keys, make([]uint64, n), found)
	must(t, err)
	for i, key := range r.Keys {
		if in := i < p.Done && !failed[i]; found[i] != in {
			t.Fatalf("%s: Done is %d, row %d failed: %v; it is there: %v", x.form.name, p.Done, i, failed[i], found[i])
		}
		if found[i] {
			if x.inserted[key] {
				t.Fatalf("%s: row %d is there again", x.form.name, i)
			}
			x.inserted[key] = true
			deleted = append(deleted, key)
			continue
		}
		retry.Kinds, retry.Keys, retry.Vals = append(retry.Kinds, r.Kinds[i]), append(retry.Keys, key), append(retry.Vals, r.Vals[i])
		retry.OK, retry.Counts = append(retry.OK, true), append(retry.Counts, ^uint32(0))
	}
	_, err = x.remove(ctx(), x.s, deleted, nil)
	must(t, err)
	return retry
}

// checkOutputs requires the outputs of a batch in host memory to agree with its error.
func (x *refiller[S]) checkOutputs(t testing.TB, was, is *rows, err error) {
	t.Helper()
	var p *weft.PartialError
	if !errors.As(err, &p) {
		return
	}
	x.checkZeroFrom(t, x.form, was, is, p.Done)
	for _, row := range p.Rows {
		x.checkZeroFrom(t, x.form, was.part(row, row+1), is.part(row, row+1), 0)
	}
}

// runToEnd runs a batch, and then repeatedly the remaining rows, until no row is left.
func (x *refiller[S]) runToEnd(t testing.TB, r *rows, run func(r *rows) error) {
	t.Helper()
	n := len(r.Keys)
	for tries := 0; len(r.Keys) > 0; tries++ {
		if tries > 100 {
			t.Fatalf("%s: %d rows of %d are left after %d tries", x.form.name, len(r.Keys), n, tries)
		}
		r = x.remainingRows(t, r, run(r))
	}
	if len(x.inserted) != n {
		t.Fatalf("%s: %d rows of %d have been in", x.form.name, len(x.inserted), n)
	}
}

func (k kind[S]) checkPartialHost(t testing.TB, f form[S], n int) {
	t.Helper()
	x, full := k.newRefiller(t, f), false
	x.runToEnd(t, x.newRows(n), func(r *rows) error {
		got := r.clone()
		_, err := f.host(ctx(), x.s, got)
		x.checkOutputs(t, r, got, err)
		full = full || errors.Is(err, weft.ErrFull)
		return err
	})
	if !full {
		t.Fatalf("%s of %d rows found room for all", f.name, n)
	}
}

// checkPartialCancelled tests a form with a context that ends after an increasing number of checks.
func (k kind[S]) checkPartialCancelled(t testing.TB, f form[S], n int) {
	t.Helper()
	x, nChecks := k.newRefiller(t, f), int64(1)
	x.runToEnd(t, x.newRows(n), func(r *rows) error {
		got := r.clone()
		_, err := f.host(&countdown{ctx(), newCount(nChecks)}, x.s, got)
		if err != nil && !errors.Is(err, weft.ErrFull) && !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: %v", f.name, err)
		}
		x.checkOutputs(t, r, got, err)
		nChecks += 1 + nChecks/2
		return err
	})
}

// checkPartialDevice tests the On form of a method. One Sync reports on two batches.
func (k kind[S]) checkPartialDevice(t testing.TB, f form[S], n int) {
	t.Helper()
	x, st, full := k.newRefiller(t, f), devicetest.NewStream(t, k.dev), false
	x.runToEnd(t, x.newRows(n), func(r *rows) error {
		half, n := len(r.Keys)/3, len(r.Keys)
		c := k.upload(t, st, r)
		must(t, f.on(x.s, st, c.part(0, half)))
		must(t, f.on(x.s, st, c.part(half, n)))
		err := x.s.Sync(ctx())
		full = full || errors.Is(err, weft.ErrFull)
		got := r.clone()
		c.download(t, st, got)
		var p *weft.PartialError
		if errors.As(err, &p) {
			if p.Done != n {
				t.Fatalf("%sOn of %d rows: %v", f.name, n, err)
			}
			for _, i := range p.Rows {
				if f.optional && got.OK[i] || f.loads && got.Vals[i] != r.Vals[i] {
					t.Fatalf("%sOn: row %d failed; its outputs are %#x, %v", f.name, i, got.Vals[i], got.OK[i])
				}
			}
		}
		if err := x.s.Sync(ctx()); err != nil {
			t.Fatalf("%sOn: Sync again: %v", f.name, err)
		}
		return err
	})
	if !full {
		t.Fatalf("%sOn of %d rows found room for all", f.name, n)
	}
}
