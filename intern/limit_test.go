package intern

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/arena"
	"github.com/weftgo/weft/internal/op"
)

// A table that may take so much memory never takes more, and tells how many rows have
// been done: those have their ids, and the others can be given another table.
func TestMaxBytes(t *testing.T) {
	dev := devicetest.Open(t)
	rapid.Check(t, func(t *rapid.T) {
		limit := int64(rapid.IntRange(50_000, 3_000_000).Draw(t, "limit"))
		table, err := newTable(dev, &Options{MaxBytes: limit}, weak(0))
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
		m.agree(t, table)
	})
}

func TestOptions(t *testing.T) {
	dev := devicetest.Open(t)
	for _, o := range []Options{{MaxBytes: -1}, {MaxBytes: 100}, {Capacity: -1}, {Capacity: 1_000_000, MaxBytes: 1 << 20}} {
		if _, err := New(dev, &o); !errors.Is(err, op.ErrOptions) || !strings.HasPrefix(err.Error(), "intern: New: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// What a host's index is said to need for some keys is what it gets by reserving, one part that grows at a time; then it does not
// grow, and has the numbers that one has which grows as it likes.
func TestEstimate(t *testing.T) {
	host, ok := devicetest.Open(t).(device.Host)
	if !ok {
		t.Skip("the index of a host")
	}
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x, free := newInHost(host.Parallel, 0, true), newInHost(host.Parallel, 0, false)
		for range 4 {
			keys := make([]uint64, rapid.IntRange(1, 10_000).Draw(t, "keys"))
			for i := range keys {
				keys[i] = arena.Mix(uint64(rng.IntN(20_000)))
			}
			numbers, others, found := make([]uint32, len(keys)), make([]uint32, len(keys)), make([]bool, len(keys))
			e, err := x.estimate(ctx)
			if err := errors.Join(err, x.find(ctx, keys, numbers, found)); err != nil {
				t.Fatal(err)
			}
			need, most := int64(0), int64(0)
			for i := range x.parts {
				most = max(most, bytesOf(len(x.parts[i].slots)))
			}
			for i, key := range keys {
				if !found[i] {
					need = e.with(key)
				}
			}
			if err := x.reserve(ctx, keys, found, len(keys)); err != nil {
				t.Fatal(err)
			}
			reserved, _ := x.size(ctx)
			if need > 0 && (need < reserved || need > reserved+most) {
				t.Fatalf("%d bytes, said to need %d, and the largest part had %d", reserved, need, most)
			}
			first, _, _ := x.assign(ctx, keys, numbers)
			if size, _ := x.size(ctx); size != reserved {
				t.Fatalf("%d bytes were reserved, and now it has %d", reserved, size)
			}
			if want, _, _ := free.assign(ctx, keys, others); !slices.Equal(first, want) || !slices.Equal(numbers, others) || x.len() != free.len() {
				t.Fatal("other numbers")
			}
		}
	})
}
