package gphash

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// Repeated lookups of one key in a batch return its value, even if other keys share its hash
// prefix. This holds for all combinations of results.
func TestHotKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	for _, o := range []Options{{KeySize: 8, ValueSize: 8}, {KeySize: 13, ValueSize: 130, Hash: Fast}} {
		t.Run(fmt.Sprintf("%d,%d", o.KeySize, o.ValueSize), func(t *testing.T) {
			dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
			o.Capacity, o.Size, o.Seed = 100, smallPool, [2]uint64{1, 2}
			x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, o)
			must(t, err)
			defer func() { must(t, x.Close()) }()
			b := newHotBatch(t, x)
			b.lookUp(t, x)
			b.lookUpOn(t, x, dev)
		})
	}
}

// hotBatch contains lookups of a few keys and the expected results.
type hotBatch struct {
	keys, values []byte
	found        []bool
	hits         int
}

// newHotBatch returns lookups of pairs of keys with one prefix, in random order, with very
// different frequencies. The index has one or both keys of each pair.
func newHotBatch(t *testing.T, x *Index) *hotBatch {
	first, seconds := map[uint32]int{}, 0
	var repeated []int
	var existing Bytes
	for i := 0; seconds < 4; i++ {
		prefix := uint32(x.engine.item(denseKey(x.KeySize(), i)).hash >> 32)
		other, ok := first[prefix]
		first[prefix] = i
		if !ok {
			continue
		}
		repeated = append(repeated, other, i)
		existing.Append(denseKey(x.KeySize(), []int{other, i}[seconds%2]))
		if seconds > 1 {
			existing.Append(denseKey(x.KeySize(), []int{i, other}[seconds%2]))
		}
		seconds++
	}
	has := map[string][]byte{}
	var values Bytes
	for i := range existing.Len() {
		value := valueOf(x.ValueSize(), existing.Row(i), 0)
		has[string(existing.Row(i))] = value
		values.Append(value)
	}
	_, err := putRows(x, existing, values)
	must(t, err)
	b, rng := &hotBatch{}, rand.New(rand.NewPCG(1, 2))
	for range minSortedOps + 100 {
		key := denseKey(x.KeySize(), repeated[rng.IntN(1+rng.IntN(len(repeated)))])
		value, found := has[string(key)]
		if !found {
			value = make([]byte, x.ValueSize())
		} else {
			b.hits++
		}
		b.keys, b.values, b.found = append(b.keys, key...), append(b.values, value...), append(b.found, found)
	}
	return b
}

func (b *hotBatch) lookUp(t *testing.T, x *Index) {
	for _, columns := range []struct{ values, found bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		values, found := bytes.Repeat([]byte{7}, len(b.values)), make([]bool, len(b.found))
		var hits int
		var err error
		switch {
		case columns.values && columns.found:
			hits, err = x.Get(t.Context(), b.keys, values, found)
		case columns.values:
			hits, err = x.Get(t.Context(), b.keys, values, nil)
		case columns.found:
			hits, err = x.Contains(t.Context(), b.keys, found)
		default:
			hits, err = x.Contains(t.Context(), b.keys, nil)
		}
		must(t, err)
		if hits != b.hits || columns.values && !bytes.Equal(values, b.values) || columns.found && !bytes.Equal(device.Bytes(found), device.Bytes(b.found)) {
			t.Errorf("%+v: %d hits, want %d, or other values", columns, hits, b.hits)
		}
	}
}

func (b *hotBatch) lookUpOn(t *testing.T, x *Index, dev device.Device) {
	s := devicetest.NewStream(t, dev)
	keys, values := devicetest.Upload(t, s, b.keys), devicetest.Upload(t, s, make([]byte, len(b.values)))
	hits, got, count := devicetest.Upload(t, s, []uint64{5}), make([]byte, len(b.values)), []uint64{0}
	must(t, x.GetOn(s, keys, values, device.Slice[bool]{}, hits))
	must(t, values.CopyTo(t.Context(), s, got))
	must(t, hits.CopyTo(t.Context(), s, count))
	if count[0] != uint64(5+b.hits) || !bytes.Equal(got, b.values) {
		t.Errorf("on the device: %d hits, want %d, or other values", count[0], 5+b.hits)
	}
}

// A key that a whole batch looks up is read once.
func TestHotKeyIsReadOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallParts(t)
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 8, ValueSize: 8, Capacity: 1000, Size: smallPool, Cache: .2})
	must(t, err)
	defer func() { must(t, x.Close()) }()
	key := make([]byte, 8)
	_, err = x.Put(t.Context(), key, key)
	must(t, err)
	_, err = x.Get(t.Context(), bytes.Repeat(key, minSortedOps), make([]byte, 8*minSortedOps), nil)
	must(t, err)
	g, read := x.engine.accel.(*gpuEngine), []uint64{0}
	must(t, g.copyOut(device.Bytes(read), g.k.word(wordReads)))
	if read[0] == 0 || read[0] > 4 {
		t.Errorf("%d buckets are read, want those of one lookup", read[0])
	}
}
