package join_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/join"
)

func open(t testing.TB, dev device.Device, opts *join.Options, keys ...column.Column) *join.Index {
	t.Helper()
	ix, err := join.New(t.Context(), dev, keys, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ix.Close(); err != nil {
			t.Error(err)
		}
	})
	return ix
}

func TestFloats(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	nan, minus := math.NaN(), math.Copysign(0, -1)
	ix := open(t, dev, nil, column.Of([]float64{nan, 0, minus, math.Float64frombits(0x7ff0000000000001), 1}))
	keys := []column.Column{column.Of([]float64{minus, 2, math.Float64frombits(0xffffffffffffffff), 0})}
	want := [][2]uint32{{0, 1}, {0, 2}, {2, 0}, {2, 3}, {3, 1}, {3, 2}}
	if got := collect(t, ix.Inner(t.Context(), keys)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if ix.Distinct() != 3 {
		t.Errorf("%d keys, want NaN, 0 and 1", ix.Distinct())
	}
}

func TestNulls(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	side := func(valid ...bool) column.Column {
		return column.Of(make([]int64, len(valid))).WithValid(column.OfBools(valid))
	}
	right, left := side(false, true, false), side(true, false)
	for _, c := range []struct {
		match    bool
		distinct int
		want     [][2]uint32
	}{
		{false, 1, [][2]uint32{{0, 1}, {1, join.NoRow}}},
		{true, 2, [][2]uint32{{0, 1}, {1, 0}, {1, 2}}},
	} {
		ix := open(t, dev, &join.Options{NullsMatch: c.match}, right)
		if got := collect(t, ix.Left(t.Context(), []column.Column{left})); !slices.Equal(got, c.want) || ix.Distinct() != c.distinct {
			t.Errorf("NullsMatch %v: %v of %d keys, want %v of %d", c.match, got, ix.Distinct(), c.want, c.distinct)
		}
	}
}

// Tables of both kinds exceed a cache, so that rows are distributed to parts, on several cores.
// Sides have more than one piece, and small batches are not distributed.
func TestLarge(t *testing.T) {
	dev := devicetest.OpenCPU(t, 3)
	rng := rand.New(rand.NewPCG(3, 4))
	const rows = 150_000
	for _, c := range []struct {
		name string
		key  func() int64
	}{
		{"far, with duplicates", func() int64 { return rng.Int64N(rows*2/3) * 0x5851f42d4c957f2d }},
		{"far, few duplicates", func() int64 { return rng.Int64() }},
		{"close", func() int64 { return rng.Int64N(3*rows/2) - rows }},
		{"few keys", func() int64 { return rng.Int64N(3) * math.MaxInt64 / 2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			right, valid := make([]int64, rows), make([]bool, rows)
			of := make(map[int64][]uint32)
			for i := range right {
				if right[i], valid[i] = c.key(), i%100 != 0; valid[i] {
					of[right[i]] = append(of[right[i]], uint32(i))
				}
			}
			ix := open(t, dev, nil, column.Of(right).WithValid(column.OfBools(valid)))
			if ix.Distinct() != len(of) {
				t.Errorf("%d keys, want %d", ix.Distinct(), len(of))
			}
			for _, n := range []int{1, 5000, 2 * rows} {
				left := make([]int64, n)
				for i := range left {
					if left[i] = right[rng.IntN(rows)]; i%3 == 0 {
						left[i] = c.key()
					}
				}
				checkCounts(t, ix, left, of)
			}
		})
	}
}

// checkCounts compares the results of Count, and the first pairs.
func checkCounts(t *testing.T, ix *join.Index, left []int64, of map[int64][]uint32) {
	t.Helper()
	keys := []column.Column{column.Of(left)}
	counts := make([]uint32, len(left))
	total, err := ix.Count(t.Context(), keys, counts)
	if err != nil {
		t.Fatal(err)
	}
	var want uint64
	for i, k := range left {
		want += uint64(len(of[k]))
		if counts[i] != uint32(len(of[k])) {
			t.Fatalf("row %d has %d matches, want %d", i, counts[i], len(of[k]))
		}
	}
	if total != want {
		t.Fatalf("%d pairs, want %d", total, want)
	}
	row, at, seen := uint32(0), 0, uint64(0)
	for p, err := range ix.Inner(t.Context(), keys) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Len() {
			for at == len(of[left[row]]) {
				row, at = row+1, 0
			}
			if p.Left[i] != row || p.Right[i] != of[left[row]][at] {
				t.Fatalf("pair %d is %d and %d, want %d and %d", seen, p.Left[i], p.Right[i], row, of[left[row]][at])
			}
			at++
			seen++
		}
		if seen > 1<<21 {
			return
		}
	}
	if seen != total {
		t.Fatalf("%d pairs came, of %d", seen, total)
	}
}

