package conformance

import (
	"cmp"
	"os"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/devicetest"
)

// replayMap runs a batch that data describes on a map and on a model, and compares the results. It
// returns the rest of data. The first byte selects the operation and the second the length. Each
// operation takes one byte for its key, so keys often coincide.
func replayMap(t testing.TB, m erasedMap, model map[uint64]uint64, data []byte) (rest []byte) {
	t.Helper()
	if len(data) < 2 {
		return nil
	}
	y := m.types()
	kind, n := data[0]%6, min(int(data[1]), len(data)-2)
	rows, rest := data[2:2+n], data[2+n:]
	keys, vals, flags := make([]uint64, n), make([]uint64, n), make([]bool, n)
	for i, b := range rows {
		keys[i] = y.collidingKey(b)
		vals[i] = y.bits(uint64(b)<<56 ^ uint64(i)*0x9e3779b97f4a7c15)
	}
	want, count := make([]bool, n), 0
	mark := func(i int) { want[i] = true; count++ }
	var got int
	var err error
	switch kind {
	case 0, 1:
		for i, k := range keys {
			if _, ok := model[k]; !ok {
				count++
			}
			model[k] = vals[i]
		}
		got, err = m.Put(ctx(), keys, vals)
		flags = want
	case 2:
		for i, k := range keys {
			if _, ok := model[k]; !ok {
				model[k] = vals[i]
				mark(i)
			}
		}
		got, err = m.PutNew(ctx(), keys, vals, flags)
	case 3:
		for i, k := range keys {
			if _, ok := model[k]; ok {
				delete(model, k)
				mark(i)
			}
		}
		got, err = m.Delete(ctx(), keys, flags)
	case 4:
		for i, k := range keys {
			if _, ok := model[k]; ok {
				mark(i)
			}
		}
		got, err = m.Get(ctx(), keys, vals, flags)
		for i, k := range keys {
			if vals[i] != model[k] {
				t.Fatalf("Get(%#x) = %#x, want %#x", k, vals[i], model[k])
			}
		}
	case 5:
		for i, k := range keys {
			if _, ok := model[k]; ok {
				mark(i)
			}
		}
		got, err = m.Contains(ctx(), keys, flags)
	}
	must(t, err)
	if got != count || !slices.Equal(flags, want) {
		t.Fatalf("operation %d on %d keys: %d, want %d; flags equal: %v", kind, n, got, count, slices.Equal(flags, want))
	}
	if m.Len() != len(model) {
		t.Fatalf("Len = %d, want %d", m.Len(), len(model))
	}
	return rest
}

// FuzzMaps runs replay with fuzzed bytes that describe batches, on a checked device. replay opens
// maps and calls [Replay].
func FuzzMaps(f *testing.F, replay func(t *testing.T, dev device.Device, data []byte)) {
	f.Add([]byte{0, 3, 1, 2, 3, 3, 2, 1, 2, 0, 2, 1, 9}) // put, delete, put again
	// sentinels as keys, then their complements
	f.Add([]byte{0, 4, 0xff, 0xfe, 0xfd, 0xfc, 4, 2, 0, 1})
	f.Add([]byte{2, 6, 7, 7, 7, 8, 8, 7, 3, 3, 7, 7, 8})     // duplicates of PutNew and Delete
	f.Add(append([]byte{1, 255}, make([]byte, 255)...))      // one key many times
	f.Add([]byte{5, 0, 3, 1, 0xf0, 0, 1, 0xf0, 3, 2, 15, 0}) // an empty batch, then an absent key
	// Open the device once, because opening takes longer than running an input.
	dev, _, err := auto.Open(cmp.Or(os.Getenv(devicetest.Variable), "cpu"))
	if err != nil {
		f.Fatal(err)
	}
	defer dev.Close()
	f.Fuzz(func(t *testing.T, data []byte) { replay(t, devicetest.Checked(t, dev), data) })
}

// Replay runs all batches that data describes on an empty map and on a model.
func Replay[K weft.Key, V weft.Value](t testing.TB, m AnyMap[K, V], data []byte) {
	t.Helper()
	erased := eraseMap(m)
	for model := map[uint64]uint64{}; len(data) > 0; {
		data = replayMap(t, erased, model, data)
		check(t, erased)
		if t.Failed() {
			t.FailNow()
		}
	}
}
