package linear_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/linear"
)

// The same history of batches must have the same results on every device and machine. WEFT_DEVICE
// adds a GPU.
func TestEqualResults(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	devices := map[string]func() (device.Device, error){
		"WEFT_DEVICE": func() (device.Device, error) { return devicetest.Open(t), nil },
		"one core":    func() (device.Device, error) { return cpu.Open(&cpu.Options{Workers: 1}) },
		"three cores": func() (device.Device, error) { return cpu.Open(&cpu.Options{Workers: 3}) },
	}
	for name, o := range map[string]sim.Options{
		"sim, fast, sm_80":   {Arch: 80},
		"sim, fast, sm_90":   {Arch: 90},
		"sim, random, sm_80": {Arch: 80, Scheduler: sim.Random, Seed: 3},
		"sim, random, sm_90": {Arch: 90, Scheduler: sim.Random, Seed: 4, Races: true},
	} {
		devices[name] = func() (device.Device, error) { return sim.Open(&o) }
	}
	for name, open := range devices {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dev, err := open()
			if err != nil {
				t.Fatal(err)
			}
			if name != "WEFT_DEVICE" { // devicetest closes that device
				defer dev.Close()
			}
			for _, scheme := range []linear.Tombstones{linear.Keep, linear.Reuse} {
				opts := &linear.Options{Tombstones: scheme}
				for widths, test := range map[string]struct{ got, want string }{
					"uint32,uint32":  {results[uint32, uint32](t, dev, opts), "a56e78a8d2631d3c"},
					"uint32,uint64":  {results[uint32, uint64](t, dev, opts), "4d669231f4441977"},
					"uint64,uint32":  {results[uint64, uint32](t, dev, opts), "28d20ee8e0b3da7c"},
					"uint64,float64": {results[uint64, float64](t, dev, opts), "33d3228ca03ac036"},
				} {
					if test.got != test.want {
						t.Errorf("%s: results have digest %s, want %s", widths, test.got, test.want)
					}
				}
			}
		})
	}
}

func results[K weft.Key, V weft.Value](t *testing.T, dev device.Device, opts *linear.Options) string {
	t.Helper()
	m, err := linear.New[K, V](dev, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	h := sha256.New()
	rng := rand.New(rand.NewPCG(8, 8))
	const n = 300
	for batch := range 18 {
		keys, vals, ok := make([]K, n), make([]V, n), make([]bool, n)
		for i := range keys { // with duplicates and keys that look like sentinels
			keys[i], vals[i] = K(rng.IntN(200+60*batch))-3, V(1000*batch+i)
		}
		var count int
		var err error
		switch batch % 6 {
		case 0, 3:
			count, err = m.Put(t.Context(), keys, vals)
		case 1:
			count, err = m.PutNew(t.Context(), keys, vals, ok)
		case 2:
			count, err = m.Delete(t.Context(), keys[:n/2], ok[:n/2])
		case 4:
			count, err = m.Get(t.Context(), keys, vals, ok)
		default: // each key occurs once, because the operations are concurrent
			ops, res := mixed(keys, vals), make([]weft.Result[V], n)
			err = m.Apply(t.Context(), ops, res[:len(ops)])
			for i, r := range res {
				vals[i], ok[i] = r.Value, r.OK
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, h, int64(count), int64(m.Len()), vals, ok)
	}
	type pair struct {
		Key K
		Val V
	}
	var all []pair
	for k, v := range m.All() {
		all = append(all, pair{k, v})
	}
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.Key, b.Key) })
	write(t, h, all)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// mixed returns operations of all kinds on distinct keys.
func mixed[K weft.Key, V weft.Value](keys []K, vals []V) (ops []weft.Op[K, V]) {
	seen := map[K]bool{}
	for i, k := range keys {
		if !seen[k] {
			seen[k] = true
			ops = append(ops, weft.Op[K, V]{Kind: weft.OpKind(i % 4), Key: k, Value: vals[i]})
		}
	}
	return ops
}

func write(t *testing.T, h hash.Hash, values ...any) {
	for _, v := range values {
		if err := binary.Write(h, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
}
