package horton

import (
	"math"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestX explores.
func TestX(t *testing.T) {
	dev := devicetest.OpenCPU(t, 2)
	for _, c := range []struct {
		slots int
		load  float64
	}{{1, .7}, {1, .75}, {2, .8}, {2, .85}, {4, .91}, {8, .9}, {8, .95}, {16, .96}} {
		x32[uint32, uint32](t, dev, c.slots, c.load)
		x32[uint64, uint64](t, dev, c.slots, c.load)
		xs(t, dev, c.slots, c.load)
	}
}
func model(slots int, load float64, entries int) (b, hit, miss float64) {
	l := load * float64(slots)
	p := math.Exp(-l)
	for x := 1; x < 200; x++ {
		p *= l / float64(x)
		if x > slots {
			b += p
			hit += float64(x-slots+1) * p
			if x <= slots-1+entries {
				miss += float64(x-slots+1) * p / float64(entries)
			}
		}
	}
	return b, 1 + hit/l, 1 + miss
}
func x32[K weft.Key, V weft.Value](t *testing.T, dev device.Device, slots int, load float64) {
	n := int(load * (1 << 20))
	keys := make([]K, n)
	for i := range keys {
		keys[i] = K(i + 1)
	}
	vals := make([]V, n)
	failed := 0
	for seed := range uint64(3) {
		m, err := New[K, V](dev, &Options{Capacity: n, MaxLoad: load, Fixed: true, Seed: seed + 1, Slots: slots})
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Put(t.Context(), keys, vals)
		if err != nil || m.engine.Size().Seed != seed+1 {
			failed++
			t.Logf("%d %v %v", got, err, m.engine.Size().Seed == seed+1)
		}
		if seed == 0 {
			l := m.layout
			b, h, mi := model(slots, load, int(l.entries()))
			t.Logf("%d: model B %.4f hit %.4f miss %.4f: %v", slots, b, h, mi, conformance.StatsOf(t, m))
		}
		m.Close()
	}
	if failed > 0 {
		t.Logf("%d failed", failed)
	}
}
func xs(t *testing.T, dev device.Device, slots int, load float64) {
	n := int(load * (1 << 20))
	keys := conformance.Sequence[uint32](1, n)
	m, err := NewSet[uint32](dev, &Options{Capacity: n, MaxLoad: load, Fixed: true, Seed: 1, Slots: slots})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Add(t.Context(), keys, nil)
	if err != nil || m.engine.Size().Seed != 1 {
		t.Logf("%d %v", got, err)
	}
	l := m.layout
	b, h, mi := model(slots, load, int(l.entries()))
	t.Logf("set %d: model B %.4f hit %.4f miss %.4f: %v", slots, b, h, mi, conformance.StatsOf(t, m))
	m.Close()
}
