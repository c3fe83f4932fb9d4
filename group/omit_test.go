package group

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/dst"
)

// Each wait of the host for a GPU is necessary. If it is omitted, groups are wrong, or memory is
// freed while in use.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const first = "the result of the first table waits for the same stream"
	const kept = "ByOn keeps the memory that is freed"
	dst.Omit(t, ".", map[string]string{
		"s.Sync(ctx) in (*gpuGroups).columns":                              first,
		"t.Stream().Sync(context.WithoutCancel(ctx)) in (*gpuGroups).free": kept,
	}, dst.SimTry(t, 1, func(t testing.TB, dev device.Device, _ uint64) {
		skipHost(t, devicetest.Narrow(dev))
	}))
}

// skipHost groups host columns in partitions and with nulls in two tables, and cancels some calls.
func skipHost(t testing.TB, dev device.Device) {
	keys, valid := make([]int64, 400), make([]bool, 400)
	for i := range keys {
		keys[i], valid[i] = int64(i%239), i%7 > 0
	}
	values := []column.Column{column.Of(keys)}
	skipBy(t, dev, values, values, 55_000, 1<<30, 10)
	nulls := []column.Column{column.Of(keys).WithValid(column.OfBools(valid))}
	none := []column.Column{column.Of(keys).WithValid(column.OfBools(make([]bool, len(keys))))}
	skipBy(t, dev, none, values, 0, 1<<30)
	skipBy(t, dev, nulls, nulls, 0, 1<<30, 30, 10)
}

// skipBy groups with contexts that end after a number of checks.
func skipBy(
	t testing.TB, dev device.Device, keys, values []column.Column, memory int64, looks ...int,
) {
	aggs := []Aggregate{{Func: Sum}}
	want, err := By(t.Context(), devicetest.OpenCPU(t, 1), keys, values, aggs,
		&Options{Sorted: true})
	must(t, err)
	for _, looks := range looks {
		j := openByOn(keys, values, aggs, Options{}, memory, 3000)
		r, err := j.run(&cancelAfter{t.Context(), looks}, dev)
		switch {
		case err == nil:
			if d := differ(linesOf(r), linesOf(want)); d != "" {
				t.Error(d)
			}
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
	}
}
