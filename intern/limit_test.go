package intern

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/op"
)

// A table with bounded memory never exceeds the bound, and returns the number of rows done. These
// rows have ids, and the others can be added to another table.
func TestMaxBytes(t *testing.T) {
	dev := devicetest.Open(t)
	rapid.Check(t, func(t *rapid.T) {
		limit := int64(rapid.IntRange(50_000, 3_000_000).Draw(t, "limit"))
		table, err := newTable(dev, &Options{MaxBytes: limit,
			OffHeap: rapid.Bool().Draw(t, "off heap")}, weak(0))
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		m, full := newModel(), false
		length := rapid.SampledFrom([]int{1, 40, 1000, 20_000}).Draw(t, "length")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 12 {
			batch := make([]string, rapid.IntRange(0, max(10, 200_000/length)).Draw(t, "rows"))
			for i := range batch {
				batch[i] = fmt.Sprintf("%*d", 1+rng.IntN(length), rng.IntN(100_000))
			}
			ids := make([]uint32, len(batch))
			added, err := table.Strings(t.Context(), batch, ids)
			done := len(batch)
			var p *op.PartialError
			if errors.As(err, &p) {
				done, full = p.Done, true
				if !errors.Is(err, op.ErrFull) || !strings.Contains(err.Error(), "MaxBytes") {
					t.Fatal(err)
				}
				if _, ok := m.ids[batch[done]]; ok {
					t.Fatalf("stopped at row %d, which is known", done)
				}
			}
			want, fresh := m.add(batch[:done])
			if added != fresh || fmt.Sprint(ids[:done]) != fmt.Sprint(want) {
				t.Fatalf("%d added, want %d; other ids", added, fresh)
			}
			for i, id := range ids[done:] {
				if id != 0 {
					t.Fatalf("row %d, which is not done, has id %d", done+i, id)
				}
			}
			used, err := table.Memory(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if used > limit {
				t.Fatalf("%d bytes, and %d are allowed", used, limit)
			}
			if _, err := table.Strings(t.Context(), m.keys, make([]uint32, len(m.keys))); err != nil {
				t.Fatalf("keys that are there need no memory: %v", err)
			}
		}
		if used, _ := table.Memory(t.Context()); full && length <= 1000 && used < limit/8 {
			t.Fatalf("full at %d bytes of %d", used, limit)
		}
		m.check(t, table)
	})
}

func TestOptions(t *testing.T) {
	dev := devicetest.Open(t)
	for _, o := range []Options{{MaxBytes: -1}, {MaxBytes: 100}, {Capacity: -1}, {Capacity: 1_000_000, MaxBytes: 1 << 20}, {Capacity: maxItems, MaxBytes: 1 << 30}} {
		if _, err := New(dev, &o); !errors.Is(err, op.ErrOptions) || !strings.HasPrefix(err.Error(), "intern: New: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
