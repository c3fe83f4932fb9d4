package core_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// clumsy is a toy on which changes of one kind fail before they do anything, and one lookup fails.
type clumsy struct {
	*toy
	fails op.Kind
	looks int // number of lookups until one fails
}

func (e *clumsy) Lookup(ctx context.Context, s *device.Stream, l *core.Lease, b *batch.Batch, count device.Ptr) (done, hits int, err error) {
	if e.looks--; e.looks == 0 {
		return 0, 0, errBroken
	}
	return e.toy.Lookup(ctx, s, l, b, count)
}

func (e *clumsy) Change(ctx context.Context, s *device.Stream, b *batch.Batch) (done int, failed []uint32, err error) {
	if b.Kind == e.fails {
		return 0, nil, errBroken
	}
	return e.toy.Change(ctx, s, b)
}

// If Assign fails before ids are final, the stored ids must stay and must not be assigned again.
func TestAssignFails(t *testing.T) {
	table, toy := newToy(openCPU(t), core.Map, batch.MapWidths[uint64, int32](), core.MapTypes[uint64, int32]())
	e := &clumsy{toy: toy, fails: op.Put} // this Put would correct the ids after duplicates
	table.Engine = e
	m := weft.NewMap[uint64, int32](table)
	ids := make([]int32, 4)
	var p *weft.PartialError
	n, err := m.Assign(t.Context(), []uint64{7, 7, 8, 9}, ids)
	if n != 3 || !errors.Is(err, errBroken) || !errors.As(err, &p) || p.Done != 0 || !slices.Equal(ids, make([]int32, 4)) {
		t.Errorf("%d are new: %v, %v", n, ids, err)
	}
	e.fails = op.Get
	n, err = m.Assign(t.Context(), []uint64{7, 8, 9, 10}, ids)
	if n != 1 || err != nil || !slices.Equal(ids, []int32{0, 2, 3, 4}) {
		t.Errorf("%d are new: %v, %v", n, ids, err)
	}
	e.fails = op.PutNew
	n, err = m.Assign(t.Context(), []uint64{10, 11, 9}, ids[:3])
	if n != 0 || !errors.Is(err, errBroken) || !errors.As(err, &p) || p.Done != 1 || !slices.Equal(ids[:3], []int32{4, 0, 0}) {
		t.Errorf("%d are new: %v, %v", n, ids[:3], err)
	}
}

// A table opened from a file may hold larger ids than its record of ids says.
func TestAssignBehindThoseOfAFile(t *testing.T) {
	table, toy := newToy(openCPU(t), core.Map, batch.MapWidths[uint64, int32](), core.MapTypes[uint64, int32]())
	m := weft.NewMap[uint64, int32](table)
	ids := make([]int32, 2)
	_, err := m.Assign(t.Context(), []uint64{7, 8}, ids)
	must(t, err)
	c := table.Config
	c.Engine = toy
	again, err := core.Open(t.Context(), c)
	must(t, err)
	_, err = weft.NewMap[uint64, int32](again).Assign(t.Context(), []uint64{9, 7}, ids)
	must(t, err)
	if !slices.Equal(ids, []int32{2, 0}) {
		t.Error(ids)
	}
}

// If a lookup fails, rows without an answer must count as not run. When they run again, they must
// get their answers.
func TestGetOrPutFails(t *testing.T) {
	table, toy := newToy(openCPU(t), core.Map, batch.MapWidths[uint64, int32](), core.MapTypes[uint64, int32]())
	e := &clumsy{toy: toy, fails: op.Get, looks: 2}
	table.Engine = e
	m := weft.NewMap[uint64, int32](table)
	keys, vals, loaded := []uint64{7, 8, 7}, []int32{1, 2, 3}, []bool{true, true, true}
	var p *weft.PartialError
	n, err := m.GetOrPut(t.Context(), keys, vals, loaded)
	if n != 2 || !errors.Is(err, errBroken) || !errors.As(err, &p) || p.Done != 0 || !slices.Equal(vals, []int32{1, 2, 3}) || slices.Contains(loaded, true) {
		t.Errorf("%d are new: %v, %v, %v", n, vals, loaded, err)
	}
	n, err = m.GetOrPut(t.Context(), keys, vals, loaded)
	if n != 0 || err != nil || !slices.Equal(vals, []int32{1, 2, 1}) || slices.Contains(loaded, false) {
		t.Errorf("%d are new: %v, %v, %v", n, vals, loaded, err)
	}
}
