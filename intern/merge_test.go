package intern

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/op"
)

// A merge of two tables gives the same ids as adding all rows to one table.
func TestMerge(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for name, shape := range shapes {
		rng := rand.New(rand.NewPCG(1, 2))
		first, second := shape(rng, 300, 200), shape(rng, 400, 300)
		one, two, all := open(t, dev, 0, nil), open(t, dev, 0, nil), open(t, dev, 0, nil)
		add := func(to *Table, cols []column.Column) []uint32 {
			ids := make([]uint32, cols[0].Len())
			if _, err := to.Rows(t.Context(), cols, ids); err != nil {
				t.Fatal(name, err)
			}
			return ids
		}
		add(one, first)
		local := add(two, second)
		ids, err := one.Merge(t.Context(), two)
		if err != nil {
			t.Fatal(name, err)
		}
		add(all, first)
		for i, want := range add(all, second) {
			if got := ids[local[i]]; got != want {
				t.Fatalf("%s: row %d has id %d, want %d", name, i, got, want)
			}
		}
		if one.Len() != all.Len() || len(ids) != two.Len() {
			t.Errorf("%s: %d keys and %d ids, want %d and %d", name, one.Len(), len(ids),
				all.Len(), two.Len())
		}
	}
}

func TestMergeErrors(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	texts, numbers, closed := open(t, dev, 0, nil), open(t, dev, 0, nil), open(t, dev, 0, nil)
	ids := make([]uint32, 2)
	_, err := texts.Strings(t.Context(), []string{"a", "b"}, ids)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = numbers.Rows(t.Context(), []column.Column{column.Of([]int64{1, 2})},
		ids); err != nil {
		t.Fatal(err)
	}
	if _, err = closed.Strings(t.Context(), []string{"a", "c"}, ids); err != nil {
		t.Fatal(err)
	}
	if got, err := closed.Merge(t.Context(), texts); err != nil || len(got) != 2 || got[0] != 0 ||
		got[1] != 2 {
		t.Errorf("ids %v, %v", got, err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		to, from *Table
		want     error
	}{{texts, texts, device.ErrInvalid}, {texts, numbers, device.ErrInvalid}, {numbers, texts,
		device.ErrInvalid}, {closed, texts, op.ErrClosed}} {
		var p *op.PartialError
		if _, err := c.to.Merge(t.Context(), c.from); !errors.Is(err, c.want) || !errors.As(err,
			&p) || p.Done != 0 {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
	if ids, err := texts.Merge(t.Context(), open(t, dev, 0, nil)); err != nil || len(ids) != 0 {
		t.Errorf("a table without keys: %v, %v", ids, err)
	}
	if texts.Len() != 2 || numbers.Len() != 2 {
		t.Errorf("%d and %d keys after errors", texts.Len(), numbers.Len())
	}
}
