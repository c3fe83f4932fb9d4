package sorted_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/sorted"
)

// run runs some batches against a model, alongside held snapshots.
func run[K weft.Key, V weft.Value](t *testing.T, dev device.Device, seed uint64, maxPairs int) {
	m := conformance.Open(t, sorted.New[K, V], dev, nil)
	h := conformance.OrderedHistory[K, V]{Map: m.OrderedMap, MaxOps: maxPairs, ExtraKinds: []weft.OpKind{weft.OpUpdate}}
	h.Run(t, seed, 40)
	if s := conformance.StatsOf(t, m); s.Held != 0 {
		t.Fatalf("behind all snapshots: %v", s)
	}
}

// TestAgainstModel runs batches of all kinds against a model.
func TestAgainstModel(t *testing.T) {
	dev := devicetest.Open(t)
	for seed := range uint64(4) {
		run[int64, uint32](t, dev, seed, 1+int(seed)*200)
		run[uint32, uint64](t, dev, 10+seed, 300)
	}
}
