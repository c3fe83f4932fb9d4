package slab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestCollidingKeys checks that keys chosen to collide under one seed form one long chain and lose
// no data. Under another seed they do not collide.
func TestCollidingKeys(t *testing.T) {
	dev := devicetest.Open(t)
	const n, seed = 210, 12345
	keys := conformance.Colliding(n, seed)
	for _, k := range keys {
		if b := bucketOf(geometry{seed, 1 << 20}, k); b != 0 {
			t.Fatalf("key %#x is in bucket %d", k, b)
		}
	}
	for s, chain := range map[uint64]func(slabs int) bool{
		seed:     func(slabs int) bool { return slabs == n/7 },
		seed + 1: func(slabs int) bool { return slabs < 6 },
	} {
		m := conformance.Open(t, New[uint64, uint64], dev, &Options{Seed: s})
		conformance.FillAndHalve(t, m, keys, func() {
			if stats := conformance.StatsOf(t, m); !chain(stats.MaxChain) {
				t.Errorf("seed %d: %v", s, stats)
			}
		})
	}
}

// TestKeysComeAndGoTogether lets threads insert, delete and insert the same few keys. The results
// must show that each key is present at most once (cuCollections #606, SlabHash #27).
func TestKeysComeAndGoTogether(t *testing.T) {
	dev := devicetest.Open(t)
	n := 200_000
	switch {
	case isSim(dev):
		n = 500
	case conformance.Raced:
		n = 50_000
	}
	for _, buckets := range []int{1, 50} {
		t.Run(fmt.Sprint(buckets), func(t *testing.T) {
			m := conformance.Open(t, New[uint32, uint32], dev, &Options{Buckets: buckets, Seed: 3})
			rng := rand.New(rand.NewPCG(1, uint64(buckets)))
			there := map[uint32]int{}
			for range 4 {
				ops, res := make([]weft.Op[uint32, uint32], n), make([]weft.Result[uint32], n)
				for i := range ops {
					kind := []weft.OpKind{weft.OpPut, weft.OpDelete, weft.OpPutNew}[rng.IntN(3)]
					ops[i] = weft.Op[uint32, uint32]{Kind: kind, Key: uint32(rng.IntN(300)) - 5, Value: uint32(i)}
				}
				if err := m.Apply(t.Context(), ops, res); err != nil {
					t.Fatal(err)
				}
				for i, op := range ops {
					if res[i].OK && op.Kind == weft.OpDelete {
						there[op.Key]--
					} else if res[i].OK {
						there[op.Key]++
					}
				}
				seen := map[uint32]int{}
				for k := range m.All() {
					seen[k]++
				}
				for k := range uint32(300) {
					if k -= 5; seen[k] > 1 || seen[k] != there[k] {
						t.Fatalf("key %#x is there %d times; by the answers %d times", k, seen[k], there[k])
					}
				}
			}
		})
	}
}

// TestMemoryStaysConstant inserts and deletes keys repeatedly. After the first rounds, memory and
// chains must not grow, since structures flush themselves. Mixed batches and multimaps do not reuse
// dead slots.
func TestMemoryStaysConstant(t *testing.T) {
	dev := devicetest.Open(t)
	n, rounds := 5000, 60
	if isSim(dev) {
		n, rounds = 200, 12
	}
	opts := &Options{Capacity: n, Seed: 9}
	keys, vals := make([]uint64, (rounds+1)*n), make([]uint64, (rounds+1)*n)
	for i := range keys {
		keys[i] = uint64(i)
	}
	m, set, multi := conformance.Open(t, New[uint64, uint64], dev, opts), conformance.Open(t, NewSet[uint64], dev, opts), conformance.Open(t, NewMultiMap[uint64, uint64], dev, opts)
	var first [3]Stats
	for r := range rounds {
		old, fresh := keys[r*n:(r+1)*n], keys[(r+1)*n:(r+2)*n]
		ops := make([]weft.Op[uint64, uint64], 2*n)
		for i := range n {
			ops[2*i] = weft.Op[uint64, uint64]{Kind: weft.OpPut, Key: fresh[i]}
			ops[2*i+1] = weft.Op[uint64, uint64]{Kind: weft.OpDelete, Key: old[i]}
		}
		_, err := set.Add(t.Context(), fresh, nil)
		_, err2 := set.Delete(t.Context(), old, nil)
		_, err3 := multi.Put(t.Context(), fresh, vals[:n])
		_, err4 := multi.Delete(t.Context(), old, nil)
		if err := errors.Join(err, err2, err3, err4, m.Apply(t.Context(), ops, nil)); err != nil {
			t.Fatal(err)
		}
		for i, x := range []*table{&m.table, &set.table, &multi.table} {
			now, err := x.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r == 4 {
				first[i] = now
			}
			if now.Len != n || r > 4 && (now.Bytes > first[i].Bytes || now.MaxChain > first[i].MaxChain+2 || now.Tombstones > now.Len) {
				t.Fatalf("round %d, structure %d: %v\nwas: %v", r, i, now, first[i])
			}
		}
	}
}

