package gphash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/op"
)

var ctx = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openCPU(t testing.TB) device.Device {
	t.Helper()
	dev, err := cpu.Open(nil)
	must(t, err)
	t.Cleanup(func() { must(t, dev.Close()) })
	return dev
}

// memoryDir returns a folder in a file system in memory, if available. Files there outlive a
// process at the speed of memory.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "weft")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

type model map[string]string

func (m model) equal(t testing.TB, x *Index) {
	t.Helper()
	got := model{}
	for k, v := range x.All(ctx) {
		got[string(k)] = string(v)
	}
	if !maps.Equal(got, m) {
		t.Fatalf("the index has %d pairs, they should be %d", len(got), len(m))
	}
	if x.Len() != len(m) {
		t.Fatalf("Len %d, want %d", x.Len(), len(m))
	}
}

// An index accepts batches of any kind while it grows. It has the same contents after it has been
// closed and opened again.
func TestIndex(t *testing.T) {
	smallParts(t)
	rounds := 3 * *thorough
	sizes := []struct{ key, value, levels, slots, hashes, atomic int }{
		{8, 128, 2, 8, 2, 0}, {13, 130, 2, 8, 2, 5000}, {128, 3000, 3, 4, 2, 0},
		{4, 8, 1, 16, 2, 0}, {32, 128, 2, 8, 2, 0}, {13, 7, 4, 4, 2, 0}, {1, 1, 2, 8, 2, 0}, {8, 8, 2, 2, 2, 0},
	}
	if conformance.Raced {
		sizes = sizes[:3] // the other sizes use the same code
	}
	for _, size := range sizes {
		for _, resize := range []Resize{Beside, Stop} {
			t.Run(fmt.Sprint(size, resize), func(t *testing.T) {
				dev, path := openCPU(t), filepath.Join(memoryDir(t), "pool")
				x, err := Create(path, dev, Options{KeySize: size.key, ValueSize: size.value, Levels: size.levels, Slots: size.slots,
					Hashes: size.hashes, Capacity: 64, Size: 24 << 20, Resize: resize, AtomicBatch: size.atomic})
				must(t, err)
				rng, want := rand.New(rand.NewPCG(1, uint64(size.key))), model{}
				for i := range rounds {
					// one of these batches is large enough for all cores
					randomBatches(t, rng, x, want, 300+i%3*1300)
					must(t, x.Check(ctx))
				}
				want.equal(t, x)
				must(t, x.Close())
				x, report, err := Open(ctx, path, dev, OpenOptions{Verify: true, Resize: resize})
				must(t, err)
				if report.Damaged+report.Unfinished != 0 || report.Keys != uint64(len(want)) {
					t.Errorf("report %+v", report)
				}
				want.equal(t, x)
				randomBatches(t, rng, x, want, 700)
				want.equal(t, x)
				must(t, x.Check(ctx))
				must(t, x.Close())
			})
		}
	}
}

// randomBatches runs one batch of each kind on an index and on its model.
func randomBatches(t testing.TB, rng *rand.Rand, x *Index, want model, n int) {
	t.Helper()
	ks, vs := int(x.engine.keySize), int(x.engine.valueSize)
	keys, values := make([]byte, n*ks), []byte(nil)
	fill := func() {
		for i := range n {
			k := rng.Uint64N(6000)
			for j := range ks {
				keys[i*ks+j] = byte(k >> (8 * (j % 2)))
			}
		}
		values = randomBytes(rng, n*vs)
	}
	key := func(i int) string { return string(keys[i*ks : (i+1)*ks]) }
	value := func(i int) string { return string(values[i*vs : (i+1)*vs]) }

	fill()
	before := len(want)
	for i := range n {
		want[key(i)] = value(i)
	}
	inserted, err := x.Put(ctx, keys, values)
	must(t, err)
	if inserted != len(want)-before {
		t.Fatalf("Put inserted %d, want %d", inserted, len(want)-before)
	}

	fill()
	ok := make([]bool, n)
	_, err = x.PutNew(ctx, keys, values, ok)
	must(t, err)
	for i := range n {
		if _, there := want[key(i)]; there == ok[i] {
			t.Fatalf("PutNew %d: %v", i, ok[i])
		} else if !there {
			want[key(i)] = value(i)
		}
	}

	fill()
	_, err = x.Delete(ctx, keys[:n/2*ks], ok[:n/2])
	must(t, err)
	for i := range n / 2 {
		if _, there := want[key(i)]; there != ok[i] {
			t.Fatalf("Delete %d: %v", i, ok[i])
		}
		delete(want, key(i))
	}

	fill()
	hits, err := x.Get(ctx, keys, values, ok)
	must(t, err)
	for i := range n {
		v, there := want[key(i)]
		if there {
			hits--
		} else {
			v = string(make([]byte, vs))
		}
		if ok[i] != there || v != value(i) {
			t.Fatalf("Get %d: %v", i, ok[i])
		}
	}
	if hits != 0 {
		t.Fatalf("Get counts %d hits too many", hits)
	}

	fill()
	kinds := make([]weft.OpKind, n)
	for i := range kinds {
		kinds[i] = weft.OpKind(randomKind(rng))
	}
	input := bytes.Clone(values)
	must(t, x.Apply(ctx, kinds, keys, values, ok))
	for i, k := range kinds {
		v, there := want[key(i)]
		mine, expect := string(input[i*vs:(i+1)*vs]), string(make([]byte, vs))
		switch {
		case k == weft.OpDelete:
			delete(want, key(i))
		case k == weft.OpPut:
			want[key(i)], there = mine, !there
		case k == weft.OpUpdate:
			if there {
				want[key(i)] = mine
			}
		case k == weft.OpPutNew && !there:
			want[key(i)], there = mine, true
		case there:
			expect, there = v, k == weft.OpGet
		}
		if ok[i] != there || value(i) != expect {
			t.Fatalf("Apply %d, %v: %v", i, k, ok[i])
		}
	}
}

// randomKind returns a kind of operation that is not a reduction.
func randomKind(rng *rand.Rand) op.Kind {
	return [...]op.Kind{op.Get, op.Put, op.PutNew, op.Update, op.Delete}[rng.IntN(5)]
}

// A pool cannot be opened or created again while it is open.
func TestOpenTwice(t *testing.T) {
	dev, path := openCPU(t), filepath.Join(memoryDir(t), "pool")
	x, err := Create(path, dev, Options{KeySize: 8, ValueSize: 8})
	must(t, err)
	if _, _, err := Open(ctx, path, dev, OpenOptions{}); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open: %v", err)
	}
	if _, err := Create(path, dev, Options{KeySize: 8, ValueSize: 8}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create over a pool: %v", err)
	}
	must(t, x.Close())
}
