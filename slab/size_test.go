package slab_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/slab"
)

// TestMultiMapSize checks that a multimap takes the memory that its pairs need at the requested
// load, for any number of pairs per key. At 0.55, a pair of 16 bytes takes 29 bytes, and up to half
// as much again while the multimap grows.
func TestMultiMapSize(t *testing.T) {
	conformance.SkipRaced(t, "what is measured is memory")
	dev := devicetest.Open(t)
	if _, ok := dev.(device.Host); !ok {
		t.Skip("a million pairs")
	}
	const n = 1 << 19
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.2, 4, n)
	draw := map[string]func(i int) uint64{"Zipf": func(int) uint64 { return zipf.Uint64() }}
	for _, each := range []int{1, 2, 20, 1000} {
		draw[fmt.Sprint(each)] = func(i int) uint64 { return uint64(i / each) }
	}
	for name, key := range draw {
		t.Run(name, func(t *testing.T) {
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = key(i)
			}
			rng.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			m := conformance.Open(t, slab.NewMultiMap[uint64, uint64], dev, &slab.Options{Seed: 1})
			for lo := 0; lo < n; lo += n / 32 {
				got, err := m.Put(t.Context(), keys[lo:lo+n/32], keys[lo:lo+n/32])
				conformance.WantCount(t, "Put", got, n/32, err)
				if s := conformance.StatsOf(t, m); lo >= n/4 && s.Bytes > 48*s.Len {
					t.Errorf("while it grows: %v", s)
				}
			}
			before := conformance.StatsOf(t, m)
			if err := m.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := conformance.StatsOf(t, m)
			if s.Bytes > 35*n || s.Bytes > before.Bytes || s.Utilization < .5 || s.Utilization > .68 {
				t.Errorf("compact: %v\nbefore: %v", s, before)
			}
			t.Logf("%.1f bytes a pair, compact %.1f", float64(before.Bytes)/n, float64(s.Bytes)/n)
		})
	}
}
