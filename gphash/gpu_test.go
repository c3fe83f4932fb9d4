package gphash

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// Kernels have the same results as the engine of the host, for keys and values of all sizes.
func TestKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	for n, o := range []Options{
		{KeySize: 8, ValueSize: 8}, {KeySize: 4, ValueSize: 4}, {KeySize: 16, ValueSize: 128, Hash: Fast},
		{KeySize: 13, ValueSize: 300, Slots: 4, Hashes: 4}, {KeySize: 128, ValueSize: 1, Slots: 16, Levels: 1},
	} {
		for i, copies := range []string{"nothing", "mirror", "cache", "mirror and values"} {
			// all four options for keys of 8 bytes, and one of them for each other size
			if n > 0 && i != n%4 {
				continue
			}
			t.Run(fmt.Sprintf("%d,%d,%s", o.KeySize, o.ValueSize, copies), func(t *testing.T) {
				dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
				o.Size, o.Capacity, o.Mirror = smallPool, 20, i%2 == 1
				if o.Cache = 0; i >= 2 {
					o.Cache, o.CachePolicy = .4, CachePolicy((n+i)%3)
				}
				path, model := filepath.Join(memoryDir(t), "pool"), map[string][]byte{}
				x, err := Create(path, dev, o)
				must(t, err)
				program(t, x, model, 6**thorough)
				must(t, x.Close())
				for i, dev := range []device.Device{openCPU(t), dev} { // the other device continues
					x, report, err := Open(t.Context(), path, dev, OpenOptions{Mirror: o.Mirror, Cache: o.Cache, Verify: i == 1})
					must(t, err)
					if int(report.Keys) != len(model) {
						t.Errorf("%v: opening found %d keys, want %d", dev.Properties().Kind, report.Keys, len(model))
					}
					program(t, x, model, 3**thorough)
					must(t, x.Close())
				}
			})
		}
	}
}

// program runs batches on an index and on a map.
func program(t *testing.T, x *Index, model map[string][]byte, batches int) {
	rng := rand.New(rand.NewPCG(1, uint64(len(model))))
	size, vsize := x.KeySize(), x.ValueSize()
	for range batches {
		n := 1 + rng.IntN(200)
		kinds, keys, values := make([]weft.OpKind, n), make([]byte, n*size), make([]byte, n*vsize)
		want, wantOK := make([]byte, n*vsize), make([]bool, n)
		for i := range n {
			kinds[i] = weft.OpKind(randomKind(rng))
			key, value := row(keys, i, uint64(size)), row(values, i, uint64(vsize))
			key[0], key[len(key)-1] = byte(rng.IntN(90)), byte(rng.IntN(4))
			for j := range value {
				value[j] = byte(rng.Uint32())
			}
			is, exists := model[string(key)]
			switch kinds[i] {
			case weft.OpGet:
				copy(row(want, i, uint64(vsize)), is)
				wantOK[i] = exists
			case weft.OpPut:
				wantOK[i] = !exists
				model[string(key)] = bytes.Clone(value)
			case weft.OpPutNew:
				wantOK[i] = !exists
				if exists {
					copy(row(want, i, uint64(vsize)), is)
				} else {
					model[string(key)] = bytes.Clone(value)
				}
			case weft.OpUpdate:
				if wantOK[i] = exists; exists {
					model[string(key)] = bytes.Clone(value)
				}
			case weft.OpDelete:
				wantOK[i] = exists
				delete(model, string(key))
			}
		}
		ok := make([]bool, n)
		must(t, x.Apply(t.Context(), kinds, keys, values, ok))
		for i := range n {
			if ok[i] != wantOK[i] || !bytes.Equal(row(values, i, uint64(vsize)), row(want, i, uint64(vsize))) {
				t.Fatalf("operation %d, %v of %x: %v %x, want %v %x", i, kinds[i], row(keys, i, uint64(size)), ok[i],
					row(values, i, uint64(vsize)), wantOK[i], row(want, i, uint64(vsize)))
			}
		}
		if x.Len() != len(model) {
			t.Fatalf("%d keys, want %d", x.Len(), len(model))
		}
		lookUp(t, x, model, keys)
		if rng.IntN(4) == 0 {
			must(t, x.LoadCache(t.Context()))
		}
	}
	must(t, x.Check(t.Context()))
	seen := 0
	for k, v := range x.All(t.Context()) {
		if is, ok := model[string(k)]; !ok || !bytes.Equal(is, v) {
			t.Fatalf("key %x has %x, want %x, %v", k, v, is, ok)
		}
		seen++
	}
	if seen != len(model) {
		t.Fatalf("%d keys seen, want %d", seen, len(model))
	}
}