// One key is very frequent on both sides: the pairs come in pieces, and memory does not grow.
func TestSkew(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	const rows = 1_000_000
	ix := open(t, dev, nil, column.Of(make([]int64, rows)))
	keys := []column.Column{column.Of(make([]int64, rows))}
	if total, err := ix.Count(t.Context(), keys, nil); err != nil || total != rows*rows {
		t.Fatalf("%d pairs, %v", total, err)
	}
	built := devicetest.Live(dev).Bytes
	at, pieces := uint64(0), 0
	for p, err := range ix.Inner(t.Context(), keys) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Len() {
			if n := at + uint64(i); uint64(p.Left[i]) != n/rows || uint64(p.Right[i]) != n%rows {
				t.Fatalf("pair %d is %d and %d", n, p.Left[i], p.Right[i])
			}
		}
		if more := devicetest.Live(dev).Bytes - built; more > 48*rows {
			t.Fatalf("%d bytes more while iterating", more)
		}
		at += uint64(p.Len())
		if pieces++; pieces == 30 {
			break
		}
	}
	if at != 30<<18 {
		t.Errorf("%d pairs in %d pieces", at, pieces)
	}
}

func TestEmptySides(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	none, some := column.Of([]int32{}), column.Of([]int32{0, 1})
	empty := open(t, dev, nil, none)
	if empty.Len() != 0 || empty.Distinct() != 0 {
		t.Errorf("%d rows, %d keys", empty.Len(), empty.Distinct())
	}
	compare(t, empty, modelOf([]column.Column{none}, false).answers([]column.Column{some}, false), []column.Column{some})
	compare(t, empty, answers{}, []column.Column{none})
	compare(t, open(t, dev, nil, some), answers{}, []column.Column{none})
	nulls := some.WithValid(column.OfBools([]bool{false, false}))
	compare(t, open(t, dev, nil, nulls), model{}.answers([]column.Column{some}, false), []column.Column{some})
}

func TestRefuses(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	i64, i32, u64 := column.Of([]int64{1}), column.Of([]int32{1}), column.Of([]uint64{1})
	made := func(opts *join.Options, keys ...column.Column) error {
		ix, err := join.New(t.Context(), dev, keys, opts)
		if err == nil {
			ix.Close()
		}
		return err
	}
	ix := open(t, dev, nil, i64)
	asked := func(keys ...column.Column) (err error) {
		for _, e := range ix.Inner(t.Context(), keys) {
			err = e
		}
		return err
	}
	for _, c := range []struct {
		err     error
		message string
	}{
		{made(nil), "join: New: "},
		{made(nil), "no key columns"},
		{made(nil, i64, column.Column{}), "key column 1 has no type"},
		{made(&join.Options{Piece: -1}, i64), "Piece -1 is negative"},
		{asked(i32), "join: Inner: "},
		{asked(i32), "key column 0 holds int32, want int64"},
		{asked(u64), "holds uint64"},
		{asked(i64, i64), "2 key columns, want 1"},
		{asked(), "0 key columns"},
	} {
		if !errors.Is(c.err, weft.ErrOptions) || !strings.Contains(c.err.Error(), c.message) {
			t.Errorf("%v, want %q", c.err, c.message)
		}
	}
	two := column.Of([]int64{1, 2})
	for name, f := range map[string]func(){
		"New":      func() { made(nil, i64, two) },
		"Count":    func() { ix.Count(t.Context(), []column.Column{two}, make([]uint32, 1)) },
		"Contains": func() { ix.Contains(t.Context(), []column.Column{two}, make([]bool, 3)) },
	} {
		func() {
			defer func() {
				if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "join: ") {
					t.Errorf("%s: lengths that differ: %v", name, s)
				}
			}()
			f()
		}()
	}
}

