package gphash

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// Kernels do what the engine of the host does, for keys and values of all sizes.
func TestKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallRegions(t)
	for _, o := range []Options{
		{KeySize: 8, ValueSize: 8}, {KeySize: 4, ValueSize: 4}, {KeySize: 16, ValueSize: 128, Hash: Fast},
		{KeySize: 13, ValueSize: 300, Slots: 4, Hashes: 4}, {KeySize: 128, ValueSize: 1, Slots: 16, Levels: 1},
	} {
		for _, mirror := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d,%d,mirror %v", o.KeySize, o.ValueSize, mirror), func(t *testing.T) {
				dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
				o.Size, o.Capacity, o.Mirror = 8<<20, 20, mirror
				path, model := filepath.Join(memoryDir(t), "pool"), map[string][]byte{}
				x, err := Create(path, dev, o)
				must(t, err)
				program(t, x, model, 25)
				must(t, x.Close())
				for i, dev := range []device.Device{openCPU(t), dev} { // the other one goes on
					x, report, err := Open(t.Context(), path, dev, OpenOptions{Mirror: mirror, Verify: i == 1})
					must(t, err)
					if int(report.Keys) != len(model) {
						t.Errorf("%v: opening found %d keys, want %d", dev.Properties().Kind, report.Keys, len(model))
					}
					program(t, x, model, 8)
					must(t, x.Close())
				}
			})
		}
	}
}

// program runs batches of an index beside a map.
func program(t *testing.T, x *Index, model map[string][]byte, batches int) {
	rng := rand.New(rand.NewPCG(1, uint64(len(model))))
	size, vsize := x.KeySize(), x.ValueSize()
	for range batches {
		n := 1 + rng.IntN(200)
		kinds, keys, values := make([]weft.OpKind, n), make([]byte, n*size), make([]byte, n*vsize)
		want, wantOK := make([]byte, n*vsize), make([]bool, n)
		for i := range n {
			kinds[i] = weft.OpKind(rng.IntN(4))
			key, value := row(keys, i, uint64(size)), row(values, i, uint64(vsize))
			key[0], key[len(key)-1] = byte(rng.IntN(90)), byte(rng.IntN(4))
			for j := range value {
				value[j] = byte(rng.Uint32())
			}
			is, there := model[string(key)]
			switch kinds[i] {
			case weft.OpGet:
				copy(row(want, i, uint64(vsize)), is)
				wantOK[i] = there
			case weft.OpPut:
				wantOK[i] = !there
				model[string(key)] = bytes.Clone(value)
			case weft.OpPutNew:
				wantOK[i] = !there
				if there {
					copy(row(want, i, uint64(vsize)), is)
				} else {
					model[string(key)] = bytes.Clone(value)
				}
			case weft.OpDelete:
				wantOK[i] = there
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

// Batches that are sorted, by ranks and by digits, do what others do.
func TestSortedBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
	x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 8, ValueSize: 8, Size: 16 << 20, Capacity: rankMost + 1000})
	must(t, err)
	n := rankMost + 900
	pairs := make([]uint64, n)
	for i := range pairs {
		pairs[i] = uint64(i)
	}
	in, err := x.Put(t.Context(), device.Bytes(pairs), device.Bytes(pairs))
	if must(t, err); in != n {
		t.Fatalf("%d inserted, want %d", in, n)
	}
	keys, values, found := make([]uint64, sortFrom), make([]uint64, sortFrom), make([]bool, sortFrom)
	for i := range keys {
		keys[i] = uint64(sortFrom-i) / 2 // each twice, from above
	}
	hits, err := x.Get(t.Context(), device.Bytes(keys), device.Bytes(values), found)
	must(t, err)
	want := 0
	for i, k := range keys {
		if there := k < uint64(n); found[i] != there || there && values[i] != k || !there && values[i] != 0 {
			t.Fatalf("key %d: %v, %d", k, found[i], values[i])
		} else if there {
			want++
		}
	}
	if hits != want {
		t.Errorf("%d hits, want %d", hits, want)
	}
	must(t, x.Close())
}
