package linear_test

import (
	"cmp"
	"os"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// Batches read from bytes, on maps of both schemes and two widths beside a Go
// map. The bytes choose operations, lengths and keys, which meet often; see
// conformance.ReplayMap.
func FuzzMap(f *testing.F) {
	f.Add([]byte{0, 3, 1, 2, 3, 3, 2, 1, 2, 0, 2, 1, 9})     // put, delete, put again
	f.Add([]byte{0, 4, 0xff, 0xfe, 0xfd, 0xfc, 4, 2, 0, 1})  // marks as keys, then their names
	f.Add([]byte{2, 6, 7, 7, 7, 8, 8, 7, 3, 3, 7, 7, 8})     // duplicates of PutNew and Delete
	f.Add(append([]byte{1, 255}, make([]byte, 255)...))      // one key many times
	f.Add([]byte{5, 0, 3, 1, 0xf0, 0, 1, 0xf0, 3, 2, 15, 0}) // nothing, and an absent key
	// Opened once: a device for each input would take longer than the input.
	dev, _, err := auto.Open(cmp.Or(os.Getenv(devicetest.Variable), "cpu"))
	if err != nil {
		f.Fatal(err)
	}
	defer dev.Close()
	f.Fuzz(func(t *testing.T, data []byte) {
		dev := devicetest.Checked(t, dev)
		for _, scheme := range schemes {
			replayAll[uint32, uint32](t, dev, scheme, data)
			replayAll[uint64, uint64](t, dev, scheme, data)
		}
	})
}

func replayAll[K weft.Key, V weft.Value](t *testing.T, dev device.Device, scheme linear.Tombstones, data []byte) {
	m := conformance.Open(t, linear.New[K, V], dev, &linear.Options{Tombstones: scheme, Seed: 1})
	model := map[K]V{}
	for len(data) > 0 {
		data = conformance.ReplayMap(t, m, model, data)
		if err := m.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
	}
}
