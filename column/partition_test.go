package column_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
)

// modelOf partitions rows one by one, as the documentation of Partition says.
func modelOf(keys []column.Column, hashes []uint64, opts column.PartitionOptions) column.Parts {
	parts, next := make([][]uint32, opts.Parts), opts.First
	for i, h := range hashes {
		p := int(hash.Reduce64(h, uint64(opts.Parts)))
		null := slices.ContainsFunc(keys, func(c column.Column) bool { return c.Null(i) })
		if null && opts.Nulls == column.DropNulls {
			continue
		}
		if null && opts.Nulls == column.DealNulls {
			p, next = next, (next+1)%opts.Parts
		}
		parts[p] = append(parts[p], uint32(i))
	}
	m := column.Parts{Rows: []uint32{}, Offsets: []uint32{0}, Next: next}
	for _, rows := range parts {
		m.Rows = append(m.Rows, rows...)
		m.Offsets = append(m.Offsets, uint32(len(m.Rows)))
	}
	return m
}

func checkParts(t interface {
	Helper()
	Fatalf(string, ...any)
}, what string, got, want column.Parts) {
	t.Helper()
	if !slices.Equal(got.Offsets, want.Offsets) || got.Next != want.Next {
		t.Fatalf("%s: offsets %d, next %d; want %d, next %d",
			what, got.Offsets, got.Next, want.Offsets, want.Next)
	}
	if !slices.Equal(got.Rows, want.Rows) {
		t.Fatalf("%s: rows %d, want %d", what, got.Rows, want.Rows)
	}
}

func drawOptions(t *rapid.T) column.PartitionOptions {
	opts := column.PartitionOptions{
		Parts: rapid.SampledFrom([]int{1, 2, 3, 7, 64, 100, 1000, 65535, 65536}).Draw(t, "parts"),
		Seed:  rapid.Uint64().Draw(t, "seed"),
		Nulls: column.Nulls(rapid.IntRange(0, 2).Draw(t, "nulls")),
	}
	opts.First = rapid.IntRange(0, opts.Parts-1).Draw(t, "first")
	return opts
}

var someText = []string{"", "a", "b", "a long one, over 32 bytes of text"}

// Each partition has the rows with its hashes, in ascending order. Options determine where rows
// with nulls go.
func TestPartitionIsModel(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		opts := drawOptions(t)
		ints, text := make([]int32, n), make([]string, n)
		for i := range ints {
			ints[i] = rapid.Int32Range(-20, 20).Draw(t, "integer")
			text[i] = rapid.SampledFrom(someText).Draw(t, "text")
		}
		keys := []column.Column{
			withBits(t, column.Of(ints), drawValid(t, n)),
			withBits(t, column.OfStrings(text), drawValid(t, n)),
		}[:rapid.IntRange(1, 2).Draw(t, "columns")]
		h := make([]uint64, n)
		column.Hash(dev, keys, opts.Seed, h)
		got, err := column.Partition(dev, keys, opts)
		if err != nil {
			t.Fatal(err)
		}
		checkParts(t, fmt.Sprintf("%+v", opts), got, modelOf(keys, h, opts))
	})
}

// Several cores share batches, and shares begin and end anywhere.
func TestPartitionShares(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, cores := range []int{1, 3} {
		dev := devicetest.OpenCPU(t, cores)
		for _, n := range []int{1 << 14, 1<<14 + 1, 200_003} {
			ints, valid := make([]int64, n), make([]bool, n)
			for i := range ints {
				ints[i], valid[i] = rng.Int64N(1000), rng.IntN(4) > 0
			}
			c := column.Of(ints).WithValid(column.OfBools(valid)).Slice(5, n)
			h := hashes(dev, 9, c)
			for _, parts := range []int{1, 10, 1000, 65536} {
				for nulls := range column.DealNulls + 1 {
					opts := column.PartitionOptions{Parts: parts, Seed: 9, Nulls: nulls, First: parts / 2}
					got, err := column.Partition(dev, []column.Column{c}, opts)
					if err != nil {
						t.Fatal(err)
					}
					what := fmt.Sprintf("%d rows on %d cores, %+v", n, cores, opts)
					checkParts(t, what, got, modelOf([]column.Column{c}, h, opts))
				}
			}
		}
	}
}

