package gphashkernels

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/variant"
)

var ctx = context.Background()

// smallPool is the size of the tests' pools, in bytes.
const smallPool = 16 << 20

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "weft")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// model is the model of an index.
type model map[string]string

func (m model) equal(t testing.TB, x *gphash.Index) {
	t.Helper()
	got := model{}
	for k, v := range x.All(ctx) {
		got[string(k)] = string(v)
	}
	if !maps.Equal(got, m) {
		t.Fatalf("%d keys, not the %d that there should be", len(got), len(m))
	}
}

// stateless opens a pool with the slot states in the words of keys.
func stateless(t *testing.T, path string, dev device.Device, o gphash.OpenOptions) (*gphash.Index, error) {
	x, _, err := gphash.Open(variant.Context(t.Context(), Reserved), path, dev, o)
	return x, err
}

// statelessPool makes a pool with capacity for 400 keys.
func statelessPool(t *testing.T, dev device.Device, keys ...uint64) string {
	path := filepath.Join(memoryDir(t), "pool")
	x, err := gphash.Create(path, dev, gphash.Options{KeySize: 8, ValueSize: 16, Capacity: 400, Size: smallPool})
	must(t, err)
	_, err = x.Put(ctx, words(keys...), make([]byte, 16*len(keys)))
	must(t, err)
	must(t, x.Close())
	return path
}

func words(keys ...uint64) (column []byte) {
	for _, key := range keys {
		column = binary.LittleEndian.AppendUint64(column, key)
	}
	return column
}

// An index with states in keys has the same effect as a Go map, and leaves an ordinary pool.
func TestReservedKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev, rng, want := devicetest.OpenSim(t, nil), rand.New(rand.NewPCG(1, 2)), model{}
	host, err := cpu.Open(nil)
	must(t, err)
	defer host.Close()
	path := statelessPool(t, dev)
	for range 2 {
		x, err := stateless(t, path, dev, gphash.OpenOptions{})
		must(t, err)
		for round := range 8 {
			statelessBatch(t, x, rng, want)
			if round == 4 {
				want.equal(t, x)
				must(t, x.Check(ctx))
			}
		}
		must(t, x.Close())
		x, _, err = gphash.Open(ctx, path, host, gphash.OpenOptions{Verify: true})
		must(t, err)
		want.equal(t, x)
		must(t, x.Check(ctx))
		must(t, x.Close())
	}
	x, err := stateless(t, path, dev, gphash.OpenOptions{})
	must(t, err)
	must(t, x.Clear(ctx))
	clear(want)
	statelessBatch(t, x, rng, want)
	want.equal(t, x)
	must(t, x.Close())
}

// statelessBatch runs a mixed batch, and compares the results with a map.
func statelessBatch(t *testing.T, x *gphash.Index, rng *rand.Rand, want model) {
	const n = 150
	kinds, keys, values, ok := make([]weft.OpKind, n), make([]byte, 0, 8*n), make([]byte, 16*n), make([]bool, n)
	for i := range n {
		kinds[i] = []weft.OpKind{weft.OpGet, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpUpdate}[rng.IntN(5)]
		keys = append(keys, words(3+rng.Uint64N(300))...)
		binary.LittleEndian.PutUint64(values[16*i:], rng.Uint64())
	}
	in := append([]byte(nil), values...)
	must(t, x.Apply(ctx, kinds, keys, values, ok))
	for i, kind := range kinds {
		key, value := string(keys[8*i:8*i+8]), string(in[16*i:16*i+16])
		was, there := want[key]
		flag := there
		switch {
		case kind == weft.OpDelete:
			delete(want, key)
		case kind == weft.OpPut, kind == weft.OpPutNew && !there, kind == weft.OpUpdate && there:
			want[key] = value
		}
		if kind == weft.OpPut || kind == weft.OpPutNew {
			flag = !there
		}
		if ok[i] != flag {
			t.Fatalf("operation %d, %v of %x: ok %v, want %v", i, kind, key, ok[i], flag)
		}
		if got := string(values[16*i : 16*i+16]); there && kind == weft.OpGet && got != was {
			t.Fatalf("operation %d: Get of %x returns %x, want %x", i, key, got, was)
		}
	}
}

// Changes of the three reserved keys are refused, and lookups do not find them.
func TestReservedKeysAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	path := statelessPool(t, dev)
	x, err := stateless(t, path, dev, gphash.OpenOptions{})
	must(t, err)
	for key := range uint64(3) {
		_, put := x.Put(ctx, words(7, key), make([]byte, 32))
		_, deleted := x.Delete(ctx, words(key), nil)
		if !errors.Is(put, ErrReserved) || !errors.Is(deleted, ErrReserved) {
			t.Errorf("%#x: Put: %v; Delete: %v", key, put, deleted)
		}
		n, err := x.Get(ctx, words(7, key), make([]byte, 32), nil)
		conformance.WantCount(t, "Get", n, 1, err)
	}
	n, err := x.Put(ctx, words(3, ^uint64(0)), make([]byte, 32))
	conformance.WantCount(t, "Put of other keys", n, 2, err)
	must(t, x.Check(ctx))
	must(t, x.Close())
	if _, err := stateless(t, statelessPool(t, dev, 2), dev, gphash.OpenOptions{}); !errors.Is(err, ErrReserved) || !errors.Is(err, weft.ErrOptions) {
		t.Errorf("a pool that has a key: %v", err)
	}
	if _, err := stateless(t, path, dev, gphash.OpenOptions{Mirror: true}); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("with a mirror: %v", err)
	}
}

// An index with states in keys keeps its slots, and reuses those of deleted keys.
func TestReservedKeysDoNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	x, err := stateless(t, statelessPool(t, dev), dev, gphash.OpenOptions{})
	must(t, err)
	var keys []byte
	for i := range uint64(2000) {
		keys = append(keys, words(3+i)...)
	}
	stats, err := x.Stats(ctx)
	if err != nil || stats.Slots >= 2000 {
		t.Fatalf("%d slots are enough for all keys (%v)", stats.Slots, err)
	}
	for part := range slices.Chunk(keys, 8*250) {
		n, err := x.Put(ctx, part, make([]byte, 2*len(part)))
		conformance.WantCount(t, "Put", n, 250, err)
		n, err = x.Delete(ctx, part, nil)
		conformance.WantCount(t, "Delete", n, 250, err)
	}
	if _, err := x.Put(ctx, keys, make([]byte, 2*len(keys))); err == nil || !strings.Contains(err.Error(), "another form") {
		t.Errorf("Put of more keys than there are slots: %v", err)
	}
	must(t, x.Check(ctx))
	must(t, x.Close())
}