// scarce leaves only a few units of a pool free until the end of the test.
func scarce(t *testing.T, tab table, left int) {
	t.Helper()
	show, err := hide(tab.core.Device, tab.policy.engine.units(), left)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := show(); err != nil {
			t.Error(err)
		}
	})
}

// TestBeyondCapacityOfOneChain checks that a fixed set and a fixed multimap with one chain store
// Capacity keys. Further keys return ErrFull, are reported, and damage nothing.
func TestBeyondCapacityOfOneChain(t *testing.T) {
	dev := devicetest.Open(t)
	const capacity, more = 300, 1000
	opts := &Options{Capacity: capacity, Buckets: 1, Fixed: true, Seed: 4}
	keys := make([]uint32, capacity+more)
	for i := range keys {
		keys[i] = uint32(i)
	}
	t.Run("set", func(t *testing.T) {
		s := conformance.Open(t, NewSet[uint32], dev, opts)
		scarce(t, s.table, capacity/30)
		if n, err := s.Add(t.Context(), keys[:capacity], nil); n != capacity || err != nil {
			t.Fatalf("Add: %d, %v", n, err)
		}
		added := make([]bool, len(keys))
		n, err := s.Add(t.Context(), keys, added)
		if !errors.Is(err, weft.ErrFull) {
			t.Fatalf("Add of more: %d, %v", n, err)
		}
		there := make([]bool, len(keys))
		if hits, err := s.Contains(t.Context(), keys, there); hits != capacity+n || hits != s.Len() || err != nil {
			t.Fatalf("%d keys are there, Len %d, %d were added: %v", hits, s.Len(), n, err)
		}
		for i := range there {
			if there[i] != (i < capacity || added[i]) {
				t.Fatalf("key %d: there %v, added %v", i, there[i], added[i])
			}
		}
	})
	t.Run("multimap", func(t *testing.T) {
		m := conformance.Open(t, NewMultiMap[uint32, uint32], dev, opts)
		scarce(t, m.table, capacity/15)
		one := slices.Repeat([]uint32{7}, len(keys))
		if n, err := m.Put(t.Context(), one[:capacity], keys[:capacity]); n != capacity || err != nil {
			t.Fatalf("Put: %d, %v", n, err)
		}
		n, err := m.Put(t.Context(), one[:more], keys[capacity:])
		if !errors.Is(err, weft.ErrFull) {
			t.Fatalf("Put of more: %d, %v", n, err)
		}
		var rows weft.Rows[uint32]
		err = m.GetAll(t.Context(), one[:1], &rows)
		vals := rows.Vals
		if err != nil || len(vals) != capacity+n || m.Len() != len(vals) {
			t.Fatalf("%d values, Len %d, %d were added: %v", len(vals), m.Len(), n, err)
		}
		slices.Sort(vals)
		if len(slices.Compact(vals)) != capacity+n || vals[capacity-1] != capacity-1 {
			t.Error("values are lost or there twice")
		}
		if n, err := m.DeleteAll(t.Context(), one[:1], nil); n != len(vals) || err != nil {
			t.Fatalf("DeleteAll: %d, %v", n, err)
		}
		// The slots of the dead pairs are reused.
		if n, err := m.Put(t.Context(), one[:capacity], keys[:capacity]); n != capacity || err != nil {
			t.Fatalf("Put again: %d, %v", n, err)
		}
	})
}
