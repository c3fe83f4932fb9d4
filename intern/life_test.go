package intern

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/op"
)

// On a GPU the index is a map, and ids are the same. The test covers colliding hashes, chunks, and
// all kinds of rows.
func TestSimulated(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev, err := sim.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, bits := range []int{0, 3} {
		for name, shape := range shapes {
			t.Run(fmt.Sprint(name, bits), func(t *testing.T) {
				table, m := open(t, dev, bits, &Options{Capacity: 64}), newModel()
				table.chunk = 50
				rng := rand.New(rand.NewPCG(9, 9))
				for _, n := range []int{1, 120} {
					checkRows(t, table, m, shape(rng, n, 40))
				}
				m.agreeRows(t, table)
				loaded := reload(t, dev, table)
				defer loaded.Close()
				m.agreeRows(t, loaded)
			})
		}
	}
	table, m := open(t, dev, 0, &Options{MaxBytes: 40_000}), newModel()
	batch := stringsOf(rand.New(rand.NewPCG(1, 1)), 3000, 1500)
	ids := make([]uint32, len(batch))
	_, err = table.Strings(t.Context(), batch, ids)
	var p *op.PartialError
	if !errors.As(err, &p) || !errors.Is(err, op.ErrFull) || p.Done < 100 {
		t.Fatal(err)
	}
	if want, _ := m.add(batch[:p.Done]); !slices.Equal(ids[:p.Done], want) {
		t.Fatal("other ids")
	}
	if used, err := table.Memory(t.Context()); err != nil || used > 40_000 {
		t.Error(used, err)
	}
	m.check(t, table)
}

