package btree_test

import (
	"testing"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// Every operation once for every pair of widths.
func TestSmoke(t *testing.T) { smokeAll(t, devicetest.Open(t)) }

func smokeAll(t *testing.T, dev device.Device) {
	t.Run("32_32", func(t *testing.T) { smoke[uint32, uint32](t, dev) })
	t.Run("32_64", func(t *testing.T) { smoke[uint32, uint64](t, dev) })
	t.Run("64_32", func(t *testing.T) { smoke[uint64, uint32](t, dev) })
	t.Run("64_64", func(t *testing.T) { smoke[uint64, uint64](t, dev) })
}

func smoke[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device) {
	m := open[K, V](t, dev)
	conformance.SmokeOrderedMap(t, dev, m)
	keys, vals := conformance.Sequence[K](0, 300), make([]V, 300)
	for _, batch := range [][]K{keys[:1], keys} { // not laid out at once, so that nodes split, and merge
		_, err := m.Put(t.Context(), batch, vals[:len(batch)])
		must(t, err)
	}
	_, err := m.Delete(t.Context(), keys, nil)
	must(t, err)
	must(t, m.Reclaim(t.Context()))
	must(t, m.Check(t.Context()))
	if s, err := m.Stats(t.Context()); err != nil || s.Dead != 0 {
		t.Errorf("%v, %v behind Reclaim", s, err)
	}
}

// Those who look at TestSmoke see every kernel.
func TestSmokeLaunchesEveryKernel(t *testing.T) {
	conformance.LaunchesAll(t, smokeAll, btree.Images)
}