// lookUp compares the values of keys with those of a map.
func lookUp(t *testing.T, x *Index, model map[string][]byte, keys []byte) {
	n, vsize := len(keys)/x.KeySize(), uint64(x.ValueSize())
	values, found := make([]byte, uint64(n)*vsize), make([]bool, n)
	_, err := x.Get(t.Context(), keys, values, found)
	must(t, err)
	for i := range n {
		key, absent := row(keys, i, uint64(x.KeySize())), make([]byte, vsize)
		want, exists := model[string(key)]
		if !exists {
			want = absent
		}
		if found[i] != exists || !bytes.Equal(row(values, i, vsize), want) {
			t.Fatalf("key %x has %v %x, want %v %x", key, found[i], row(values, i, vsize), exists, want)
		}
	}
}

// Batches sorted by ranks or by digits have the same results as unsorted ones.
func TestSortedBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
	x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 8, ValueSize: 8, Size: 16 << 20, Capacity: maxRankedOps + 1000})
	must(t, err)
	n := maxRankedOps + 900
	pairs := make([]uint64, n)
	for i := range pairs {
		pairs[i] = uint64(i)
	}
	in, err := x.Put(t.Context(), device.Bytes(pairs), device.Bytes(pairs))
	if must(t, err); in != n {
		t.Fatalf("%d inserted, want %d", in, n)
	}
	for _, lookups := range []int{minSortedOps, 2*n + 1000} {
		keys, values, found := make([]uint64, lookups), make([]uint64, lookups), make([]bool, lookups)
		for i := range keys {
			keys[i] = uint64(lookups-i) / 2 // each twice, in descending order
		}
		hits, err := x.Get(t.Context(), device.Bytes(keys), device.Bytes(values), found)
		must(t, err)
		want := 0
		for i, k := range keys {
			if exists := k < uint64(n); found[i] != exists || exists && values[i] != k || !exists && values[i] != 0 {
				t.Fatalf("key %d: %v, %d", k, found[i], values[i])
			} else if exists {
				want++
			}
		}
		if hits != want {
			t.Errorf("%d hits, want %d", hits, want)
		}
	}
	must(t, x.Close())
}

// The cache holds the entries that its policy selects, and reports its hit rate.
func TestCachePolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	const n = 600
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(i)
	}
	hot := make([]uint64, n)
	for i := range hot {
		hot[i] = uint64(i % 5)
	}
	minHitRate := map[CachePolicy]float64{LFU: .9, LRU: .9, Random: .05}
	for i := range 6 {
		policy, values := CachePolicy(i%3), i >= 3
		t.Run(fmt.Sprintf("%d,values=%v", policy, values), func(t *testing.T) {
			t.Parallel()
			dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
			x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{
				KeySize: 8, ValueSize: 8, Size: smallPool, Capacity: n, Mirror: values, Cache: .2, CachePolicy: policy, Seed: [2]uint64{1, 2},
			})
			must(t, err)
			_, err = x.Put(t.Context(), device.Bytes(keys), device.Bytes(keys))
			must(t, err)
			got, rate := make([]uint64, n), 0.
			must(t, x.LoadCache(t.Context())) // no entry has been read yet
			for round := range 4 {
				few := hot
				if round == 2 && policy == LFU {
					few = keys // now other keys are read, but less often
				}
				_, err = x.Get(t.Context(), device.Bytes(few), device.Bytes(got), nil)
				must(t, err)
				s, err := x.Stats(t.Context())
				must(t, err)
				rate = s.CacheHitRate
				must(t, x.LoadCache(t.Context()))
			}
			if rate < minHitRate[policy] || policy == Random && rate > .5 {
				t.Errorf("policy %d, of values %v: %.2f of what was read was in the cache", policy, values, rate)
			}
			must(t, x.Check(t.Context()))
			must(t, x.Close())
		})
	}
}

