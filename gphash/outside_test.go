package gphash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/op"
)

// Another program writes to a pool while it is open. Its words are never used as addresses. Keys in
// damaged slots return wrong answers, but no call panics, and a GPU accesses no memory outside the
// pool, which the simulator would detect.

// plant stores another block in the slot of a key. The open index is not notified.
func plant(t testing.TB, e *engine, key []byte, block uint64) {
	t.Helper()
	at, c := slotOf(t, e, key)
	e.mem.Store(e.control(at), uint64(c)&^(1<<blockBits-1)|block)
}

func slotOf(t testing.TB, e *engine, key []byte) (slotRef, control) {
	t.Helper()
	it := e.item(key)
	at, c, ok := e.find(&it)
	if !ok {
		t.Fatalf("key %x is not there", key)
	}
	return at, c
}

// wildBlocks returns unsound blocks, where no value may begin, and odd blocks, which lie within the
// pool. One of them belongs to key.
func wildBlocks(t testing.TB, e *engine, key []byte) (unsound, odd []uint64) {
	_, c := slotOf(t, e, key)
	v := e.values
	unsound = []uint64{0, v.first - 1, v.end(), v.end() + 1, 1<<blockBits - 1, e.mem.Words() - 1, 1 << 40}
	odd = []uint64{v.first, v.first + 1, v.first + v.offset + 1, e.live[0].base + 3, v.end() - v.unit, c.block(), c.block(), c.block()}
	if !v.records {
		unsound = append(unsound, v.end()-v.words+1)
		odd = append(odd, v.end()-v.words)
	}
	return unsound, odd
}

func outsideKey(i int) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
}

func TestBlocksFromOutside(t *testing.T) {
	smallParts(t)
	devices := []device.Device{openCPU(t)}
	if !testing.Short() { // interprets kernels
		devices = append(devices, devicetest.OpenSim(t, nil))
	}
	for _, dev := range devices {
		for name, o := range map[string]Options{
			"plain": {}, "mirror": {Mirror: true}, "cache": {Cache: .5}, "values": {Cache: .5, Mirror: true}, "atomic": {AtomicBatch: 256},
		} {
			for _, wild := range []string{"unsound", "odd"} {
				t.Run(fmt.Sprintf("%s/%s/%s", dev.Properties().Kind, name, wild), func(t *testing.T) { fromOutside(t, dev, o, wild == "odd") })
			}
		}
	}
}

// fromOutside damages several keys of an index and then runs all operations.
func fromOutside(t *testing.T, dev device.Device, o Options, odd bool) {
	const n = 200
	o.KeySize, o.ValueSize, o.Capacity, o.Size = 8, 24, 400, smallPool
	x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, o)
	must(t, err)
	var keys, values []byte
	for i := range n {
		keys = append(keys, outsideKey(i)...)
		values = append(values, fmt.Sprintf("%24d", i)...)
	}
	_, err = x.Put(ctx, keys, values)
	must(t, err)
	must(t, x.LoadCache(ctx))
	blocks, oddBlocks := wildBlocks(t, x.engine, outsideKey(n-1))
	if odd {
		blocks = oddBlocks
	}
	for i, block := range blocks {
		plant(t, x.engine, outsideKey(i), block)
	}
	hit := len(blocks)
	read := func(name string) {
		t.Helper()
		got, found := make([]byte, len(values)), make([]bool, n)
		_, err := x.Get(ctx, keys, got, found)
		must(t, err)
		for i := range n {
			is := string(got[24*i : 24*i+24])
			switch want := string(values[24*i : 24*i+24]); {
			case odd: // the key may have any value, and so may keys in memory that it frees
			case i >= hit && (!found[i] || is != want):
				t.Errorf("%s: key %d has %q, want %q", name, i, is, want)
			// lookups read the mirror, which has not changed
			case i < hit && found[i] && is != want:
				t.Errorf("%s: key %d has %q", name, i, is)
			}
		}
	}
	read("planted")
	seen := 0
	for p, err := range x.Pages(ctx) {
		must(t, err)
		seen += len(p.Keys) / 8
	}
	if seen > n || seen < n-hit {
		t.Errorf("%d pairs", seen)
	}
	if err := x.Check(ctx); !errors.Is(err, op.ErrCorrupt) {
		t.Errorf("Check: %v", err)
	}
	kinds := []weft.OpKind{weft.OpGet, weft.OpPutNew, weft.OpDelete, weft.OpPut}
	all := make([]weft.OpKind, n)
	for i := range all {
		all[i] = kinds[i%len(kinds)]
	}
	must(t, x.Apply(ctx, all[:hit], keys[:8*hit], make([]byte, 24*hit), nil))
	_, err = x.Put(ctx, keys, values)
	must(t, err)
	read("put")
	_, err = x.Delete(ctx, keys[:8*hit], nil)
	must(t, err)
	_, err = x.Put(ctx, keys, values)
	must(t, err)
	read("deleted and put")
	if _, host := dev.(device.Host); host && odd {
		fillUp(t, x)
	}
	must(t, x.Clear(ctx))
	must(t, x.Close())
}

