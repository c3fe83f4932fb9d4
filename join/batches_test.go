package join_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/spill"
	"github.com/weftgo/weft/join"
	"pgregory.net/rapid"
)

// side is one side of a join: its keys, and columns that identify its rows.
type side struct{ keys, columns []column.Column }

// randomSide returns n rows with the given number of distinct values in each key column.
func randomSide(rng *rand.Rand, types []column.Type, n, values int, nulls bool) (s side) {
	for _, typ := range types {
		c := randomColumn(rng, typ, n, values)
		if nulls {
			c = withNulls(rng, c)
		}
		s.keys = append(s.keys, c)
	}
	numbers, names := make([]uint32, n), make([]string, n)
	for i := range n {
		numbers[i], names[i] = uint32(i), strings.Repeat("x", rng.IntN(20))
	}
	s.columns = []column.Column{column.Of(numbers), withNulls(rng, column.OfStrings(names))}
	return s
}

func withNulls(rng *rand.Rand, c column.Column) column.Column {
	return c.WithValid(column.OfBools(generate(c.Len(), func(int) bool { return rng.IntN(8) > 0 })))
}

func generate[T any](n int, f func(i int) T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = f(i)
	}
	return all
}

func randomColumn(rng *rand.Rand, typ column.Type, n, values int) column.Column {
	pick := func() int { return rng.IntN(values) }
	switch typ {
	case column.Int64:
		return column.Of(generate(n, func(int) int64 { return int64(pick()) << 40 }))
	case column.Float64:
		special := []float64{0, math.Copysign(0, -1), math.NaN(),
			math.Float64frombits(0xfff8000000000001)}
		return column.Of(generate(n, func(int) float64 {
			if p := pick(); p < 4 {
				return special[p]
			} else {
				return float64(p)
			}
		}))
	case column.Bool:
		return column.Of(generate(n, func(int) bool { return pick()%2 == 0 }))
	case column.Uint16:
		return column.Of(generate(n, func(int) uint16 { return uint16(pick()) }))
	}
	texts := generate(values, func(i int) string { return strings.Repeat("k", i%5) + fmt.Sprint(i) })
	codes := generate(n, func(int) uint32 { return uint32(pick()) })
	switch rng.IntN(3) {
	case 0:
		c, err := column.OfCodes(codes, column.OfStrings(texts))
		if err != nil {
			panic(err)
		}
		return c
	case 1:
		offsets, data := []int32{0}, []byte(nil)
		for _, code := range codes {
			data = append(data, texts[code]...)
			offsets = append(offsets, int32(len(data)))
		}
		c, err := column.OfOffsets(offsets, data)
		if err != nil {
			panic(err)
		}
		return c
	}
	return column.OfStrings(generate(n, func(i int) string { return texts[codes[i]] }))
}

func cut(columns []column.Column, lo, hi int) []column.Column {
	return generate(len(columns), func(i int) column.Column { return columns[i].Slice(lo, hi) })
}

// linesOf returns rows as text.
func linesOf(columns []column.Column) []string {
	return generate(columns[0].Len(), func(i int) string {
		var b strings.Builder
		for _, c := range columns {
			fmt.Fprintf(&b, "%#v,", c.Any(i))
		}
		return b.String()
	})
}

// wantedLines returns the rows of a join according to the model.
func wantedLines(kind join.Kind, left, right side, nullsMatch bool) (lines []string) {
	l, r := linesOf(left.columns), linesOf(right.columns)
	a := modelOf(right.keys, nullsMatch).answers(left.keys, nullsMatch)
	rows, pairs := a.semi, a.inner
	switch kind {
	case join.Left:
		pairs = a.left
	case join.Anti:
		rows = a.anti
	}
	if kind == join.Semi || kind == join.Anti {
		return generate(len(rows), func(i int) string { return l[rows[i]] })
	}
	return generate(len(pairs), func(i int) string {
		if p := pairs[i]; p[1] != join.NoRow {
			return l[p[0]] + r[p[1]]
		}
		return l[pairs[i][0]] + strings.Repeat("<nil>,", len(right.columns))
	})
}