// Lookups before the first load of the cache count like later ones.
func TestFirstLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	for _, policy := range []CachePolicy{LFU, LRU} {
		x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{
			KeySize: 8, ValueSize: 8, Size: smallPool, Capacity: 600, Cache: .2, CachePolicy: policy, Seed: [2]uint64{1, 2},
		})
		must(t, err)
		key, value := make([]byte, 8), make([]byte, 8)
		_, err = x.Put(t.Context(), key, value)
		must(t, err)
		for range 2 {
			_, err = x.Get(t.Context(), key, value, nil)
			must(t, err)
			s, err := x.Stats(t.Context())
			must(t, err)
			if s.CacheHitRate != 0 {
				t.Errorf("policy %d: %.2f of the buckets that were read were in a cache that has none", policy, s.CacheHitRate)
			}
		}
		must(t, x.LoadCache(t.Context()))
		_, err = x.Get(t.Context(), key, value, nil)
		must(t, err)
		if s, err := x.Stats(t.Context()); err != nil || s.CacheHitRate != 1 {
			t.Errorf("policy %d: %.2f of the buckets that were read were in the cache, %v", policy, s.CacheHitRate, err)
		}
		must(t, x.Close())
	}
}

// Buffers of launches are reused, even if other launches run in between.
func TestLoansAreLentAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 8, ValueSize: 8, Size: smallPool, Capacity: 20})
	must(t, err)
	for range 10 {
		_, err := x.Put(t.Context(), make([]byte, 8), make([]byte, 8))
		must(t, err)
		_, err = x.Delete(t.Context(), make([]byte, 8), nil)
		must(t, err)
		must(t, x.Clear(t.Context()))
	}
	if n := len(x.engine.accel.(*gpuEngine).k.buffers.all); n > 4 {
		t.Errorf("%d loans of launches of which one is under way", n)
	}
	must(t, x.Close())
}

// Values stay in the cache when they are replaced, and when their keys move.
func TestValuesStayInTheCache(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 8, ValueSize: 24, Size: smallPool, Capacity: 100, Mirror: true, Cache: 1})
	must(t, err)
	must(t, x.LoadCache(t.Context())) // the index is empty
	model := map[string][]byte{}
	put := func(keys, version int) (batch []byte) {
		var values []byte
		for i := range keys {
			key := denseKey(8, i)
			model[string(key)] = valueOf(24, key, uint64(version))
			batch, values = append(batch, key...), append(values, model[string(key)]...)
		}
		_, err := x.Put(t.Context(), batch, values)
		must(t, err)
		return batch
	}
	few := put(100, 0)
	lookUp(t, x, model, few)
	must(t, x.LoadCache(t.Context()))
	for version := range 3 {
		put(100, version)
		lookUp(t, x, model, few)
	}
	was, err := x.Stats(t.Context())
	must(t, err)
	put(1500, 3)
	lookUp(t, x, model, few)
	is, err := x.Stats(t.Context())
	must(t, errors.Join(err, x.Check(t.Context())))
	if is.Slots == was.Slots || was.CacheHitRate != 1 || is.CacheHitRate != 1 {
		t.Errorf("%d slots became %d, and of the values %v and %v were read in the cache", was.Slots, is.Slots, was.CacheHitRate, is.CacheHitRate)
	}
	must(t, x.Close())
}

// A lookup alongside a change returns the old or the new value of the key, even if the change
// writes through to the cache.
func TestCachedValuesBesideChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	const n, size = 12, 40
	keys := make([]byte, 8*n)
	for i := range n {
		keys[8*i] = byte(i)
	}
	version := func(v byte) []byte { return bytes.Repeat([]byte{v}, n*size) }
	for seed := range uint64(3 * *thorough) {
		dev := devicetest.OpenSim(t, &sim.Options{Arch: 80, Scheduler: sim.Random, Seed: seed})
		x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 8, ValueSize: size, Size: smallPool, Capacity: 100, Mirror: true, Cache: 1})
		must(t, err)
		_, err = x.Put(t.Context(), keys, version(1))
		must(t, err)
		_, err = x.Get(t.Context(), keys, version(0), nil)
		must(t, errors.Join(err, x.LoadCache(t.Context())))
		changes, lookups := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
		on, got := devicetest.Upload(t, changes, keys), devicetest.Upload(t, lookups, version(0))
		next := devicetest.Upload(t, changes, version(2))
		must(t, changes.Sync(t.Context()))
		must(t, errors.Join(x.PutOn(changes, on, next), x.GetOn(lookups, on, got, device.Slice[bool]{})))
		values := version(0)
		must(t, errors.Join(got.CopyTo(t.Context(), lookups, values), x.Sync(t.Context())))
		for i := range n {
			value := row(values, i, size)
			if v := value[0]; v != 1 && v != 2 || !bytes.Equal(value, bytes.Repeat([]byte{v}, size)) {
				t.Fatalf("seed %d: key %d has %x", seed, i, value)
			}
		}
		must(t, x.Close())
	}
}
