package gphash

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// Every operation runs once, with all kinds of mirrors and caches, in a pool that grows. Kernels
// receive widths as parameters, so one pair of widths and byte strings suffice.
func TestSmoke(t *testing.T) { smokeAll(t, devicetest.Open(t)) }

func smokeAll(t *testing.T, dev device.Device) {
	smallParts(t)
	for name, o := range map[string]Options{
		"nothing": {}, "mirror": {Mirror: true}, "buckets": {Cache: .5}, "values": {Mirror: true, Cache: .5}, "atomic": {AtomicBatch: 100},
	} {
		o.Capacity, o.Size = 50, smallPool
		t.Run(name, func(t *testing.T) {
			smokeMap(t, dev, o)
			smokeIndex(t, dev, o)
			if name != "values" {
				smokeStrings(t, dev, o)
			}
		})
	}
}

func smokeMap(t *testing.T, dev device.Device, o Options) {
	m, err := CreateMap[uint32, uint64](filepath.Join(memoryDir(t), "pool"), dev, o)
	must(t, err)
	conformance.SmokeStats(t, dev, loading[uint32, uint64]{m}, func(s Stats) bool {
		return s.Keys == conformance.SmokeKeys && s.Slots > s.Keys
	})
}

// smokeIndex also opens an existing index, looks up hot keys, and runs several operations per warp.
func smokeIndex(t *testing.T, dev device.Device, o Options) {
	path := filepath.Join(memoryDir(t), "pool")
	o.KeySize, o.ValueSize = 13, 130
	x, err := Create(path, dev, o)
	must(t, err)
	var keys, values []byte
	for i := range 30 {
		key := denseKey(o.KeySize, 3+i)
		keys, values = append(keys, key...), append(values, valueOf(o.ValueSize, key, 0)...)
	}
	_, err = x.Put(t.Context(), keys, values)
	must(t, err)
	must(t, x.Close())
	x, _, err = Open(t.Context(), path, dev, OpenOptions{Mirror: o.Mirror, Cache: o.Cache, Verify: true})
	must(t, err)
	if g, ok := x.engine.accel.(*gpuEngine); ok {
		g.k.minWarps = 3
	}
	hot := slices.Repeat(keys, minSortedOps/30+1)
	for range 2 {
		got := make([]byte, len(hot)/o.KeySize*o.ValueSize)
		n, err := x.Get(t.Context(), hot, got, nil)
		conformance.WantCount(t, "Get", n, len(hot)/o.KeySize, err)
		if !slices.Equal(got, slices.Repeat(values, minSortedOps/30+1)) {
			t.Error("Get returns other values")
		}
		must(t, x.LoadCache(t.Context()))
	}
	kinds := make([]weft.OpKind, 30)
	for i := range kinds {
		kinds[i] = weft.OpKind(i % 4)
	}
	must(t, x.Apply(t.Context(), kinds, keys, values, make([]bool, 30)))
	_, err = x.Delete(t.Context(), keys, nil)
	must(t, err)
	must(t, x.Check(t.Context()))
	must(t, x.Close())
}

// smokeStrings makes keys of any length move, and makes the index grow.
func smokeStrings(t *testing.T, dev device.Device, o Options) {
	o.KeySize, o.ValueSize, o.Slots, o.Size = 0, 0, 2, 8<<20
	x, err := CreateStrings(filepath.Join(memoryDir(t), "pool"), dev, o)
	must(t, err)
	l, want := &stringSource{rand.New(rand.NewPCG(1, 2)), 0, 0, 900, Bytes{}}, model{}
	for range 3 {
		stringBatches(t, l, x, want, 90)
		must(t, x.LoadCache(t.Context()))
	}
	want.equalStrings(t, x)
	must(t, x.Check(t.Context()))
	must(t, x.Clear(t.Context()))
	must(t, x.Close())
}

// TestSmoke covers every kernel.
func TestSmokeLaunchesEveryKernel(t *testing.T) {
	conformance.LaunchesAll(t, smokeAll, []*device.Image{&gphashImage}, []*device.Image{&gphashStringsImage})
}
