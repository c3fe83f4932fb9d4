package core_test

import (
	"context"
	"maps"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	devcpu "github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

// The fit tests show that structures of other kinds fit the core. They implement small models: a
// table in a mapped file, an ordered list with versions, many tables in one pool, and arrays that
// never change. All models work on the host, have 64-bit keys and values, and run batches in order.

var ctx = context.Background()

// openHost opens a CPU device that checks that all memory is freed, and none too early.
func openHost(t *testing.T) device.Host {
	dev, err := devcpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return devicetest.Checked(t, dev).(device.Host)
}

type easy struct{ core.ResolvingPolicy }

func (easy) Describe() string { return "in a test" }

func (easy) Prepare(_ context.Context, _ core.Counters, _ *device.Stream, b *batch.Batch) (n int, report bool, err error) {
	return b.N, false, nil
}

func (easy) Trim(context.Context, core.Counters, int) error { return nil }
func (easy) Compact(context.Context, core.Counters) error   { return nil }

func config(name string, dev device.Device, p core.Policy, e core.Engine, l *core.Leases) core.Config {
	return core.Config{
		Name: name, Device: dev, Policy: p, Engine: e, Leases: l,
		Widths: batch.MapWidths[uint64, uint64](), Types: core.MapTypes[uint64, uint64](),
	}
}

type model map[uint64]uint64

func (m model) putPairs(keys, vals []uint64) {
	for i, k := range keys {
		m[k] = vals[i]
	}
}

func (m model) remove(keys []uint64) {
	for _, k := range keys {
		delete(m, k)
	}
}

func columns(keys, vals []uint64) batch.Columns {
	return batch.Columns{batch.Keys: batch.Input(keys), batch.Vals: batch.Input(vals)}
}

// equals requires a table to pass its check and to hold exactly the pairs of the model.
func (m model) equals(t *testing.T, where string, table *core.Table) {
	t.Helper()
	if table.Len() != len(m) {
		t.Fatalf("%s: Len %d, want %d", where, table.Len(), len(m))
	}
	must(t, table.Check(ctx))
	got := maps.Collect(weft.NewMap[uint64, uint64](table).All())
	if !maps.Equal(got, map[uint64]uint64(m)) {
		t.Fatalf("%s: %d pairs, want %d:\n%v\n%v", where, len(got), len(m), got, m)
	}
}
