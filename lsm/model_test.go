package lsm_test

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/lsm"
)

// run runs batches against a model. The newest level has base entries, and each older level twice
// as many as the one before.
func run[K weft.Key, V weft.Value](t testing.TB, dev device.Device, seed uint64, rounds, base, maxOps int) {
	m := open[K, V](t, dev, &lsm.Options{Base: base})
	h := conformance.OrderedHistory[K, V]{Map: m.OrderedMap, MaxOps: maxOps, ExtraKinds: []weft.OpKind{weft.OpUpdate}}
	h.Run(t, seed, rounds)
	if s, err := m.Stats(t.Context()); err != nil || s.Len != s.Entries || len(s.Levels) > 1 {
		t.Fatalf("behind Compact: %v, %v", s, err)
	}
}

// TestAgainstModel runs batches of all kinds against a model, with many levels and with few.
func TestAgainstModel(t *testing.T) {
	dev := devicetest.Open(t)
	for seed := range uint64(8) {
		run[int64, uint32](t, dev, seed, 40, 16, 1+int(seed)*100)
		run[uint32, uint64](t, dev, seed, 40, 1<<(4+seed), 300)
	}
}
