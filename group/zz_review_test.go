package group

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/spill"
)

func zzKeys(lo, n int) []column.Column {
	k := make([]int64, n)
	for i := range k {
		k[i] = int64(lo + i)
	}
	return []column.Column{column.Of(k)}
}

// 1: TempDir unusable; the second Add.
func TestZZTempDir(t *testing.T) {
	dev := open(t, 2)
	for _, call := range []string{"add", "result", "len"} {
		g, err := New(dev, []Aggregate{{Sum, 0}}, &Options{Memory: MinMemory, TempDir: "/nonexistent"})
		must(t, err)
		var first error
		lo := 0
		for first == nil && lo < 4_000_000 {
			k := zzKeys(lo, 200_000)
			first = g.Add(t.Context(), k, k)
			lo += 200_000
		}
		t.Log(call, "first error:", lo, first)
		func() {
			defer func() { t.Log("recovered:", recover()) }()
			switch call {
			case "add":
				k := zzKeys(lo, 200_000)
				t.Log(g.Add(t.Context(), k, k))
			case "result":
				r, err := g.Result(t.Context())
				if r != nil {
					t.Log("result", r.Len())
				}
				t.Log(err)
			case "len":
				k := zzKeys(lo, 10)
				t.Log(g.Add(t.Context(), k, k))
				t.Log(g.Len())
			}
		}()
		t.Log(g.Close())
	}
}

type zzDisk struct {
	spill.Disk
	reads, failAt int
}

func (d *zzDisk) ReadAt(b []byte, off int64) (int, error) {
	d.reads++
	if d.reads == d.failAt {
		return 0, syscall.EIO
	}
	return d.Disk.ReadAt(b, off)
}

// 2: a transient read error, then Result again.
func TestZZReadError(t *testing.T) {
	dev := open(t, 2)
	bad := 0
	for failAt := 1; failAt < 400; failAt += 7 {
		g, err := New(dev, []Aggregate{{Func: Rows}}, &Options{Memory: MinMemory, TempDir: "/var/tmp"})
		must(t, err)
		d := &zzDisk{failAt: failAt}
		g.spilled.wrap = func(x spill.Disk) spill.Disk { d.Disk = x; return d }
		const n = 1_000_000
		must(t, g.Add(t.Context(), zzKeys(0, n), nil))
		_, err = g.Result(t.Context())
		if err == nil {
			t.Log("no error at", failAt, "reads", d.reads)
			must(t, g.Close())
			break
		}
		r, err2 := g.Result(t.Context())
		if err2 == nil {
			rows := int64(0)
			over := 0
			for _, v := range column.Values[int64](r.Values[0]) {
				rows += v
				if v != 1 {
					over++
				}
			}
			if rows != n {
				bad++
				if bad < 4 {
					t.Errorf("failAt %d: first %v; then %d groups, %d rows, %d groups with wrong counts, want %d", failAt, err, r.Len(), rows, over, n)
				}
			}
		} else if failAt < 20 {
			t.Log("second:", err2)
		}
		must(t, g.Close())
		if failAt > 60 {
			break
		}
	}
	t.Log("bad", bad)
}

// 3: MergeOn into closed groups.
func TestZZMergeOnClosed(t *testing.T) {
	dev := open(t, 2)
	aggs := []Aggregate{{Func: Rows}}
	g, _ := New(dev, aggs, nil)
	o, _ := New(dev, aggs, nil)
	on, _ := NewOn(dev, aggs, nil)
	must(t, g.Close())
	t.Log("MergeOn:", g.MergeOn(t.Context(), on))
	t.Log("Merge:", g.Merge(t.Context(), o))
	// error text, cancelled
	g, _ = New(dev, aggs, nil)
	must(t, on.Add(t.Context(), zzKeys(0, 1000), nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := g.MergeOn(ctx, on)
	t.Log("cancelled:", err, errors.Is(err, context.Canceled))
	r, err := g.Result(t.Context())
	t.Log(r != nil, err)
	_ = fmt.Sprint
	_ = math.Pi
	_ = slices.Max[[]int]
}
