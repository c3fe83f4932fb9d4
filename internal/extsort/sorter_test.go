package extsort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/spill"
	"pgregory.net/rapid"
)

func must(t interface{ Fatal(...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// numbers returns n numbers from a small set that contains the least and the largest.
func numbers[T column.Fixed](n int, of func() T) column.Column {
	values := make([]T, n)
	for i := range values {
		values[i] = of()
	}
	return column.Of(values)
}

func ints[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](rng *rand.Rand,
	n int) column.Column {
	return numbers(n, func() T { return T(int64(rng.IntN(9)-4) << (8 * rng.IntN(8))) })
}

var floats = []float64{math.Inf(-1), -1e300, -1.5, -1, math.Copysign(0, -1), 0, 1e-300, 1, 1.5,
	math.Inf(1), math.NaN(), math.Copysign(math.NaN(), -1), math.Float64frombits(1<<64 - 1)}

// texts returns short and long byte strings with common prefixes and zeros.
func texts(rng *rand.Rand, n int) column.Column {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.Repeat("a", 7*rng.IntN(4)) + []string{"", "\x00", "\x00\x00", "b", "b\x00",
			"\xff", "ab"}[rng.IntN(7)]
	}
	return column.OfStrings(all)
}

// draw returns a column of one of many types and forms, perhaps with nulls.
func draw(rng *rand.Rand, form, n int) (c column.Column) {
	switch form {
	case 0:
		c = ints[int8](rng, n)
	case 1:
		c = ints[int16](rng, n)
	case 2:
		c = ints[int32](rng, n)
	case 3:
		c = ints[int64](rng, n)
	case 4:
		c = ints[uint8](rng, n)
	case 5:
		c = ints[uint16](rng, n)
	case 6:
		c = ints[uint32](rng, n)
	case 7:
		c = ints[uint64](rng, n)
	case 8:
		c = numbers(n, func() float32 { return float32(floats[rng.IntN(len(floats))]) })
	case 9:
		c = numbers(n, func() float64 { return floats[rng.IntN(len(floats))] })
	case 10:
		c = numbers(n, func() bool { return rng.IntN(2) == 0 })
	case 11:
		c = texts(rng, n)
	case 12:
		c, _ = column.Concat(texts(rng, n))
	case 13:
		codes := make([]uint32, n)
		for i := range codes {
			codes[i] = rng.Uint32N(20)
		}
		c, _ = column.OfCodes(codes, texts(rng, 20))
	default:
		data := make([]byte, 3*n)
		for i := range data {
			data[i] = byte(rng.IntN(2))
		}
		c, _ = column.OfWidth(3, data)
	}
	if rng.IntN(2) == 0 {
		valid := make([]bool, n)
		for i := range valid {
			valid[i] = rng.IntN(4) > 0
		}
		c = c.WithValid(column.OfBools(valid))
	}
	return c
}

const forms = 15

// compare compares two values by the rules of Key.
func compare(a, b any, descending bool) int {
	last := func(v any) int {
		switch v := v.(type) {
		case nil:
			return 2
		case float64:
			return map[bool]int{true: 1}[v != v]
		case float32:
			return map[bool]int{true: 1}[v != v]
		}
		return 0
	}
	if d := cmp.Compare(last(a), last(b)); d != 0 || last(a) > 0 {
		return d
	}
	d := 0
	switch a := a.(type) {
	case string:
		d = strings.Compare(a, b.(string))
	case float64:
		d = cmp.Compare(a, b.(float64))
	case float32:
		d = cmp.Compare(a, b.(float32))
	case uint64:
		d = cmp.Compare(a, b.(uint64))
	case bool:
		d = cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	default:
		var x, y int64
		_, _ = fmt.Sscan(fmt.Sprint(a, " ", b), &x, &y)
		d = cmp.Compare(x, y)
	}
	if descending {
		return -d
	}
	return d
}

// lengths returns a column to sort by: the lengths of byte strings, with some nulls.
func lengths(c column.Column) column.Column {
	n, valid := make([]int32, c.Len()), make([]bool, c.Len())
	for i := range n {
		valid[i] = !c.Null(i) && len(c.Bytes(i)) != 1
		n[i] = int32(len(c.Bytes(i)))
	}
	return column.Of(n).WithValid(column.OfBools(valid))
}

// trial is a sorter, with all rows that were added to it.
type trial struct {
	forms []int // the first column numbers the rows
	opts  Options
	rows  [][]any
}

// page returns a page of random rows.
func (x *trial) page(rng *rand.Rand, n int) []column.Column {
	numbers := make([]uint32, n)
	for i := range numbers {
		numbers[i] = uint32(len(x.rows) + i)
	}
	page := []column.Column{column.Of(numbers)}
	for _, form := range x.forms {
		page = append(page, draw(rng, form, n))
	}
	x.rows = append(x.rows, rowsOf(page)...)
	return page
}

func rowsOf(page []column.Column) (rows [][]any) {
	for i := range page[0].Len() {
		var row []any
		for _, c := range page {
			row = append(row, c.Any(i))
		}
		rows = append(rows, row)
	}
	return rows
}

// wantRows returns all rows in order.
func (x *trial) wantRows() [][]any {
	rows := slices.Clone(x.rows)
	slices.SortStableFunc(rows, func(a, b []any) int {
		for _, k := range x.opts.Keys {
			u, v := a[k.Column], b[k.Column]
			if k.Transform != nil {
				transform := func(v any) any {
					if s, is := v.(string); is && len(s) != 1 {
						return int64(len(s))
					}
					return nil
				}
				u, v = transform(u), transform(v)
			}
			if d := compare(u, v, k.Descending); d != 0 {
				return d
			}
		}
		return 0
	})
	if x.opts.Top > 0 {
		rows = rows[:min(x.opts.Top, len(rows))]
	}
	return rows
}

// check compares the pages of a sorter with the wanted rows.
func (x *trial) check(ctx context.Context, s *Sorter) error {
	var got [][]any
	for page, err := range s.Pages(ctx) {
		if err != nil {
			return err
		}
		if n := page[0].Len(); n == 0 || n > PageRows {
			return fmt.Errorf("a page of %d rows", n)
		}
		got = append(got, rowsOf(page)...)
	}
	want := x.wantRows()
	if len(got) != len(want) {
		return fmt.Errorf("wrong: %d rows, want %d", len(got), len(want))
	}
	for i := range got {
		if a, b := fmt.Sprint(got[i]), fmt.Sprint(want[i]); a != b {
			return fmt.Errorf("wrong: row %d is %s, want %s", i, a, b)
		}
	}
	return nil
}

// drawTrial returns columns, keys and limits.
func drawTrial(rng *rand.Rand) *trial {
	x := &trial{}
	for range 1 + rng.IntN(3) {
		x.forms = append(x.forms, rng.IntN(forms))
	}
	for range rng.IntN(4) {
		k := Key{Column: 1 + rng.IntN(len(x.forms)), Descending: rng.IntN(2) == 0}
		if x.forms[k.Column-1] >= 11 && rng.IntN(3) == 0 {
			k.Transform = lengths
		}
		x.opts.Keys = append(x.opts.Keys, k)
	}
	x.opts.Memory = []int64{0, 4000, 4000, 40_000, 400_000}[rng.IntN(5)]
	x.opts.Top = []int{0, 0, 1, 7, 700, 100_000}[rng.IntN(6)]
	return x
}

// Under every limit rows have the order of a stable sort, even if more are added later.
func TestSorter(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	spilled, merged := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		x := drawTrial(rng)
		if rng.IntN(2) == 0 {
			file, err := spill.Create("", &spill.Options{Memory: 2 << 20, Chains: 65})
			must(t, err)
			defer file.Close()
			x.opts.File = file
			defer func() {
				if n := file.Stats().Blocks; n > 0 {
					t.Fatalf("%d blocks are left", n)
				}
			}()
		}
		s := New(dev, x.opts)
		defer s.Close()
		for range rng.IntN(5) {
			must(t, s.Add(t.Context(), x.page(rng, rng.IntN(1500))))
			if rng.IntN(4) == 0 {
				must(t, x.check(t.Context(), s))
			}
		}
		if len(s.runs) > 0 {
			spilled++
		}
		if len(s.runs) > maxRuns {
			merged++
		}
		if x.opts.Memory == 0 && s.file != x.opts.File {
			t.Fatal("a file without a limit")
		}
		for range 2 {
			must(t, x.check(t.Context(), s))
		}
		if s.file != nil && x.opts.File == nil && s.Spilled() == 0 {
			t.Fatal("nothing was written")
		}
		for range s.Pages(t.Context()) {
			break
		}
		must(t, s.Close())
		if err := s.Add(t.Context(), x.page(rng, 1)); !errors.Is(err, op.ErrClosed) {
			t.Fatalf("Add after Close: %v", err)
		}
	})
	if spilled == 0 || merged == 0 {
		t.Errorf("%d with a file, %d with more runs than are merged at a time", spilled, merged)
	}
}

