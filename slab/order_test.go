package slab_test

import (
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// TestIterationOrder checks that keys may be inserted and deleted in the order of All.
func TestIterationOrder(t *testing.T) {
	dev := devicetest.Open(t)
	for name, open := range map[string]func(opts *slab.Options) (conformance.Keyed, error){
		"map": func(opts *slab.Options) (conformance.Keyed, error) {
			m, err := slab.New[uint64, uint64](dev, opts)
			return conformance.MapKeys(m), err
		},
		"multimap": func(opts *slab.Options) (conformance.Keyed, error) {
			m, err := slab.NewMultiMap[uint64, uint64](dev, opts)
			return conformance.MultiMapKeys(m), err
		},
		"set": func(opts *slab.Options) (conformance.Keyed, error) {
			s, err := slab.NewSet[uint64](dev, opts)
			return conformance.SetKeys(s), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			conformance.IterationOrder(t, conformance.ScaleOf(dev), func(t testing.TB, size conformance.KeyedSize) conformance.Keyed {
				k, err := open(&slab.Options{Capacity: size.Capacity, Fixed: size.Fixed, Seed: 21})
				if err != nil {
					t.Fatal(err)
				}
				return k
			})
		})
	}
}