func TestEndedContext(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	keys := []column.Column{column.Of(make([]int64, 1000))}
	ended, cancel := context.WithCancel(t.Context())
	defer cancel()
	ix := open(t, dev, &join.Options{Piece: 10}, keys...)
	pieces, last := 0, error(nil)
	for p, err := range ix.Inner(ended, keys) {
		if last = err; err == nil {
			pieces++
			cancel()
		} else if p.Len() != 0 {
			t.Errorf("%d pairs with an error", p.Len())
		}
	}
	if pieces != 1 || !errors.Is(last, context.Canceled) || !strings.Contains(last.Error(), "join: Inner: ") {
		t.Errorf("%d pieces, then %v", pieces, last)
	}
	if _, err := join.New(ended, dev, keys, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("New: %v", err)
	}
	if rows, err := ix.Semi(ended, keys, []uint32{5}); !errors.Is(err, context.Canceled) || !slices.Equal(rows, []uint32{5}) {
		t.Errorf("Semi: %v, %v", rows, err)
	}
	if _, err := ix.Count(ended, keys, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Count: %v", err)
	}
}

// cancelAfter is a context that ends after a number of checks.
type cancelAfter struct {
	context.Context
	left atomic.Int64
}

func (c *cancelAfter) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// If a context ends anywhere, the call returns its error and frees all memory.
func TestContextEndsMeanwhile(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	left, right := sides(600_000, 100_000, 80_000, math.MaxInt32)
	for n := int64(0); ; n += 1 + n/4 {
		ctx := &cancelAfter{Context: t.Context()}
		ctx.left.Store(n)
		ix, err := join.New(ctx, dev, []column.Column{column.Of(right)}, nil)
		if err == nil {
			for _, e := range ix.Inner(ctx, []column.Column{column.Of(left)}) {
				err = e
			}
			if err := ix.Close(); err != nil {
				t.Error(err)
			}
		}
		if live := devicetest.Live(dev); live.Bytes != 0 {
			t.Fatalf("after %d questions: %+v are left", n, live)
		}
		if err == nil && ctx.left.Load() >= 0 {
			if n < 50 {
				t.Errorf("the context was asked %d times", n-ctx.left.Load())
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d questions: %v", n, err)
		}
	}
}

// A stopped iteration frees its memory. An iteration in progress keeps a closed index.
func TestCloseAndBreak(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	before := devicetest.Live(dev)
	keys := []column.Column{column.Of([]int64{1, 1, 1})}
	ix, err := join.New(t.Context(), dev, keys, &join.Options{Piece: 2})
	if err != nil {
		t.Fatal(err)
	}
	built := devicetest.Live(dev)
	for range ix.Inner(t.Context(), keys) {
		break
	}
	if got := devicetest.Live(dev); got != built {
		t.Errorf("%+v are left of an iteration, %+v before it", got, built)
	}
	pairs := 0
	for p, err := range ix.Inner(t.Context(), keys) {
		if err != nil || ix.Close() != nil {
			t.Fatal(err)
		}
		pairs += p.Len()
	}
	if pairs != 9 {
		t.Errorf("%d pairs of an index closed meanwhile", pairs)
	}
	if got := devicetest.Live(dev); got != before {
		t.Errorf("%+v are left, %+v before", got, before)
	}
	if _, err := ix.Contains(t.Context(), keys, nil); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Contains of a closed index: %v", err)
	}
	for _, err := range ix.Left(t.Context(), keys) {
		if !errors.Is(err, weft.ErrClosed) {
			t.Errorf("Left of a closed index: %v", err)
		}
	}
	if ix.Distinct() != 0 || ix.Close() != nil {
		t.Error("a closed index has keys or an error")
	}
}

