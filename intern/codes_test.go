package intern

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/op"
)

// codedColumn returns a column of codes. Its dictionary has a random order, and some values twice.
func codedColumn(rng *rand.Rand, n, domain int, nulls bool) column.Column {
	dict := make([]string, domain+domain/4)
	for i := range dict {
		dict[i] = fmt.Sprint("value ", i%domain)
	}
	rng.Shuffle(len(dict), func(i, j int) { dict[i], dict[j] = dict[j], dict[i] })
	codes := make([]uint32, n)
	for i := range codes {
		codes[i] = uint32(rng.IntN(len(dict)))
	}
	c := must(column.OfCodes(codes, column.OfStrings(dict)))
	if nulls {
		c = withNulls(rng, c)
	}
	return c
}

// Rows of codes have the ids of their values. Batches have different dictionaries or no codes, and
// tables have one to five columns.
func TestCodes(t *testing.T) {
	dev := devicetest.Open(t)
	for columns := 1; columns <= 5; columns++ {
		for _, nulls := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d columns, nulls %v", columns, nulls), func(t *testing.T) {
				table, m := open(t, dev, 0, nil), newModel()
				table.chunk = 1700
				rng := rand.New(rand.NewPCG(uint64(columns), 3))
				fast := 0
				for batch := range 8 {
					var cols []column.Column
					n := []int{5000, minCoded, 100}[batch%3]
					for range columns {
						cols = append(cols, codedColumn(rng, n, 3+rng.IntN(4), nulls))
					}
					if batch == 3 { // one without codes
						s := make([]string, n)
						for i := range s {
							s[i] = string(cols[0].Bytes(i))
						}
						cols[0] = column.OfStrings(s)
					}
					if distinctCodes(cols) != nil {
						fast++
					}
					checkRows(t, table, m, cols)
				}
				if fast == 0 && columns < 5 {
					t.Error("no batch went by its codes")
				}
				m.agreeRows(t, table)
			})
		}
	}
}

// A column of codes in a table of byte strings, for which null is an error.
func TestCodesOfColumn(t *testing.T) {
	table := open(t, devicetest.Open(t), 0, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	m := newModel()
	for _, n := range []int{3000, 10} {
		c := codedColumn(rng, n, 50, false)
		s := make([]string, n)
		for i := range s {
			s[i] = string(c.Bytes(i))
		}
		ids, found := make([]uint32, n), make([]bool, n)
		added, err := table.Column(t.Context(), c, ids)
		if want, fresh := m.add(s); err != nil || added != fresh || !slices.Equal(ids, want) {
			t.Fatalf("%d added, %v, want %d", added, err, fresh)
		}
		hits, err := table.FindColumn(t.Context(), c, ids, found)
		m.checkFound(t, s, ids, found, hits, err)
	}
	if _, err := table.Column(t.Context(), codedColumn(rng, 3000, 5, true), make([]uint32,
		3000)); err == nil {
		t.Error("null is no error")
	}
	m.check(t, table)
}

// Calls that end early have processed the first rows, for any codes.
func TestCodesEndEarly(t *testing.T) {
	dev := devicetest.Open(t)
	rng := rand.New(rand.NewPCG(7, 8))
	cols := []column.Column{codedColumn(rng, 6000, 40, true), codedColumn(rng, 6000, 40, false)}
	batch := texts(cols, 6000)
	ended := 0
	check := func(table *Table, ctx context.Context) {
		m := newModel()
		ids := slices.Repeat([]uint32{7}, len(batch))
		added, err := table.Rows(ctx, cols, ids)
		done := len(batch)
		var p *op.PartialError
		if errors.As(err, &p) {
			done = p.Done
		}
		want, fresh := m.add(batch[:done])
		if added != fresh || !slices.Equal(ids[:done], want) || slices.Max(append(ids[done:],
			0)) != 0 {
			t.Fatalf("%d rows done, %d keys added, want %d", done, added, fresh)
		}
		if m.agreeRows(t, table); done > 0 && done < len(batch) {
			ended++
		}
	}
	for left := range 30 {
		table := open(t, dev, 0, nil)
		table.chunk = 1100
		check(table, &countdown{t.Context(), left})
	}
	if ended == 0 {
		t.Error("no context ended half way")
	}
	ended = 0
	for _, most := range []int64{30_000, 60_000, 90_000} {
		check(open(t, dev, 0, &Options{MaxBytes: most}), t.Context())
	}
	if ended == 0 {
		t.Error("no limit ended a call half way")
	}
}

// Goroutines that add codes at the same time get the same ids.
func TestCodesTogether(t *testing.T) {
	table := open(t, devicetest.Open(t), 0, nil)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 0))
			for range 5 {
				cols := []column.Column{codedColumn(rng, 2000, 9, true), codedColumn(rng, 2000, 9,
					false)}
				ids := make([]uint32, 2000)
				if _, err := table.Rows(t.Context(), cols, ids); err != nil {
					t.Error(err)
					return
				}
				again := make([]uint32, 2000)
				if hits, err := table.FindRows(t.Context(), cols, again, nil); err != nil ||
					hits != 2000 || !slices.Equal(ids, again) {
					t.Errorf("%d hits, %v", hits, err)
				}
			}
		})
	}
	all.Wait()
}
