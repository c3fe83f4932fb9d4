package horton_test

import (
	"cmp"
	"os"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// Batches read from bytes, on maps with buckets of several sizes, as full as they get,
// beside a Go map. The bytes choose operations, lengths and keys, which meet often; see
// conformance.ReplayMap.
func FuzzMap(f *testing.F) {
	f.Add([]byte{0, 3, 1, 2, 3, 3, 2, 1, 2, 0, 2, 1, 9})     // put, delete, put again
	f.Add([]byte{0, 4, 0xff, 0xfe, 0xfd, 0xfc, 4, 2, 0, 1})  // sentinels as keys, then their names
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
		for _, opts := range []horton.Options{
			{Slots: 1}, {Slots: 2, MaxLoad: 1, Reclaim: horton.Eager}, {Slots: 4, MaxLoad: 1, Reclaim: horton.Never}, {},
		} {
			replayAll[uint32, uint32](t, dev, opts, data)
			replayAll[uint64, uint64](t, dev, opts, data)
		}
	})
}

func replayAll[K weft.Key, V weft.Value](t *testing.T, dev device.Device, opts horton.Options, data []byte) {
	opts.Seed = 1
	m := conformance.Open(t, horton.New[K, V], dev, &opts)
	model := map[K]V{}
	for len(data) > 0 {
		data = conformance.ReplayMap(t, m, model, data)
		if err := m.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
	}
}