// runJoin joins two sides in batches, and returns the rows as text.
func runJoin(ctx context.Context, j *join.Join, left, right side, batch int) (lines []string,
	err error) {
	n := right.keys[0].Len()
	for lo := 0; lo == 0 || lo < n; lo += batch {
		hi := min(lo+batch, n)
		if err := j.Build(ctx, cut(right.keys, lo, hi), cut(right.columns, lo, hi)); err != nil {
			return nil, err
		}
	}
	n = left.keys[0].Len()
	for lo := 0; lo < n; lo += batch {
		hi := min(lo+batch, n)
		for columns, err := range j.Probe(ctx, cut(left.keys, lo, hi), cut(left.columns, lo, hi)) {
			if err != nil {
				return nil, err
			}
			lines = append(lines, linesOf(columns)...)
		}
	}
	for columns, err := range j.Finish(ctx) {
		if err != nil {
			return nil, err
		}
		lines = append(lines, linesOf(columns)...)
	}
	return lines, nil
}

func newJoin(t interface{ Fatal(...any) }, dev device.Device, kind join.Kind,
	opts *join.Options) *join.Join {
	opts.TempDir = "/var/tmp"
	j, err := join.NewJoin(dev, kind, opts)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// closeJoin closes a join and checks that no memory is in use.
func closeJoin(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, j *join.Join) {
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if n := j.InUse(); n != 0 {
		t.Fatalf("%d bytes in use after Close", n)
	}
}

// Under every limit a join has the same rows as without a limit: in order if it has not spilled,
// and as a set otherwise.
func TestJoin(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	spilled := 0
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		types := rapid.SliceOfN(rapid.SampledFrom([]column.Type{column.Int64, column.Uint16,
			column.Float64, column.Bool, column.Bytes}), 1, 3).Draw(t, "types")
		values := rapid.SampledFrom([]int{2, 30, 1000}).Draw(t, "values")
		n := rapid.IntRange(0, 25*min(values, 100)).Draw(t, "rows")
		nulls := rapid.Bool().Draw(t, "nulls")
		left := randomSide(rng, types, rng.IntN(n+1), values, nulls)
		right := randomSide(rng, types, rng.IntN(n+1), values, nulls)
		kind := join.Kind(rapid.IntRange(0, 3).Draw(t, "kind"))
		opts := &join.Options{NullsMatch: rapid.Bool().Draw(t, "NullsMatch"),
			Memory: join.MinMemory,
			Piece:  rapid.SampledFrom([]int{0, 1, 77}).Draw(t, "Piece")}
		j := newJoin(t, dev, kind, opts)
		if share := rapid.SampledFrom([]int64{0, 4000, 40_000}).Draw(t, "share"); share > 0 {
			j.LimitMemory(share, rapid.SampledFrom([]int{2, 7, 64}).Draw(t, "parts"))
		}
		got, err := runJoin(t.Context(), j, left, right, rapid.IntRange(1, 1000).Draw(t, "batch"))
		if err != nil {
			t.Fatal(err)
		}
		want := wantedLines(kind, left, right, opts.NullsMatch)
		if j.Spilled() > 0 {
			spilled++
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v: %d rows, %d bytes spilled, want %d rows:\n%q\n%q", kind, len(got),
				j.Spilled(), len(want), got[:min(len(got), 30)], want[:min(len(want), 30)])
		}
		closeJoin(t, j)
	})
	if spilled == 0 && !testing.Short() { // by chance no draw may spill
		t.Error("nothing was spilled")
	}
}