// countdown is a context that ends after a number of checks.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// If the context of a call ends, the call has processed the first rows of its batch and no others.
func TestCancelled(t *testing.T) {
	dev := devicetest.Open(t)
	batch := stringsOf(rand.New(rand.NewPCG(3, 3)), 1000, 300)
	ended := false
	for left := range 30 {
		table, m := open(t, dev, 0, nil), newModel()
		table.chunk = 100
		ids, found := slices.Repeat([]uint32{7}, len(batch)), make([]bool, len(batch))
		added, err := table.Strings(&countdown{t.Context(), left}, batch, ids)
		done := len(batch)
		var p *op.PartialError
		if errors.As(err, &p) {
			if done = p.Done; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		want, fresh := m.add(batch[:done])
		if added != fresh || !slices.Equal(ids[:done], want) || slices.Max(append(ids[done:], 0)) != 0 {
			t.Fatalf("%d rows done, %d keys added, want %d; ids %d", done, added, fresh, ids)
		}
		ended = ended || done > 0 && done < len(batch)
		m.check(t, table)
		hits, err := table.FindStrings(&countdown{t.Context(), left}, batch, ids, found)
		if errors.As(err, &p) && !errors.Is(err, context.Canceled) || err == nil && hits == 0 && done > 0 {
			t.Fatal(hits, err)
		}
		if left == 0 && (err == nil || p.Done != 0) {
			t.Fatal(err)
		}
	}
	if !ended {
		t.Error("no call ended half way")
	}
}

// Goroutines add, find and read concurrently. A waiting call that adds returns if its context ends.
func TestTogether(t *testing.T) {
	table := open(t, devicetest.Open(t), 0, nil)
	table.chunk = 500
	all := make(map[string]uint32)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 4))
			for range 10 {
				batch := stringsOf(rng, 2000, 3000)
				ids, found := make([]uint32, len(batch)), make([]bool, len(batch))
				if _, err := table.Strings(t.Context(), batch, ids); err != nil {
					t.Error(err)
				}
				again := make([]uint32, len(batch))
				if hits, err := table.FindStrings(t.Context(), batch, again, found); hits != len(batch) || err != nil || !slices.Equal(ids, again) {
					t.Errorf("%d found, %v", hits, err)
				}
				mu.Lock()
				for i, k := range batch {
					if id, ok := all[k]; ok && id != ids[i] || string(table.At(ids[i])) != k {
						t.Errorf("%q has ids %d and %d, which is %q", k, id, ids[i], table.At(ids[i]))
					}
					all[k] = ids[i]
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if table.Len() != len(all) {
		t.Errorf("%d keys, want %d", table.Len(), len(all))
	}
	table.writerLock <- struct{}{}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := table.Strings(ended, []string{"x"}, make([]uint32, 1)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-table.writerLock
}

// Any number of batches of known keys retain no memory.
func TestMemoryStaysFlat(t *testing.T) {
	table := open(t, devicetest.Open(t), 0, nil)
	rng := rand.New(rand.NewPCG(8, 8))
	ids := make([]uint32, 5000)
	var first int64
	for i := range 60 {
		if _, err := table.Strings(t.Context(), stringsOf(rng, len(ids), 200), ids); err != nil {
			t.Fatal(err)
		}
		used, err := table.Memory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i == 10 {
			first = used
		}
		if i > 10 && used > first+first/4 {
			t.Fatalf("%d bytes in batch 10, %d in batch %d", first, used, i)
		}
	}
	if allocs := testing.AllocsPerRun(20, func() {
		if _, err := table.Column(t.Context(), table.Keys(0, 1000), ids[:1000]); err != nil {
			t.Fatal(err)
		}
	}); allocs > float64(20+2*runtime.GOMAXPROCS(0)) { // workers are goroutines
		t.Errorf("%v allocations for a batch of known keys", allocs)
	}
}

// Null is one key, for any number of rows.
func TestMemoryOfNulls(t *testing.T) {
	for _, c := range []column.Column{column.Of(make([]int64, 100_000)), column.OfStrings(make([]string, 100_000))} {
		table := open(t, devicetest.Open(t), 0, &Options{MaxBytes: 100_000})
		c = c.WithValid(column.OfBools(make([]bool, c.Len())))
		if added, err := table.Rows(t.Context(), []column.Column{c}, make([]uint32, c.Len())); added != 1 || err != nil {
			t.Error(added, err)
		}
		if used, err := table.Memory(t.Context()); err != nil || used > 100_000 {
			t.Errorf("%d bytes, %v", used, err)
		}
	}
}

func TestClosed(t *testing.T) {
	table := open(t, devicetest.Open(t), 0, nil)
	ids := make([]uint32, 1)
	if _, err := table.Strings(t.Context(), []string{"x"}, ids); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(table.Close(), table.Close()); err != nil {
		t.Fatal(err)
	}
	_, saving := table.Save(t.Context(), nil)
	_, sizing := table.Memory(t.Context())
	for what, err := range map[string]error{
		"Strings":     errOf(table.Strings(t.Context(), []string{"x"}, ids)),
		"FindRows":    errOf(table.FindRows(t.Context(), []column.Column{column.Of([]int8{})}, nil, nil)),
		"FindBytes":   errOf(table.FindBytes(t.Context(), nil, nil, nil)),
		"FindStrings": errOf(table.FindStrings(t.Context(), []string{"x"}, ids, nil)),
		"Rows":        errOf(table.Rows(t.Context(), []column.Column{column.Of([]int8{1})}, ids)),
		"Save":        saving,
		"Memory":      sizing,
	} {
		if !errors.Is(err, op.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if table.Len() != 0 || table.At(0) != nil || ids[0] != 0 {
		t.Errorf("%d keys, %q, id %d", table.Len(), table.At(0), ids[0])
	}
}

// A column with a null gets no ids, and no ids of an earlier call.
func TestNullColumn(t *testing.T) {
	table := open(t, devicetest.Open(t), 0, nil)
	c := column.OfStrings([]string{"a", "b"}).WithValid(column.OfBools([]bool{true, false}))
	for what, call := range map[string]func(ids []uint32, found []bool) error{
		"Column":     func(ids []uint32, found []bool) error { clear(found); return errOf(table.Column(t.Context(), c, ids)) },
		"FindColumn": func(ids []uint32, found []bool) error { return errOf(table.FindColumn(t.Context(), c, ids, found)) },
	} {
		ids, found := []uint32{7, 7}, []bool{true, true}
		if err := call(ids, found); !errors.Is(err, device.ErrInvalid) || ids[0]+ids[1] != 0 || found[0] || found[1] {
			t.Errorf("%s: %v, ids %v, found %v", what, err, ids, found)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s takes one id for two rows", what)
				}
			}()
			_ = call(ids[:1], found)
		}()
	}
}

// A table does not keep references to memory of callers, even after a short last chunk.
func TestLetsGo(t *testing.T) {
	table := open(t, devicetest.Open(t), 0, nil)
	table.chunk = 2
	for _, rows := range [][][]byte{{[]byte("abcdefgh"), []byte("bcdefghi"), []byte("cdefghij")}, {[]byte("x")}} {
		if _, err := table.Bytes(t.Context(), rows, make([]uint32, len(rows))); err != nil {
			t.Fatal(err)
		}
		s := table.scratch.strings
		for i, kept := range s[:cap(s)] {
			if kept != "" {
				t.Errorf("string %d of a call is kept: %q", i, kept)
			}
		}
	}
}

// Keys of one width do not change when keys of another width are added, and neither do rows.
func TestAnotherWidth(t *testing.T) {
	dev := devicetest.Open(t)
	wide := make([]string, 3000)
	for i := range wide {
		wide[i] = fmt.Sprintf("%016d", i)
	}
	table, m := open(t, dev, 0, nil), newModel()
	rowTable, rowModel := open(t, dev, 0, nil), newModel()
	for _, batch := range [][]string{wide, {"another"}, wide[100:200], {"", wide[7]}} {
		c := columnOf(4, batch)
		ids := make([]uint32, len(batch))
		want, fresh := m.add(batch)
		if added, err := table.Column(t.Context(), c, ids); err != nil || added != fresh || !slices.Equal(ids, want) {
			t.Fatal(added, err)
		}
		checkRows(t, rowTable, rowModel, []column.Column{withNulls(rand.New(rand.NewPCG(3, 2)), c)})
	}
	m.check(t, table)
	rowModel.agreeRows(t, rowTable)
}

// If a device lacks memory for more keys, the call returns an error with the number of rows done.
func TestNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev, err := sim.Open(&sim.Options{Memory: 1 << 17})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	table, m := open(t, dev, 0, nil), newModel()
	table.chunk = 200
	batch := make([]string, 4000)
	for i := range batch {
		batch[i] = fmt.Sprintf("key number %d", i)
	}
	ids := make([]uint32, len(batch))
	added, err := table.Strings(t.Context(), batch, ids)
	var p *op.PartialError
	if !errors.Is(err, device.ErrMemory) || !errors.As(err, &p) || p.Done == 0 || added != p.Done {
		t.Fatal(added, err)
	}
	if want, _ := m.add(batch[:p.Done]); !slices.Equal(ids[:p.Done], want) {
		t.Fatal("other ids")
	}
	m.check(t, table)
}

// Columns from a table with OffHeap outlive it, and the Go heap does not grow with its keys.
func TestOffHeap(t *testing.T) {
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("the index of a host")
	}
	rng := rand.New(rand.NewPCG(5, 5))
	batch := stringsOf(rng, 200_000, 1<<30)
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	ids := make([]uint32, len(batch))
	before := live()
	table, err := New(dev, &Options{OffHeap: true})
	if err != nil {
		t.Fatal(err)
	}
	for lo := 0; lo < len(batch); lo += 10_000 { // the working memory of calls does not count
		if _, err := table.Strings(t.Context(), batch[lo:lo+10_000],
			ids[lo:lo+10_000]); err != nil {
			t.Fatal(err)
		}
	}
	used, err := table.Memory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if grown := int64(live() - before); grown > 3<<20 || used < 8<<20 {
		t.Errorf("the heap grew by %d bytes for a table of %d", grown, used)
	}
	keys, cols := table.Keys(0, table.Len()), table.Columns(0, table.Len())
	for range 2 {
		if err := table.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range batch {
		if id := int(ids[i]); string(keys.Bytes(id)) != s || string(cols[0].Bytes(id)) != s {
			t.Fatalf("key %d is %q after Close, want %q", id, keys.Bytes(id), s)
		}
	}
	if table.At(0) != nil || table.Len() != 0 {
		t.Error("a closed table has keys")
	}
}
