package gphash

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/pool"
)

// onBothDevices runs a test on the host and on a simulated GPU.
func onBothDevices(t *testing.T, test func(t *testing.T, dev device.Device)) {
	t.Run("cpu", func(t *testing.T) { test(t, openCPU(t)) })
	t.Run("sim", func(t *testing.T) {
		if testing.Short() {
			t.Skip("interprets kernels")
		}
		test(t, devicetest.OpenSim(t, nil))
	})
}

// While an index grows in mode Beside, no batch drains or zeroes more than its size allows. In mode
// Stop one batch does everything.
func TestBoundedGrowth(t *testing.T) {
	smallParts(t)
	const n = 40
	onBothDevices(t, func(t *testing.T, dev device.Device) {
		keys := 24_000
		if _, host := dev.(device.Host); !host {
			keys = 800
		}
		for _, o := range []Options{{Slots: 8}, {Slots: 2}, {Slots: 8, Resize: Stop}, {Slots: 4, Mirror: true}, {Slots: 4, AtomicBatch: n, AtomicTail: 3 * n}} {
			o.KeySize, o.ValueSize, o.Capacity, o.Size = 8, 8, 50, pool.DataStart+4<<20
			x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, o)
			must(t, err)
			drains, zeroes := uint64(0), uint64(0) // maximum numbers per batch, in buckets
			for i := 0; i < keys; i += n {
				moved, zeroed := x.engine.nDrained, x.engine.nZeroed
				batch, values := []byte(nil), []byte(nil)
				for j := i; j < i+n; j++ {
					batch, values = append(batch, denseKey(8, j)...), append(values, denseKey(8, j)...)
				}
				_, err := x.Put(ctx, batch, values)
				must(t, err)
				drains, zeroes = max(drains, x.engine.nDrained-moved), max(zeroes, x.engine.nZeroed-zeroed)
			}
			mayDrain, mayZero := uint64(drainPerOp*n)+1, uint64(zeroPerOp*n/o.Slots)+1
			bounded := drains <= mayDrain && zeroes <= mayZero
			if bounded != (o.Resize == Beside) || x.engine.nResizes == 0 {
				t.Errorf("%+v: a batch has drained %d buckets and zeroed %d, of %d and %d that it may, in %d resizes", o, drains, zeroes, mayDrain, mayZero, x.engine.nResizes)
			}
			must(t, errors.Join(x.Check(ctx), x.Close()))
		}
	})
}

// If values find no other memory, they get the memory reserved for the next level. Batches then
// change as many keys as in mode Stop, which reserves none.
func TestNextLevelYields(t *testing.T) {
	smallParts(t)
	const keys, size = 130, 1000
	onBothDevices(t, func(t *testing.T, dev device.Device) {
		maxZeroed := func(resize Resize) (n int) {
			o := Options{KeySize: 8, ValueSize: size, Capacity: 120, Resize: resize, AtomicBatch: keys, Size: pool.DataStart + 18<<14}
			x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, o)
			must(t, err)
			var all []byte
			for i := 0; i < keys; i += 10 {
				for j := range 10 {
					all = append(all, denseKey(8, i+j)...)
				}
				_, err := x.Put(ctx, all[8*i:], make([]byte, 10*size))
				must(t, err)
			}
			if kept := x.engine.next != nil; kept != (resize == Beside) {
				t.Errorf("Resize %d: memory is kept for the next level: %v", resize, kept)
			}
			for n = 60; n <= keys && err == nil; n += 4 {
				_, err = x.Put(ctx, all[:8*n], make([]byte, n*size))
			}
			if !errors.Is(err, weft.ErrFull) || x.engine.next != nil {
				t.Errorf("Resize %d: %v; the next level keeps memory: %v", resize, err, x.engine.next != nil)
			}
			must(t, errors.Join(x.Check(ctx), x.Close()))
			return n
		}
		if incremental, stop := maxZeroed(Beside), maxZeroed(Stop); incremental != stop {
			t.Errorf("a batch may change %d keys, and %d where no memory is kept", incremental, stop)
		}
	})
}
