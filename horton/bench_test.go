package horton_test

import (
	"fmt"
	"testing"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// benchKeys is the number of keys of the measured tables, at a load of 0.9.
const benchKeys = 10_000_000

// BenchmarkGet looks up present and absent keys, next to the cuckoo tables of the paper's
// comparison.
func BenchmarkGet(b *testing.B) {
	dev := devicetest.OpenCPU(b, 2)
	keys := conformance.Sequence[uint32](1, benchKeys)
	for name, open := range map[string]func(device.Device) (conformance.AnyMap[uint32, uint32], error){
		"horton": func(dev device.Device) (conformance.AnyMap[uint32, uint32], error) {
			return horton.New[uint32, uint32](dev, &horton.Options{Capacity: benchKeys, MaxLoad: .9})
		},
		"cuckoo": func(dev device.Device) (conformance.AnyMap[uint32, uint32], error) {
			return cuckoo.New[uint32, uint32](dev, &cuckoo.Options{Capacity: benchKeys, MaxLoad: .9, Policy: cuckoo.LoadBalancing})
		},
	} {
		m, err := open(dev)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.Put(b.Context(), keys, keys); err != nil {
			b.Fatal(err)
		}
		vals, found := make([]uint32, benchKeys), make([]bool, benchKeys)
		for what, base := range map[string]uint32{"hit": 1, "miss": 1 << 31} {
			asked := conformance.Sequence[uint32](int(base), benchKeys)
			b.Run(fmt.Sprintf("%s/%s", name, what), func(b *testing.B) {
				for b.Loop() {
					if _, err := m.Get(b.Context(), asked, vals, found); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchKeys, "ns/key")
			})
		}
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
