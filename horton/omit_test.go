package horton_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
)

// TestOmissionsAreNoticed omits, one at a time, each call by which the host orders streams or waits
// for them. Some program must fail without that call. linear's programs cover the calls of the
// engine, except those in changes that move pairs.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	open := func(dev device.Device) (*horton.Map[uint32, uint32], error) {
		return horton.New[uint32, uint32](dev, &horton.Options{Capacity: 1000, Seed: 1})
	}
	tries := []dst.Try{dst.IterateAfterChanges(open)}
	for seed := range uint64(4) {
		tries = append(tries, dst.SimTry(t, seed, func(t testing.TB, dev device.Device, _ uint64) { reclaimAndClose(t, dev) }))
	}
	dst.Omit(t, "../internal/cpu", nil, dst.MapClosedStreamTry(open))
	needless := dst.JudgedElsewhere(t, "../internal/gpu", "linear's programs", func(c devicetest.Call) bool {
		return c.Func == "(*Engine).waitChanges"
	})
	needless["e.Stream.Sync(context.WithoutCancel(ctx)) in (*Engine).Rearrange"] = "tells of launches that fail; what comes later is ordered behind them"
	dst.Omit(t, "../internal/gpu", needless, tries...)
}

// reclaimAndClose makes a full map reclaim after deletes, twice, and closes it at once.
func reclaimAndClose(t testing.TB, dev device.Device) {
	const n, stay = 240, 60
	m, err := horton.New[uint32, uint32](dev, &horton.Options{Capacity: n, MaxLoad: .95, Fixed: true, Seed: 3, Reclaim: horton.Lazy})
	if err != nil {
		t.Fatal(err)
	}
	s := devicetest.NewStream(t, dev)
	keys := conformance.Sequence[uint32](1, n)
	on := devicetest.Upload(t, s, keys)
	found := devicetest.Upload(t, s, make([]bool, stay/2))
	_, err = m.Put(t.Context(), keys, keys)
	for left := n; left > stay; left /= 2 {
		_, e := m.Delete(t.Context(), keys[left/2:left], nil)
		err = errors.Join(err, e, m.ContainsOn(s, on.Sub(0, stay/2), found))
	}
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(devicetest.Download(t, s, found), false) {
		t.Error("a key that stays is not found")
	}
	if err := errors.Join(m.Compact(t.Context()), m.Close()); err != nil {
		t.Error(err)
	}
}