// Partitions are partitioned again, and keys with too many rows are joined in pieces.
func TestJoinOfManyRows(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	const n = 60_000
	for _, kind := range []join.Kind{join.Inner, join.Left, join.Semi, join.Anti} {
		for name, heavy := range map[string]int64{"uniform": -1, "one key has half": 5} {
			key := func(i int) int64 {
				if heavy >= 0 && i%2 == 0 {
					return heavy
				}
				return int64(i)
			}
			right := side{keys: []column.Column{column.Of(generate(n, key))}}
			right.columns = right.keys
			keyRange := column.Of(generate(3000, func(i int) int64 { return int64(i * 40) }))
			left := side{keys: []column.Column{
				must(column.Concat(keyRange, column.Of([]int64{5, 6})))(t)}}
			left.columns = left.keys
			j := newJoin(t, dev, kind, &join.Options{Memory: join.MinMemory})
			j.LimitMemory(40_000, 64)
			got, err := runJoin(t.Context(), j, left, right, 5000)
			if err != nil {
				t.Fatal(err)
			}
			want := wantedLines(kind, left, right, false)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%v, %s: %d rows, want %d", kind, name, len(got), len(want))
			}
			if j.Spilled() == 0 {
				t.Errorf("%v, %s: nothing was spilled", kind, name)
			}
			closeJoin(t, j)
		}
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// faultyJoin is a join of a few thousand rows that needs the file.
func faultyJoin(t *testing.T, dev device.Device, kind join.Kind) (j *join.Join,
	left, right side, want []string) {
	rng := rand.New(rand.NewPCG(3, uint64(kind)))
	types := []column.Type{column.Bytes}
	left, right = randomSide(rng, types, 2000, 900, true), randomSide(rng, types, 3000, 900, true)
	want = wantedLines(kind, left, right, false)
	slices.Sort(want)
	j = newJoin(t, dev, kind, &join.Options{Memory: join.MinMemory})
	j.LimitMemory(30_000, 5)
	return j, left, right, want
}

// With any fault of the disk, a join returns the right rows or an error, and leaves nothing.
func TestJoinOnFaultyDisk(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for fault := range spill.Faults {
		failures := 0
		for at := range int64(24) {
			kind := join.Kind(at % 4)
			j, left, right, want := faultyJoin(t, dev, kind)
			var disk *spill.Faulty
			j.SetHooks(func(d spill.Disk) spill.Disk {
				disk = &spill.Faulty{Disk: d, Fault: fault, At: at * at / 2}
				return disk
			}, nil)
			got, err := runJoin(t.Context(), j, left, right, 500)
			slices.Sort(got)
			switch {
			case err != nil && !disk.Done.Load():
				t.Fatalf("fault %d at %d: %v, though it has not happened", fault, at, err)
			case err != nil:
				failures++
				if again := j.Build(t.Context(), right.keys, right.columns); again == nil {
					t.Fatalf("fault %d at %d: a join goes on after %v", fault, at, err)
				}
			case !slices.Equal(got, want):
				t.Fatalf("fault %d at %d: %d rows, want %d", fault, at, len(got), len(want))
			}
			if err := j.Close(); err != nil && fault != spill.CloseError &&
				fault != spill.TruncateError {
				t.Fatalf("fault %d at %d: Close: %v", fault, at, err)
			}
			if n := j.InUse(); n != 0 {
				t.Fatalf("fault %d at %d: %d bytes in use after Close", fault, at, n)
			}
		}
		if failures == 0 && fault < spill.TruncateError {
			t.Errorf("fault %d never was an error", fault)
		}
	}
}

// A failed reservation of memory, a canceled context, and a stopped loop leave nothing.
func TestJoinThatStops(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	refused := errors.New("refused")
	for at := range 40 {
		j, left, right, want := faultyJoin(t, dev, join.Kind(at%4))
		var count atomic.Int64
		j.SetHooks(nil, func(int64) error {
			if count.Add(1) == int64(at*at*2) {
				return refused
			}
			return nil
		})
		got, err := runJoin(t.Context(), j, left, right, 500)
		slices.Sort(got)
		if err == nil && !slices.Equal(got, want) || err != nil && !errors.Is(err, refused) {
			t.Fatalf("reservation %d: %d rows, want %d, %v", at*at*2, len(got), len(want), err)
		}
		closeJoin(t, j)

		j, left, right, _ = faultyJoin(t, dev, join.Kind(at%4))
		ctx, cancel := context.WithCancel(t.Context())
		count.Store(0)
		j.SetHooks(nil, func(int64) error {
			if count.Add(1) == int64(at*at*2) {
				cancel()
			}
			return nil
		})
		if got, err = runJoin(ctx, j, left, right, 500); err != nil &&
			!errors.Is(err, context.Canceled) {
			t.Fatalf("canceled at reservation %d: %v", at*at*2, err)
		} else if err == nil && len(got) != len(want) {
			t.Fatalf("canceled at reservation %d: %d rows, want %d", at*at*2, len(got), len(want))
		}
		cancel()
		closeJoin(t, j)
	}
	unused, left, right, _ := faultyJoin(t, dev, join.Inner)
	closeJoin(t, unused)
	j := newJoin(t, dev, join.Inner, &join.Options{})
	if err := j.Build(t.Context(), right.keys, right.columns); err != nil {
		t.Fatal(err)
	}
	for range j.Probe(t.Context(), left.keys, left.columns) {
		break
	}
	for columns, err := range j.Finish(t.Context()) {
		if columns != nil || !errors.Is(err, device.ErrInvalid) {
			t.Errorf("Finish after a loop that stopped: %v", err)
		}
	}
	closeJoin(t, j)
}

// Errors of misused joins name the mistake.
func TestJoinMisused(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	numbers, texts := column.Of([]int64{1, 2}), column.OfStrings([]string{"a", "b"})
	one := []column.Column{numbers}
	ctx := t.Context()
	for _, opts := range []*join.Options{{Memory: 1}, {Memory: -1}, {Piece: -1}} {
		if _, err := join.NewJoin(dev, join.Inner, opts); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	if _, err := join.NewJoin(dev, 9, nil); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("a kind that there is not: %v", err)
	}
	_, err := join.New(ctx, dev, one, &join.Options{Memory: join.MinMemory})
	if !errors.Is(err, weft.ErrOptions) {
		t.Errorf("an Index with Memory: %v", err)
	}
	failed := func(rows func(func([]column.Column, error) bool)) (err error) {
		for _, e := range rows {
			err = e
		}
		return err
	}
	j := newJoin(t, dev, join.Left, &join.Options{})
	if err := failed(j.Probe(ctx, one, one)); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Probe without Build: %v", err)
	}
	if err := j.Build(ctx, nil, one); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("no keys: %v", err)
	}
	if err := j.Build(ctx, one, one); err != nil {
		t.Fatal(err)
	}
	if err := j.Build(ctx, one, []column.Column{texts}); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("other columns: %v", err)
	}
	if err := failed(j.Probe(ctx, []column.Column{texts}, nil)); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("keys of another type: %v", err)
	}
	if err := failed(j.Probe(ctx, one, []column.Column{texts})); err != nil {
		t.Errorf("a first batch after a refused one: %v", err)
	}
	if err := failed(j.Probe(ctx, one, one)); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("other left columns: %v", err)
	}
	if err := j.Build(ctx, one, one); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Build after Probe: %v", err)
	}
	if err := failed(j.Finish(ctx)); err != nil {
		t.Error(err)
	}
	if err := failed(j.Finish(ctx)); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Finish twice: %v", err)
	}
	closeJoin(t, j)
	if err := failed(j.Finish(ctx)); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("Finish after Close: %v", err)
	}
}