// Every allocation fails once. Earlier allocations are freed.
func TestNoMemory(t *testing.T) {
	right, left := sides(100_000, 150_000, 80_000, math.MaxInt32)
	failEvery(t, 8, func() device.Device { return devicetest.OpenCPU(t, 2) }, func(dev device.Device) error {
		return joinAll(t, dev, column.Of(right), column.Of(left))
	})
	texts := column.OfStrings([]string{"a", "b", "c"})
	failEvery(t, 5, func() device.Device { return devicetest.OpenCPU(t, 2) }, func(dev device.Device) error {
		return joinAll(t, dev, texts, texts)
	})
}

func TestNoMemoryOnGPU(t *testing.T) {
	open := func() device.Device { return openGPU(t) }
	keys := column.Of([]int16{1, 2, 3, 1})
	failEvery(t, 8, open, func(dev device.Device) error { return joinAll(t, dev, keys, keys) })
	failEvery(t, 12, open, func(dev device.Device) (err error) {
		s, err := dev.NewStream()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		keys, err := device.Upload(s, []int32{1, 2, 1})
		if err != nil {
			return err
		}
		// the copy may still be in progress
		defer func() { err = errors.Join(err, s.Sync(t.Context()), keys.Free()) }()
		ix, err := join.NewOn(t.Context(), s, keys)
		if err != nil {
			return err
		}
		m, err := ix.Matches(3)
		if err != nil {
			return errors.Join(err, ix.Close())
		}
		return errors.Join(m.FindOn(s, keys), s.Sync(t.Context()), m.Close(), ix.Close())
	})
}

// joinAll reads the pairs of two columns.
func joinAll(t *testing.T, dev device.Device, right, left column.Column) error {
	ix, err := join.New(t.Context(), dev, []column.Column{right}, nil)
	if err != nil {
		return err
	}
	for _, e := range ix.Inner(t.Context(), []column.Column{left}) {
		err = e
	}
	return errors.Join(err, ix.Close())
}

// failEvery calls run on a new device each time, until run succeeds. Each device refuses one
// allocation, later than the device before. It requires at least minAllocs failures.
func failEvery(t *testing.T, minAllocs int, open func() device.Device, run func(device.Device) error) {
	t.Helper()
	for n := 0; ; n++ {
		dev := open()
		fired := devicetest.FailAfter(dev, n)
		err := run(dev)
		if live := devicetest.Live(dev); live.Bytes != 0 || live.Streams != 0 {
			t.Errorf("operation %d failed: %+v are left", n, live)
		}
		if !fired() {
			if err != nil || n < minAllocs {
				t.Errorf("%d operations, %v", n, err)
			}
			return
		}
		if err == nil {
			t.Errorf("operation %d failed, and nobody noticed", n)
		}
	}
}

func TestConcurrentProbes(t *testing.T) {
	dev := devicetest.OpenCPU(t, 3)
	_, r := sides(1, 60_000, 40_000, 0x9e3779b97f4a7c15)
	ix := open(t, dev, &join.Options{Piece: 1000}, column.Of(r))
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			left := make([]int64, 20_000)
			for i := range left {
				left[i] = r[rng.IntN(len(r))]
			}
			keys := []column.Column{column.Of(left)}
			total, err := ix.Count(context.Background(), keys, nil)
			if err != nil {
				t.Error(err)
			}
			pairs := uint64(0)
			for p, err := range ix.Inner(context.Background(), keys) {
				if err != nil {
					t.Error(err)
				}
				for i := range p.Len() {
					if left[p.Left[i]] != r[p.Right[i]] {
						t.Errorf("rows %d and %d differ", p.Left[i], p.Right[i])
						return
					}
				}
				pairs += uint64(p.Len())
			}
			if hits, err := ix.Contains(context.Background(), keys, nil); err != nil || hits != len(left) || pairs != total {
				t.Error(fmt.Sprint(hits, " hits, ", pairs, " pairs of ", total), err)
			}
		})
	}
	wg.Wait()
}
