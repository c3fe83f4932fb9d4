package ordered_test

import (
	"errors"
	"math"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/ordered"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	dev := devicetest.Open(t)
	for name, opts := range map[string]ordered.Options{
		"Capacity -1": {Capacity: -1}, "Capacity too large": {Capacity: math.MaxInt}, "ResultLimit -1": {ResultLimit: -1},
		"Fill .6": {Fill: .6}, "Fill 1.1": {Fill: 1.1}, "Fill NaN": {Fill: math.NaN()},
	} {
		if _, err := ordered.New[uint64, uint64](dev, &opts); !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ordered.New[uint64, uint64](nil, nil); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("no device: %v", err)
	}
}

// TestCapacity checks that memory for Capacity pairs stays allocated, also after deletes.
func TestCapacity(t *testing.T) {
	dev := devicetest.Open(t)
	m, err := ordered.New[uint64, uint64](dev, &ordered.Options{Capacity: 10_000})
	must(t, err)
	defer m.Close()
	keys := make([]uint64, 10_000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	before, err := m.Stats(ctx())
	must(t, err)
	_, err = m.Put(ctx(), keys, keys)
	must(t, err)
	full, err := m.Stats(ctx())
	must(t, err)
	_, err = m.Delete(ctx(), keys[1:], nil)
	must(t, err)
	if s, err := m.Stats(ctx()); err != nil || full.Free+full.Leaves < before.Free || s.Free+s.Leaves < before.Free {
		t.Errorf("%v, full %v, almost empty %v: %v", before, full, s, err)
	}
}
