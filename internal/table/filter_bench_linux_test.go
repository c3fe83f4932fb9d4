package table

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/join"
)

// writeLeft writes 10^7 rows with a key, three numbers and two texts. Keys are row numbers, in
// order or shuffled.
func writeLeft(b *testing.B, shuffled bool) string {
	const n = 1e7
	name := filepath.Join(b.TempDir(), "left.parquet")
	file, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	fields := []parquet.Field{{Name: "key", Type: parquet.Type{Column: column.Int64}}}
	for i := range 3 {
		fields = append(fields, parquet.Field{Name: fmt.Sprint("x", i),
			Type: parquet.Type{Column: column.Float64}})
	}
	for i := range 2 {
		fields = append(fields, parquet.Field{Name: fmt.Sprint("t", i),
			Type: parquet.Type{Kind: parquet.Text, Column: column.Bytes}})
	}
	w, err := parquet.NewWriter(file, fields, "test")
	if err != nil {
		b.Fatal(err)
	}
	const part = 1e5
	for lo := 0; lo < n; lo += part {
		keys, texts := make([]int64, part), [2][]string{make([]string, part), make([]string, part)}
		columns := []column.Column{column.Of(keys)}
		for i := range keys {
			row := uint64(lo + i)
			if shuffled {
				row = row * 7_654_321 % n // a permutation, because 2 and 5 do not divide the factor
			}
			keys[i] = int64(row)
			texts[0][i], texts[1][i] = fmt.Sprint("city", row%5000), fmt.Sprintf("note on row %d",
				row)
		}
		for range 3 {
			x := make([]float64, part)
			for i := range x {
				x[i] = rand.Float64()
			}
			columns = append(columns, column.Of(x))
		}
		columns = append(columns, column.OfStrings(texts[0]), column.OfStrings(texts[1]))
		if err := w.Write(columns); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return name
}

// cpuTime returns the processor time of the process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFilteredJoin joins a Parquet file of 10^7 rows with 10^4 keys in a narrow range, with
// 10^4 keys from the whole range, and with all keys.
func BenchmarkFilteredJoin(b *testing.B) {
	host, err := cpu.Open(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer host.Close()
	narrow, random, all := make([]int64, 1e4), make([]int64, 1e4), make([]int64, 1e7)
	for i := range narrow {
		narrow[i], random[i] = 5_000_000+int64(i), rand.Int64N(1e7)
	}
	for i := range all {
		all[i] = int64(i)
	}
	for _, shuffled := range []bool{false, true} {
		name := writeLeft(b, shuffled)
		for _, build := range []struct {
			name string
			keys []int64
		}{{"narrow", narrow}, {"random", random}, {"all", all}} {
			for _, filtered := range []bool{false, true} {
				b.Run(fmt.Sprintf("shuffled=%v/%s/filter=%v", shuffled, build.name, filtered),
					func(b *testing.B) {
						start, matches := cpuTime(b), 0
						for b.Loop() {
							matches = joinLeft(b, host, name, column.Of(build.keys), filtered)
						}
						b.ReportMetric(float64((cpuTime(b)-start).Milliseconds())/float64(b.N),
							"cpu-ms/op")
						b.ReportMetric(float64(matches), "matches")
					})
			}
		}
	}
}

// joinLeft joins all columns of a file and returns the number of matching rows.
func joinLeft(b *testing.B, host *cpu.Device, name string, build column.Column,
	filtered bool) (n int) {
	tab, err := Open(b.Context(), []string{name}, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tab.Close()
	keys := []column.Column{build}
	ix, err := join.New(b.Context(), host, keys, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer ix.Close()
	if filtered {
		f, err := join.NewFilter([]column.Type{column.Int64},
			&join.FilterOptions{Rows: build.Len()})
		if err == nil {
			err = f.Add(b.Context(), keys)
		}
		if err != nil {
			b.Fatal(err)
		}
		tab.Filter(f, []int{0}, []column.Type{column.Int64})
	}
	var reads []Read
	for i := range tab.Fields() {
		reads = append(reads, tab.Reading(i, Key))
	}
	for batch, err := range tab.Batches(b.Context(), reads) {
		if err != nil {
			b.Fatal(err)
		}
		rows, err := ix.Semi(b.Context(), batch.Columns[:1], nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range batch.Columns { // as a result would contain them
			n += Take(c, rows).Len()
		}
	}
	return n / len(reads)
}
