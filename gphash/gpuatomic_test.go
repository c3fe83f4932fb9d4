package gphash

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// Atomic batches of kernels do what those of the engine of the host do, which opens their pools, and
// the other way round.
func TestAtomicKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	smallRegions(t)
	for _, o := range []Options{
		{KeySize: 8, ValueSize: 8, Slots: 2}, {KeySize: 4, ValueSize: 4}, {KeySize: 16, ValueSize: 128, Hash: Fast},
		{KeySize: 13, ValueSize: 300, Slots: 4, Hashes: 4}, {KeySize: 128, ValueSize: 1, Slots: 16, Levels: 1},
	} {
		t.Run(fmt.Sprintf("%d,%d", o.KeySize, o.ValueSize), func(t *testing.T) {
			dev := devicetest.OpenSim(t, &sim.Options{Arch: 90})
			o.Size, o.Capacity, o.AtomicBatch = 16<<20, 20, 300
			path, model := filepath.Join(memoryDir(t), "pool"), map[string][]byte{}
			x, err := Create(path, dev, o)
			must(t, err)
			program(t, x, model, 20)
			must(t, x.Clear(t.Context()))
			clear(model)
			program(t, x, model, 15)
			must(t, x.Close())
			for i, dev := range []device.Device{openCPU(t), dev} { // the other one goes on
				x, report, err := Open(t.Context(), path, dev, OpenOptions{Verify: i == 1})
				must(t, err)
				if int(report.Keys) != len(model) || report.Replayed > 0 || report.Torn {
					t.Errorf("%v: opening found %+v, want %d keys", dev.Properties().Kind, report, len(model))
				}
				program(t, x, model, 8)
				must(t, x.Close())
			}
		})
	}
}
