package group

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/gpu/feed"
)

var linkRows = flag.Int("linkrows", 0, "rows of TestLink, 16 bytes each; 0 skips it")

// TestLink measures how much of the rate of the link to a GPU is used to group page-locked columns,
// and by plain copies. Build with go test -c, run with
//
//	WEFT_DEVICE=cuda ./group.test -test.run TestLink -test.v -linkrows 1000000000
func TestLink(t *testing.T) {
	if *linkRows == 0 {
		t.Skip("-linkrows is 0")
	}
	dev, _, err := auto.Open(os.Getenv(devicetest.Variable)) // unchecked: checks take time
	must(t, err)
	defer func() { must(t, dev.Close()) }()
	b := &link{t: t, dev: dev, n: *linkRows}
	memory, err := b.dev.AllocHost(16 * b.n)
	must(t, err)
	defer func() { must(t, b.dev.FreeHost(memory)) }()
	b.keys, err = column.OfRaw(column.Int64, memory[:8*b.n])
	must(t, err)
	b.values, err = column.OfRaw(column.Int64, memory[8*b.n:])
	must(t, err)
	b.fill(b.values, 1000)
	for range 3 {
		b.copies(memory)
	}
	for _, groups := range []int{1e3, 1e6, 1e8} {
		groups = min(groups, b.n/10)
		b.fill(b.keys, groups)
		for _, capacity := range []int{0, groups} {
			for range 2 {
				b.add(groups, capacity)
			}
		}
		if b.byOn(groups, 0, 0); groups*10 == b.n {
			for _, share := range []int{1, 2, 8} {
				b.byOn(groups, int64(72*groups/share), 0)
				b.byOn(groups, int64(72*groups/share), groups)
			}
		}
	}
	b.pageable()
}

// link holds columns to copy to a GPU.
type link struct {
	t            *testing.T
	dev          device.Device
	n            int
	keys, values column.Column
	limit        float64 // of the link, in bytes per second
}

var linkAggs = []Aggregate{{Func: Rows}, {Func: Sum}}

// fill writes pseudo-random values below limit.
func (b *link) fill(c column.Column, limit int) {
	to := column.Values[int64](c)
	cores := runtime.GOMAXPROCS(0)
	part := (len(to) + cores - 1) / cores
	done := make(chan bool)
	for core := range cores {
		go func() {
			for i := core * part; i < min((core+1)*part, len(to)); i++ {
				x := uint64(i) * 0x9e3779b97f4a7c15
				x = (x ^ x>>32) * 0xd6e8feb86659fd93
				x ^= x >> 32
				to[i] = int64(x % uint64(limit))
			}
			done <- true
		}()
	}
	for range cores {
		<-done
	}
}

// report prints the rate at which bytes crossed the link. rows counts a row once per pass.
func (b *link) report(name string, elapsed time.Duration, rows int) {
	b.t.Helper()
	rate := 16 * float64(rows) / elapsed.Seconds()
	b.t.Logf("%-50s %8.3f s %6.1f GB/s, %.3f of the link, %.2f crossings", name, elapsed.Seconds(),
		rate/1e9, rate/b.limit, float64(rows)/float64(b.n))
}

// copies measures the rate of plain copies.
func (b *link) copies(memory []byte) {
	s, err := b.dev.NewStream()
	must(b.t, err)
	to, err := device.Make[uint8](b.dev, 3*feed.PieceBytes)
	must(b.t, err)
	start := time.Now()
	for at, i := 0, 0; at < len(memory); at, i = at+feed.PieceBytes, i+1 {
		end := min(at+feed.PieceBytes, len(memory))
		must(b.t, s.CopyInAsync(to.Ptr()+device.Ptr(i%3*feed.PieceBytes), memory[at:end]))
	}
	must(b.t, s.Sync(context.Background()))
	elapsed := time.Since(start)
	b.limit = max(b.limit, float64(len(memory))/elapsed.Seconds())
	b.report("plain copies", elapsed, b.n)
	must(b.t, s.Close())
	must(b.t, to.Free())
}

// add measures GroupsOn.Add until the last group is complete, and the results.
func (b *link) add(groups, capacity int) {
	g, err := NewOn(b.dev, linkAggs, &Options{Capacity: capacity})
	must(b.t, err)
	ctx, one := b.t.Context(), column.Of([]int64{0})
	must(b.t, g.Add(ctx, []column.Column{one}, []column.Column{one})) // makes tables
	must(b.t, b.dev.Sync(ctx))
	start := time.Now()
	must(b.t, g.Add(ctx, []column.Column{b.keys}, []column.Column{b.values}))
	must(b.t, b.dev.Sync(ctx))
	b.report(fmt.Sprintf("Add, groups %d, capacity %d", groups, capacity), time.Since(start), b.n)
	start = time.Now()
	r, err := g.ResultOn(ctx)
	must(b.t, err)
	b.t.Logf("ResultOn of %d groups: %.3f s", r.Len(), time.Since(start).Seconds())
	must(b.t, r.Free())
	must(b.t, g.Close())
}

// byOn measures ByOn with a bound of memory, with and without the sort of the result on the host.
func (b *link) byOn(groups int, memory int64, capacity int) {
	if memory > 0 {
		memory = max(memory, MinMemoryOn)
	}
	j := &byOnCall{
		keys: []column.Column{b.keys}, values: []column.Column{b.values}, aggs: linkAggs,
		opts: Options{Capacity: capacity}, memory: memory, base: baseBytes, piece: pieceFor(memory),
	}
	start := time.Now()
	r, err := j.collect(b.t.Context(), b.dev)
	must(b.t, err)
	name := fmt.Sprintf("ByOn, groups %d, MiB %d, capacity %d", groups, memory>>20, capacity)
	elapsed := time.Since(start)
	b.report(name, elapsed, j.copied)
	b.t.Logf("%d passes; the input once at %.1f GB/s", j.passes, 16*float64(b.n)/elapsed.Seconds()/1e9)
	rows := int64(0)
	for _, n := range column.Values[int64](r.Values[0]) {
		rows += n
	}
	if r.Len() > groups || rows != int64(b.n) {
		b.t.Errorf("%d groups of %d rows, want %d of %d", r.Len(), rows, groups, b.n)
	}
	start = time.Now()
	_, err = sortedByKeys(b.t.Context(), r)
	must(b.t, err)
	b.t.Logf("sort of %d groups on the host: %.3f s", r.Len(), time.Since(start).Seconds())
}

// pageable measures columns in Go's memory, with a tenth of the rows.
func (b *link) pageable() {
	whole := *b
	defer func() { *b = whole }()
	b.n /= 10
	b.keys, b.values = column.Of(make([]int64, b.n)), column.Of(make([]int64, b.n))
	b.fill(b.keys, 1000)
	b.t.Logf("pageable columns, %d cores", runtime.GOMAXPROCS(0))
	for range 2 {
		b.add(1000, 0)
	}
}