// fillUp uses all memory of a pool. Memory that was freed twice must be allocated only once.
func fillUp(t *testing.T, x *Index) {
	for from := 1 << 20; ; from += 1 << 10 {
		var keys []byte
		for i := range 1 << 10 {
			keys = append(keys, outsideKey(from+i)...)
		}
		_, err := x.Put(ctx, keys, make([]byte, 3*len(keys)))
		if errors.Is(err, op.ErrFull) {
			return
		}
		must(t, err)
	}
}

// A record with a header that another program wrote belongs to no key.
func TestRecordsFromOutside(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device, _ int) {
		for name, o := range map[string]Options{"plain": {}, "mirror": {Mirror: true}, "atomic": {AtomicBatch: 300}} {
			t.Run(name, func(t *testing.T) { recordsFromOutside(t, dev, o) })
		}
	})
}

func recordsFromOutside(t *testing.T, dev device.Device, o Options) {
	o.Capacity = 400
	x, err := CreateStrings(filepath.Join(memoryDir(t), "pool"), dev, o)
	must(t, err)
	var keys, values Bytes
	const n = 200
	for i := range n {
		keys.Append(fmt.Appendf(nil, "key %d", i))
		values.Append(fmt.Appendf(nil, "value %d", i))
	}
	_, err = x.Put(ctx, keys, values)
	must(t, err)
	e := x.engine
	unsound, odd := wildBlocks(t, e, keys.Row(n-1))
	hit := 0
	for _, b := range append(unsound, odd...) {
		plant(t, e, keys.Row(hit), b)
		hit++
	}
	for _, h := range []header{0, ^header(0), newHeader(maxLongKey, maxValue), newHeader(5, maxValue), newHeader(0, 0)} {
		_, c := slotOf(t, e, keys.Row(hit))
		e.mem.Store(c.block(), uint64(h))
		hit++
	}
	for range 2 {
		var got Bytes
		found := make([]bool, n)
		_, err = x.Get(ctx, keys, &got, found)
		must(t, err)
		for i := hit; i < n; i++ {
			if !found[i] || string(got.Row(i)) != string(values.Row(i)) {
				t.Errorf("key %d has %q", i, got.Row(i))
			}
		}
		for p, err := range x.Pages(ctx) {
			must(t, err)
			_ = p
		}
		if err := x.Check(ctx); !errors.Is(err, op.ErrCorrupt) {
			t.Errorf("Check: %v", err)
		}
		must(t, x.Compact(ctx))
	}
	kinds := make([]weft.OpKind, n)
	for i := range kinds {
		kinds[i] = weft.OpKind(i % 4)
	}
	must(t, x.Apply(ctx, kinds, keys, values, &Bytes{}, nil))
	_, err = x.Put(ctx, keys, values)
	must(t, err)
	_, err = x.Delete(ctx, keys, nil)
	must(t, err)
	_, err = x.Put(ctx, keys, values)
	must(t, err)
	must(t, x.Close())
}
