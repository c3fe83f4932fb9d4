package core_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

// Check must report each of several faults of a table.
func TestCheckReports(t *testing.T) {
	for want, breaks := range map[string]func(e *toy){
		"":                                  func(*toy) {},
		"key 0x7 is stored where no lookup": func(e *toy) { e.hides = 7 },
		"the counters say 12 pairs, but there are 10": func(e *toy) { e.counts = 2 },
		"there are 11":            func(e *toy) { e.doubles = true },
		"key 0x1 is stored twice": func(e *toy) { e.doubles, e.counts = true, 1 },
	} {
		m, e := toyMap[uint32, uint64](t)
		keys := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
		if _, err := m.Put(t.Context(), keys, make([]uint64, 10)); err != nil {
			t.Fatal(err)
		}
		breaks(e)
		err := m.Check(t.Context())
		if want == "" && err != nil || want != "" && (!errors.Is(err, weft.ErrCorrupt) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A page must grow until it holds its pairs. An iteration that ends early must free its memory.
func TestPagesGrow(t *testing.T) {
	m, table := toyMulti[uint64, uint32](t)
	keys := slices.Repeat([]uint64{1, 2, 3}, 1000)
	vals := make([]uint32, len(keys))
	for i := range vals {
		vals[i] = uint32(i)
	}
	if _, err := m.Put(t.Context(), keys, vals); err != nil {
		t.Fatal(err)
	}
	defer func(was int) { core.PageBytes = was }(core.PageBytes)
	for _, core.PageBytes = range []int{1, 40, 4 << 20} {
		next, pages := map[uint64]uint32{1: 0, 2: 1, 3: 2}, 0
		for p, err := range m.Pages(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			pages++
			for i, k := range p.Keys {
				if p.Vals[i] != next[k] {
					t.Fatalf("key %d has value %d, want %d", k, p.Vals[i], next[k])
				}
				next[k] += 3
			}
		}
		if want := map[int]int{1: 3, 40: 2, 4 << 20: 1}[core.PageBytes]; pages != want || next[3] != 3002 {
			t.Errorf("pages of %d bytes: %d, want %d; the last value is %d", core.PageBytes, pages, want, next[3])
		}
	}
	for range m.Pages(t.Context()) {
		break
	}
	if table.Leases.Held() {
		t.Error("an iteration that was ended holds its lease")
	}
}

// Results larger than the limit must be rejected before their memory is allocated. Results of
// exactly the limit must be accepted.
func TestResultLimit(t *testing.T) {
	m, table := toyMulti[uint32, uint64](t)
	if _, err := m.Put(t.Context(), make([]uint32, 100), make([]uint64, 100)); err != nil {
		t.Fatal(err)
	}
	hot := make([]uint32, 5) // 500 values
	for limit, want := range map[int]error{4000: nil, 3999: device.ErrMemory, 0: nil} {
		table.ResultLimit = limit
		rows := weft.Rows[uint64]{Offsets: []uint64{0, 1}, Vals: []uint64{77}}
		err := m.GetAll(t.Context(), hot, &rows)
		if !errors.Is(err, want) || err == nil && rows.Len() != 6 || err != nil && (rows.Len() != 1 || len(rows.Vals) != 1) {
			t.Errorf("limit %d: %d rows with %d values, %v", limit, rows.Len(), len(rows.Vals), err)
		}
		if err != nil && !strings.Contains(err.Error(), "500 rows of 8 bytes") {
			t.Error(err)
		}
	}
}

// If many calls append to the same Rows, it must grow only occasionally, not in each call.
func TestRowsGrow(t *testing.T) {
	m, _ := toyMulti[uint32, uint64](t)
	if _, err := m.Put(t.Context(), []uint32{1, 1, 1}, []uint64{5, 6, 7}); err != nil {
		t.Fatal(err)
	}
	var rows weft.Rows[uint64]
	moves := 0
	for i := range 1000 {
		had := [2]int{cap(rows.Offsets), cap(rows.Vals)}
		if err := m.GetAll(t.Context(), []uint32{1}, &rows); err != nil {
			t.Fatal(err)
		}
		if had != [2]int{cap(rows.Offsets), cap(rows.Vals)} {
			moves++
		}
		if rows.Len() != i+1 || !slices.Equal(rows.Row(i), []uint64{5, 6, 7}) || !slices.Equal(rows.Row(0), []uint64{5, 6, 7}) {
			t.Fatal(i, rows.Len(), rows.Row(i))
		}
	}
	if moves > 50 {
		t.Errorf("rows moved %d times in 1000 calls", moves)
	}
}

// The error must list the rows that overflowed, and all other rows must have been done.
func TestPartialErrors(t *testing.T) {
	m, e := toyMap[uint32, uint32](t)
	e.room = 3
	keys := []uint32{1, 2, 3, 4, 5}
	ok := make([]bool, 5)
	n, err := m.PutNew(t.Context(), keys, keys, ok)
	var p *weft.PartialError
	if n != 3 || !errors.As(err, &p) || p.Done != 5 || p.Failed != 2 || !slices.Equal(p.Rows, []int{3, 4}) || !errors.Is(err, weft.ErrFull) || !slices.Equal(ok, []bool{true, true, true, false, false}) {
		t.Errorf("%d, %v, %v", n, err, ok)
	}
	if m.Len() != 3 {
		t.Errorf("Len = %d", m.Len())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	vals, found := []uint32{9, 9, 9, 9, 9}, []bool{true, true, true, true, true}
	n, err = m.Get(ended, keys, vals, found)
	if n != 0 || !errors.As(err, &p) || p.Done != 0 || p.Failed != 0 || !errors.Is(err, context.Canceled) || slices.Max(vals) != 0 || slices.Contains(found, true) {
		t.Errorf("%d, %v, %v, %v", n, err, vals, found)
	}
	if got := err.Error(); got != "toy: Get: 0 operations done: context canceled" {
		t.Error(got)
	}
}

// Mixed batches of several chunks must run to their end despite operations that overflow. A failure
// of the structure must end them.
func TestApplyInChunks(t *testing.T) {
	m, e := toyMap[uint64, uint64](t)
	e.room = 10
	ops := make([]weft.Op[uint64, uint64], core.ChunkOps+100)
	for i := range ops {
		ops[i] = weft.Op[uint64, uint64]{Kind: weft.OpGet, Key: 1}
	}
	res := make([]weft.Result[uint64], len(ops))
	if err := m.Apply(t.Context(), ops, res); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range res {
		res[i].OK = true
	}
	err := m.Apply(t.Context(), ops, res)
	var p *weft.PartialError
	if !errors.As(err, &p) || p.Done != 0 || !errors.Is(err, weft.ErrClosed) || slices.ContainsFunc(res, func(r weft.Result[uint64]) bool { return r.OK }) {
		t.Errorf("Apply after Close: %v", err)
	}
	ops[7].Kind, res[7].OK = weft.OpDeleteAll, true
	if err := m.Apply(t.Context(), ops, res); res[7].OK || !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "operation 7") {
		t.Errorf("Apply with a DeleteAll: %v", err)
	}
}