// Batches that continue with Next deal nulls as one batch does.
func TestDealContinues(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	opts := column.PartitionOptions{Parts: 5, Nulls: column.DealNulls}
	var counts [5]int
	for batch := range 50 {
		c := column.Of(make([]int8, 3)).WithValid(column.OfBools([]bool{true, false, batch%2 == 0}))
		p, err := column.Partition(dev, []column.Column{c}, opts)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Len() {
			for _, row := range p.Part(i) {
				if c.Null(int(row)) {
					counts[i]++
				}
			}
		}
		opts.First = p.Next
	}
	for i, n := range counts {
		if n != 15 {
			t.Errorf("partition %d got %d of 75 nulls", i, n)
		}
	}
}

// The keys of one partition are even under another seed. They are also even in weft's tables, which
// place a key by the top bits of their own hash.
func TestIndependent(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	const n, parts, bins = 400_000, 16, 256
	keys := keySets(n)
	for _, name := range []string{"sequential", "multiples of 4096", "high bits", "random"} {
		c := keys[name]
		p, err := column.Partition(dev, []column.Column{c}, column.PartitionOptions{Parts: parts})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			part := column.Take(dev, c, p.Part(i))
			raw := part.Raw()
			words := unsafe.Slice((*uint64)(unsafe.Pointer(&raw[0])), part.Len())
			for seed := range uint64(3) {
				table, again := make([]int, bins), make([]int, bins)
				for _, w := range words {
					table[hash.Reduce64(hash.Uint64(w, seed), bins)]++
				}
				for _, h := range hashes(dev, seed+1, part) {
					again[hash.Reduce64(h, bins)]++
				}
				if x := unevenness(table); x > 6 {
					t.Errorf("%s: partition %d in a table of seed %d: %.1f", name, i, seed, x)
				}
				if x := unevenness(again); x > 6 {
					t.Errorf("%s: partition %d again with seed %d: %.1f", name, i, seed+1, x)
				}
			}
		}
	}
}

func TestPartitionErrors(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	c := []column.Column{column.Of([]int64{1})}
	for want, call := range map[string]struct {
		keys []column.Column
		opts column.PartitionOptions
	}{
		"Parts is 0; 1 to 65536": {c, column.PartitionOptions{}},
		"Parts is -1":            {c, column.PartitionOptions{Parts: -1}},
		"Parts is 65537":         {c, column.PartitionOptions{Parts: 65537}},
		"unknown Nulls column.Nulls(3)": {c, column.PartitionOptions{
			Parts: 1, Nulls: column.DealNulls + 1,
		}},
		"First is 2, but there are 2":  {c, column.PartitionOptions{Parts: 2, First: 2}},
		"First is -1, but there are 2": {c, column.PartitionOptions{Parts: 2, First: -1}},
		"no key columns":               {nil, column.PartitionOptions{Parts: 2}},
		"key column 0 has no type":     {[]column.Column{{}}, column.PartitionOptions{Parts: 2}},
		"First is 9223372036854775807": {c, column.PartitionOptions{Parts: 2, First: math.MaxInt}},
	} {
		_, err := column.Partition(dev, call.keys, call.opts)
		if !errors.Is(err, op.ErrOptions) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	defer func() {
		want := "key column 1 has 2 rows and column 0 has 1"
		if msg := fmt.Sprint(recover()); !strings.Contains(msg, want) {
			t.Errorf("%s", msg)
		}
	}()
	column.Partition(dev, append(c, column.Of([]int8{1, 2})), column.PartitionOptions{Parts: 1})
}

func TestNullsNames(t *testing.T) {
	for nulls := range column.DealNulls + 1 {
		text, err := nulls.MarshalText()
		var back column.Nulls
		if err := errors.Join(err, back.UnmarshalText(text)); err != nil || back != nulls {
			t.Errorf("%v comes back as %v, %v", nulls, back, err)
		}
	}
	if _, err := (column.DealNulls + 1).MarshalText(); !errors.Is(err, op.ErrOptions) {
		t.Errorf("a choice that does not exist: %v", err)
	}
}

// A call allocates its result and a small number of counts, but nothing per row.
func TestPartitionAllocations(t *testing.T) {
	dev := devicetest.OpenCPU(t, 1)
	c := []column.Column{column.Of(make([]int64, 1<<16)), column.OfStrings(make([]string, 1<<16))}
	n := testing.AllocsPerRun(5, func() {
		if _, err := column.Partition(dev, c, column.PartitionOptions{Parts: 8}); err != nil {
			t.Fatal(err)
		}
	})
	if n > 60 {
		t.Errorf("%v allocations", n)
	}
}