// A small Top of many rows needs no file, and no memory for most rows.
func TestTop(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	s := New(dev, Options{Keys: []Key{{Column: 0, Descending: true}}, Top: 10, Memory: 32 << 20})
	defer s.Close()
	const n = 1_000_000
	all := rand.New(rand.NewPCG(1, 2)).Perm(n)
	for lo := 0; lo < n; lo += 10_000 {
		must(t, s.Add(t.Context(), []column.Column{column.Of(all[lo : lo+10_000])}))
		if s.rows > topSlack+20 {
			t.Fatalf("%d rows are kept", s.rows)
		}
	}
	var got []int
	for page, err := range s.Pages(t.Context()) {
		must(t, err)
		for _, v := range column.Values[int64](page[0]) {
			got = append(got, int(v))
		}
	}
	want := []int{n - 1, n - 2, n - 3, n - 4, n - 5, n - 6, n - 7, n - 8, n - 9, n - 10}
	if !slices.Equal(got, want) || s.Spilled() > 0 {
		t.Errorf("%v, %d bytes in the file", got, s.Spilled())
	}
}

// The rows in memory, with the memory of their sort, never exceed half of the limit.
func TestMemory(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	const memory = 1 << 20
	s := New(dev, Options{Keys: []Key{{Column: 0}}, Memory: memory})
	defer s.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{10, 100_000, 1, 5000} { // also pages that exceed the limit
		must(t, s.Add(t.Context(), []column.Column{texts(rng, n), column.Of(make([]int64, n))}))
		if s.cost > memory/2 {
			t.Errorf("%d bytes after %d rows", s.cost, n)
		}
	}
	if len(s.runs) < 10 {
		t.Errorf("%d runs", len(s.runs))
	}
	long := column.OfStrings([]string{strings.Repeat("x", 3<<20)})
	must(t, s.Add(t.Context(), []column.Column{long, column.Of([]int64{1})}))
	n, last := 0, ""
	for page, err := range s.Pages(t.Context()) {
		must(t, err)
		n += page[0].Len()
		last = page[0].Any(page[0].Len() - 1).(string)
	}
	if n != 105_012 || len(last) != 1 {
		t.Errorf("%d rows, the last one %.20q", n, last)
	}
}

