package linear_test

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/linear"
)

// If a lookup has no memory for its batch, it must return the error and cause no race: no later
// work waits for the counter that it has begun to zero.
func TestGetWithoutMemory(t *testing.T) {
	for seed := range uint64(5) {
		dev, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed, Races: true, Memory: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		m, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: 100})
		if err != nil {
			t.Fatal(err)
		}
		for size := 1 << 19; size >= 64; size /= 2 {
			for err = nil; err == nil; {
				_, err = dev.Alloc(size)
			}
		}
		keys := make([]uint64, 100)
		if _, err = m.Get(t.Context(), keys, keys, make([]bool, len(keys))); !errors.Is(err, device.ErrMemory) {
			t.Errorf("seed %d: Get: %v, want ErrMemory", seed, err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("seed %d: Close: %v", seed, err)
		}
	}
}