// The bytes of a batch of the result are bounded, however often a long row occurs.
func TestJoinOfLongRow(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for _, kind := range []join.Kind{join.Inner, join.Left} {
		keys := column.Of(generate(10_000, func(i int) int64 { return int64(i) }))
		texts := generate(10_000, func(i int) string { return "short" })
		texts[7] = strings.Repeat("long", 25_000)
		j := newJoin(t, dev, kind, &join.Options{Memory: join.MinMemory})
		ctx := t.Context()
		payload := []column.Column{column.OfStrings(texts)}
		if err := j.Build(ctx, []column.Column{keys}, payload); err != nil {
			t.Fatal(err)
		}
		hot := column.Of(generate(5000, func(int) int64 { return 7 }))
		n := 0
		for columns, err := range j.Probe(ctx, []column.Column{hot}, []column.Column{hot}) {
			if err != nil {
				t.Fatal(err)
			}
			n += columns[0].Len()
			if bytes := 100_000 * columns[0].Len(); bytes > join.MinMemory/16 {
				t.Fatalf("%v: a batch of %d bytes", kind, bytes)
			}
		}
		if n != hot.Len() {
			t.Errorf("%v: %d rows, want %d", kind, n, hot.Len())
		}
		closeJoin(t, j)
	}
}

// A panic in the caller's loop ends the join, and leaves nothing.
func TestJoinPanics(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for at := range 2 {
		j, left, right, _ := faultyJoin(t, dev, join.Inner)
		if err := j.Build(t.Context(), right.keys, right.columns); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }()
			for range j.Probe(t.Context(), left.keys, left.columns) {
				if at == 0 {
					panic("loop")
				}
			}
			for range j.Finish(t.Context()) {
				panic("loop")
			}
		}()
		for _, err := range j.Finish(t.Context()) {
			if !errors.Is(err, device.ErrInvalid) {
				t.Errorf("Finish after a panic: %v", err)
			}
		}
		closeJoin(t, j)
	}
}

// A refused first batch does not fix the types.
func TestJoinRefusedFirst(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	j := newJoin(t, dev, join.Inner, &join.Options{})
	one := []column.Column{column.Of([]int64{1})}
	if err := j.Build(t.Context(), one, []column.Column{{}}); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("a column without a type: %v", err)
	}
	if err := j.Build(t.Context(), one, nil); err != nil {
		t.Errorf("the next batch: %v", err)
	}
	for _, err := range j.Probe(t.Context(), one, nil) {
		if !errors.Is(err, weft.ErrOptions) {
			t.Errorf("a join without columns: %v", err)
		}
	}
	closeJoin(t, j)
}