// A fault of the disk is an error or has no effect, and nothing is left.
func TestFaults(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	dev.Parallel(2, 1, func(int, int) {}) // starts workers, which stay
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	var happened, found [spill.Faults]int
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 5))
		x := drawTrial(rng)
		x.opts.Memory = []int64{4000, 40_000}[rng.IntN(2)]
		fault := &spill.Faulty{Fault: spill.Fault(seed) % spill.Faults, At: int64(rng.IntN(30))}
		if fault.Fault >= spill.TruncateError {
			fault.At = 0
		}
		x.opts.Wrap = func(d spill.Disk) spill.Disk { fault.Disk = d; return fault }
		s := New(dev, x.opts)
		var err error
		for range 1 + rng.IntN(4) {
			err = cmp.Or(err, s.Add(t.Context(), x.page(rng, rng.IntN(1000))))
		}
		if second := s.Add(t.Context(), nil); second != err {
			t.Fatalf("seed %d: %v, and then %v", seed, err, second)
		}
		if err == nil {
			err = x.check(t.Context(), s)
		}
		err = errors.Join(err, s.Close())
		switch done := fault.Done.Load(); {
		case err != nil && (!done || strings.Contains(err.Error(), "wrong")):
			t.Fatalf("seed %d: fault %d: %v", seed, fault.Fault, err)
		case done:
			happened[fault.Fault]++
			if err != nil {
				found[fault.Fault]++
			}
		}
	}
	for fault, n := range happened {
		if n > 0 && found[fault] == 0 || n == 0 && spill.Fault(fault) != spill.TruncateError {
			t.Errorf("fault %d happened %d times, noticed %d times", fault, n, found[fault])
		}
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d open files, %d before", n, files)
	}
}

