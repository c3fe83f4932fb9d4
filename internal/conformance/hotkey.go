package conformance

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// HotKeys runs [HotKey] on simulated GPUs and on the GPU that WEFT_DEVICE selects, for maps with
// slots of 8 and of 16 bytes.
func HotKeys(t *testing.T, narrow Maker[AnyMap[uint32, uint32]], wide Maker[AnyMap[uint64, uint64]]) {
	devices := map[string]func(*testing.T) device.Device{"device": func(t *testing.T) device.Device { return devicetest.Open(t) }}
	for _, opts := range []sim.Options{{Arch: 90}, {Arch: 80, L2: 1}, {Arch: 90, L2: 1, Scheduler: sim.Random, Seed: 1, Races: true}} {
		devices[fmt.Sprintf("sm_%d,%s,L2 %d", opts.Arch, opts.Scheduler, opts.L2)] = func(t *testing.T) device.Device {
			SkipRaced(t, "interprets kernels")
			return devicetest.OpenSim(t, &opts)
		}
	}
	for name, open := range devices {
		t.Run(name, func(t *testing.T) {
			dev := open(t)
			if _, host := dev.(device.Host); host {
				t.Skip("a CPU does operations one by one")
			}
			for _, key := range []uint64{7, ^uint64(0)} { // the second key looks like a sentinel
				HotKey(t, dev, narrow(t, dev), uint32(key))
				HotKey(t, dev, wide(t, dev), key)
			}
		})
	}
}

// HotKey runs mixed batches on one key of an empty map on a GPU, and closes the map. A batch fits
// in one block. Although the order is unspecified in general, the threads of a block must combine
// the operations in batch order.
func HotKey[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device, m AnyMap[K, V], key K) {
	t.Helper()
	defer func() { must(t, m.Close()) }()
	s := devicetest.NewStream(t, dev)
	present, value := false, V(0)
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n := 2 + rng.IntN(255)
		kinds, keys, vals, ok := make([]weft.OpKind, n), make([]K, n), make([]V, n), make([]bool, n)
		for i := range n {
			// Later seeds make deletions rarer.
			kinds[i] = weft.OpKind(rng.IntN(4))
			if kinds[i] == weft.OpDelete && rng.IntN(int(seed)+1) > 0 {
				kinds[i] = weft.OpPutNew
			}
			keys[i], vals[i] = key, V(1000*seed)+V(i)+1
		}
		v, o := devicetest.Upload(t, s, vals), devicetest.Upload(t, s, ok)
		must(t, m.ApplyOn(s, devicetest.Upload(t, s, kinds), devicetest.Upload(t, s, keys), v, o))
		out := make([]V, n)
		must(t, v.CopyTo(t.Context(), s, out))
		must(t, o.CopyTo(t.Context(), s, ok))
		for i, k := range kinds {
			want, answer := false, V(0)
			switch k {
			case weft.OpGet:
				want = present
			case weft.OpPut, weft.OpPutNew:
				want = !present
			case weft.OpDelete:
				want = present
			}
			if present && (k == weft.OpGet || k == weft.OpPutNew) {
				answer = value
			}
			if ok[i] != want || out[i] != answer {
				t.Fatalf("seed %d: operation %d of %d (%v): %v, %v, want %v, %v", seed, i, n, k, ok[i], out[i], want, answer)
			}
			if k == weft.OpPut || k == weft.OpPutNew && !present {
				present, value = true, vals[i]
			} else if k == weft.OpDelete {
				present = false
			}
		}
		must(t, m.Sync(t.Context()))
		if nonEmpty := m.Len() == 1; nonEmpty != present {
			t.Fatalf("seed %d: Len is %d", seed, m.Len())
		}
		must(t, m.Check(t.Context()))
	}
}
