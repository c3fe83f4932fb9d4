package gphash

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/hash"
)

// onePrefix returns key i of a sequence of keys with equal first halves of their fast hashes.
func onePrefix(seed [2]uint64, i int) []byte {
	h := uint64(0xabcdef01)<<32 | uint64(i)*2654435761%(1<<32)
	return binary.LittleEndian.AppendUint64(nil, hash.Unmix64(h, seed[1])^seed[0]^8)
}

// If keys share a prefix of the fast hash, one warp per key still resolves their operations, in the
// order of the batch. This also holds for keys without a slot, since these do not all wait for the
// one warp of their region.
func TestKeysOfOnePrefix(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const n, ops, others = 1200, 1500, 300
	dev := devicetest.OpenSim(t, nil)
	for _, capacity := range []int{3000, 1300} { // 6,144 and 1,536 slots
		o := Options{KeySize: 8, ValueSize: 8, Capacity: capacity, Hash: Fast, Seed: [2]uint64{3, 4}}
		x, err := Create(filepath.Join(memoryDir(t), "pool"), dev, o)
		must(t, err)
		var before []byte
		for i := range others {
			before = append(before, outsideKey(i)...)
		}
		_, err = x.Put(ctx, before, make([]byte, 8*others))
		must(t, err)
		rng, want := rand.New(rand.NewPCG(1, uint64(capacity))), map[string]string{}
		var keys, values []byte
		for i := range ops {
			of := i % n // each key once, and hot keys repeatedly
			if i >= n {
				of = rng.IntN(1 + rng.IntN(n))
			}
			key, value := onePrefix(o.Seed, of), fmt.Sprintf("%8d", i)
			if h := x.engine.hash(key); h>>32 != 0xabcdef01 {
				t.Fatalf("hash %x", h)
			}
			want[string(key)] = value
			keys, values = append(keys, key...), append(values, value...)
		}
		inserted, err := x.Put(ctx, keys, values)
		must(t, err)
		if inserted != len(want) || x.Len() != len(want)+others {
			t.Errorf("capacity %d: %d inserted, %d there, want %d", capacity, inserted, x.Len(), len(want))
		}
		got, found := make([]byte, len(values)), make([]bool, ops)
		_, err = x.Get(ctx, keys, got, found)
		must(t, err)
		for i := range ops {
			if is, key := string(got[8*i:8*i+8]), string(keys[8*i:8*i+8]); !found[i] || is != want[key] {
				t.Fatalf("capacity %d: key %x has %q, want %q", capacity, key, is, want[key])
			}
		}
		must(t, x.Check(ctx))
		if s, err := x.Stats(ctx); err != nil || (s.Retries > 0) != (capacity < 2*n) {
			t.Errorf("capacity %d: %+v, %v", capacity, s, err)
		}
		must(t, x.Close())
	}
}
