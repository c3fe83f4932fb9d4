package slab

import (
	"context"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device/sim"
)

func TestZZDbg(t *testing.T) {
	for _, n := range []int{8, 16, 24, 32, 40, 64, 100, 300} {
		dev, _ := sim.Open(&sim.Options{Arch: 90})
		m, err := NewMultiMap[uint64, uint64](dev, &Options{Buckets: 3, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = uint64(i)
		}
		got, err := m.Put(context.Background(), keys, keys)
		counts := make([]int, n)
		tot, err2 := m.Count(context.Background(), keys, counts)
		hits, err3 := m.Get(context.Background(), keys, make([]uint64, n), nil)
		all := 0
		for range m.All() {
			all++
		}
		fmt.Println(n, got, err, tot, err2, hits, err3, m.Len(), all)
		st, _ := m.Stats(context.Background())
		fmt.Println(st)
		m.Close()
	}
}
