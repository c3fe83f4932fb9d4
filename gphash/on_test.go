package gphash

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// Batches in device memory have the same results as batches in host memory, on every device.
func TestOn(t *testing.T) {
	for _, dev := range []device.Device{devicetest.Open(t), devicetest.OpenSim(t, &sim.Options{Arch: 80})} {
		t.Run(string(dev.Properties().Kind), func(t *testing.T) { on(t, dev) })
	}
}

func on(t *testing.T, dev device.Device) {
	x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, Options{KeySize: 3, ValueSize: 5, Size: 8 << 20})
	must(t, err)
	s, err := dev.NewStream()
	must(t, err)
	upload := func(text string) device.Slice[byte] {
		on, err := device.Upload(s, []byte(text))
		must(t, err)
		t.Cleanup(func() { must(t, on.Free()) })
		return on
	}
	flags, err := device.Make[bool](dev, 3)
	must(t, err)
	n, err := device.Upload(s, []uint64{0})
	must(t, err)
	kinds, err := device.Upload(s, []weft.OpKind{weft.OpGet, weft.OpDelete, weft.OpPutNew})
	must(t, err)
	checkRows := func(name string, values device.Slice[byte], want string, ok []bool, count uint64) {
		t.Helper()
		got, is, counted := make([]byte, len(want)), make([]bool, 3), []uint64{0}
		if len(want) > 0 {
			must(t, values.CopyTo(t.Context(), s, got))
		}
		must(t, flags.CopyTo(t.Context(), s, is))
		must(t, n.CopyTo(t.Context(), s, counted))
		must(t, n.CopyFrom(s, []uint64{0}))
		if string(got) != want || !bytes.Equal(device.Bytes(is), device.Bytes(ok)) || counted[0] != count {
			t.Errorf("%s: %q %v %d, want %q %v %d", name, got, is, counted[0], want, ok, count)
		}
	}
	all, values := upload("onetwosix"), upload("1....2....6....")
	must(t, x.PutOn(s, all.Sub(0, 6), values.Sub(0, 10), n))
	must(t, x.PutNewOn(s, all, upload("a....b....c...."), flags, n))
	checkRows("PutNewOn", values, "", []bool{false, false, true}, 3)
	must(t, x.GetOn(s, all, values, flags, n))
	checkRows("GetOn", values, "1....2....c....", []bool{true, true, true}, 3)
	must(t, x.DeleteOn(s, all.Sub(3, 6), flags.Sub(0, 1), n))
	must(t, x.ContainsOn(s, all, flags, n))
	// one key was deleted, two exist
	checkRows("ContainsOn", values, "", []bool{true, false, true}, 3)
	mixed := upload("x....y....z....")
	must(t, x.ApplyOn(s, kinds, all, mixed, flags))
	checkRows("ApplyOn", mixed, "1....\x00\x00\x00\x00\x00c....", []bool{true, false, false}, 0)
	must(t, x.UpdateOn(s, all, upload("p....q....r...."), flags, n))
	checkRows("UpdateOn", mixed, "", []bool{true, false, true}, 2)
	must(t, x.GetOn(s, all, values, flags, n))
	checkRows("GetOn behind UpdateOn", values, "p....\x00\x00\x00\x00\x00r....", []bool{true, false, true}, 2)
	other, err := dev.NewStream()
	must(t, err)
	must(t, x.PutOn(other, all.Sub(3, 6), values.Sub(0, 5)))
	must(t, x.UpdateOn(s, all, values, flags, n)) // also finds the key that PutOn is inserting
	checkRows("UpdateOn behind another stream", values, "", []bool{true, true, true}, 3)
	must(t, x.DeleteOn(s, all.Sub(3, 6), device.Slice[bool]{}))
	must(t, x.Sync(t.Context()))
	must(t, other.Close())
	if x.Len() != 2 {
		t.Errorf("%d keys", x.Len())
	}
	func() {
		defer func() {
			if r := recover(); r == nil {
				t.Error("keys that are cut do not panic")
			}
		}()
		_ = x.ContainsOn(s, all.Sub(0, 4), flags)
	}()
	must(t, flags.Free())
	must(t, n.Free())
	must(t, kinds.Free())
	must(t, s.Close())
	must(t, x.Close())
}
