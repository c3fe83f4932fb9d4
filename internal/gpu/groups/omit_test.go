package groups

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/dst"
)

// If any call by which the host orders streams or waits for them is omitted, groups are wrong or
// memory in use is freed.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	var tries []dst.Try
	for seed := range uint64(2) {
		for _, try := range []func(t testing.TB, dev device.Device){
			func(t testing.TB, dev device.Device) { trySum(t, dev, cases[2], small, 0, 1, 70, 50) },
			tryEnds,
			func(t testing.TB, dev device.Device) { tryNumbers(t, dev, 1200, 1, 900, 1300) },
		} {
			tries = append(tries, dst.SimTry(t, seed, func(t testing.TB, dev device.Device, _ uint64) { try(t, devicetest.Narrow(dev)) }))
		}
	}
	dst.Omit(t, ".", map[string]string{
		"s.Sync(context.Background()) in (*streamOrder).submit": "only where an event cannot be recorded",
	}, tries...)
}

// tryEnds frees memory while batches are running: a column gets nulls, the context of a result
// ends, and a table is closed.
func tryEnds(t testing.TB, dev device.Device) {
	table, err := New(dev, LayoutOf(oneKey(Int64), []Aggregate{{Func: MinOf, Type: Int64}}), Options{Capacity: 1000, Round: 1024})
	must(t, err)
	s := devicetest.NewStream(t, dev)
	const n = 64
	keys, valid := devicetest.Upload(t, s, make([]int64, n)), devicetest.Upload(t, s, make([]uint32, n/32))
	rows := rowsOf(at(keys), at(keys))
	must(t, table.Add(s, rows))
	rows.Values[0].Valid = valid.Ptr()
	must(t, table.Add(s, rows))
	groups, err := table.Len(t.Context())
	must(t, err)
	out, err := device.Make[int64](dev, groups)
	must(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := table.Result(ended, groups, Results{Keys: []KeyOutput{{Column: out.Ptr()}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Result with a context that has ended: %v", err)
	}
	must(t, table.Stream().Sync(t.Context()), out.Free(), table.Add(s, rows), table.Close())
}