// openFiles returns the number of open files of the process, or 0 if the system does not list them.
// Files without a path do not count, because the runtime opens two with its first timer.
func openFiles(t *testing.T) (n int) {
	const dir = "/proc/self/fd"
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, file := range files {
		to, err := os.Readlink(filepath.Join(dir, file.Name()))
		if err == nil && !strings.HasPrefix(to, "anon_inode:") {
			n++
		}
	}
	return n
}

// If a context ends, a sort stops, in memory and in the file. Columns of other types are an error.
func TestStops(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for _, memory := range []int64{0, 10_000} {
		s := New(dev, Options{Keys: []Key{{Column: 0}}, Memory: memory})
		defer s.Close()
		must(t, s.Add(t.Context(), []column.Column{column.Of([]int{2, 1})}))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for page, err := range s.Pages(ctx) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%d bytes: %v, %v", memory, page, err)
			}
		}
		if err := s.Add(t.Context(), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Add after an error: %v", err)
		}
	}
	s := New(dev, Options{})
	defer s.Close()
	must(t, s.Add(t.Context(), []column.Column{column.Of([]int32{1})}))
	must(t, s.Add(t.Context(), []column.Column{column.Of([]int64{1})}))
	for page, err := range s.Pages(t.Context()) {
		if !errors.Is(err, op.ErrOptions) {
			t.Errorf("columns of two types: %v, %v", page, err)
		}
	}
}

// BenchmarkSorter sorts ten million rows of a key and its row, in memory and through the file.
func BenchmarkSorter(b *testing.B) {
	const n = 10_000_000
	keys := make([]int64, n)
	names := make([]string, n)
	for i, k := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		keys[i] = int64(k) * 7919
		names[i] = fmt.Sprint("name ", keys[i])
	}
	for _, page := range [][]column.Column{{column.Of(keys)}, {column.OfStrings(names)}} {
		for _, memory := range []int64{0, 256 << 20, 16 << 20} {
			b.Run(fmt.Sprintf("%v/memory=%d", page[0].Type(), memory), func(b *testing.B) {
				var dev device.Host = devicetest.OpenCPU(b, 0)
				for b.Loop() {
					s := New(dev, Options{Keys: []Key{{Column: 0}}, Memory: memory})
					for lo := 0; lo < n; lo += PageRows {
						must(b, s.Add(b.Context(), spill.Slice(page, lo, min(lo+PageRows, n))))
					}
					for _, err := range s.Pages(b.Context()) {
						must(b, err)
					}
					must(b, s.Close())
				}
				b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
			})
		}
	}
}
