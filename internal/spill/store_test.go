package spill

import (
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/devicetest"
)

// drawPage draws n rows of columns of all types and forms.
func drawPage(t testing.TB, r *rand.Rand, n int) []column.Column {
	page := make([]column.Column, len(forms))
	for form := range page {
		page[form] = draw(t, r, form, n)
	}
	return page
}

// A store has the appended rows, even after rows were removed and chunks were rewritten.
func TestStore(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		var s *Store
		if s.Len() != 0 || s.Bytes() != 0 {
			t.Fatal("a nil store has rows")
		}
		s.Reset()
		s.Free()
		for round := range 3 {
			var want [][]column.Column
			for range 1 + r.IntN(4) {
				n := r.IntN(40)
				if r.IntN(10) == 0 {
					n = minParallelRows + r.IntN(100)
				}
				page := drawPage(t, r, n)
				if s == nil {
					types := make([]column.Type, len(page))
					for i, c := range page {
						types[i] = c.Type()
					}
					s = NewStore(nil, types)
				}
				check(t, s.Append(dev, page))
				want = append(want, page)
			}
			all, err := Join(want)
			check(t, err)
			equalColumns(t, s.View(), all)
			if n := s.Len(); n > 0 {
				view, err := s.ViewWithNull(dev)
				check(t, err)
				equalColumns(t, Slice(view, 0, n), all)
				for i, c := range view {
					if s.Len() != n || c.Len() != n+1 || !c.Null(n) {
						t.Fatalf("seed %d: column %d has no null after %d rows", seed, i, n)
					}
				}
			}
			var odd []uint32 // rows to keep
			for i := range all[0].Len() {
				if i%2 == 1 {
					odd = append(odd, uint32(i))
				}
			}
			at := 0
			check(t, s.Rewrite(dev, 1<<10, func(chunk []column.Column) ([]column.Column, error) {
				var rows []uint32
				for i := range chunk[0].Len() {
					if (at+i)%2 == 1 {
						rows = append(rows, uint32(i))
					}
				}
				at += chunk[0].Len()
				return Take(dev, chunk, rows), nil
			}))
			equalColumns(t, s.View(), Take(dev, all, odd))
			if s.Reset(); s.Len() != 0 || round == 2 {
				s.Free()
			}
		}
	}
}

// A Taker returns the same rows as Take, call after call.
func TestTaker(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	r := rand.New(rand.NewPCG(7, 8))
	var taker Taker
	for range 40 {
		n := 1 + r.IntN(100)
		if r.IntN(10) == 0 {
			n = 2*takeGrain + r.IntN(100)
		}
		page, rows := drawPage(t, r, n), make([]uint32, r.IntN(2*n))
		for i := range rows {
			rows[i] = uint32(r.IntN(n))
		}
		equalColumns(t, taker.Take(dev, page, rows), Take(dev, page, rows))
	}
}
