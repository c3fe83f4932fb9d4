package linear_test

import (
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/linear"
)

// Inserting and deleting keys in the order of All must not be slow.
func TestIterationOrder(t *testing.T) {
	dev := devicetest.Open(t)
	for name, scheme := range schemes {
		options := func(size conformance.KeyedSize) *linear.Options {
			return &linear.Options{Capacity: size.Capacity, Fixed: size.Fixed, Tombstones: scheme, Seed: 21}
		}
		t.Run("map/"+name, func(t *testing.T) {
			conformance.IterationOrder(t, conformance.ScaleOf(dev), func(t testing.TB, size conformance.KeyedSize) conformance.Keyed {
				m, err := linear.New[uint64, uint64](dev, options(size))
				if err != nil {
					t.Fatal(err)
				}
				return conformance.MapKeys(m)
			})
		})
	}
	t.Run("set", func(t *testing.T) {
		conformance.IterationOrder(t, conformance.ScaleOf(dev), func(t testing.TB, size conformance.KeyedSize) conformance.Keyed {
			s, err := linear.NewSet[uint64](dev, &linear.Options{Capacity: size.Capacity, Fixed: size.Fixed, Seed: 21})
			if err != nil {
				t.Fatal(err)
			}
			return conformance.SetKeys(s)
		})
	})
}
