package linear

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
)

// unhash is the key whose 64-bit hash is h: the finalizer backwards. Who knows
// the seed can do this.
func unhash(h, seed uint64) uint64 {
	const inverse = 0x153ed04bd89cfaf5 // of the multiplier 0xe9846af9b1a615d, modulo 2^64
	h ^= h>>28 ^ h>>56
	h *= inverse
	h ^= h >> 32
	h *= inverse
	h ^= h >> 32
	return h ^ seed
}

// colliding are n keys whose hashes under a seed are 1, 2, …: in any table,
// all have their homes in line 0.
func colliding(n int, seed uint64) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = unhash(uint64(i)+1, seed)
	}
	return keys
}

// Keys made to collide under one seed slow that table down and break nothing;
// under another seed they are keys like any others.
func TestCollidingKeys(t *testing.T) {
	dev := devicetest.Open(t)
	const n, seed = 500, 12345
	keys := colliding(n, seed)
	for _, k := range keys {
		if home(geometry{seed, 1000}, k) != 0 {
			t.Fatalf("key %#x has home %d", k, home(geometry{seed, 1000}, k))
		}
	}
	longest := map[uint64]int{}
	for _, s := range []uint64{seed, seed + 1} {
		m, err := New[uint64, uint64](dev, &Options{Seed: s})
		if err != nil {
			t.Fatal(err)
		}
		for lo := 0; lo < n; lo += 100 {
			if got, err := m.Put(t.Context(), keys[lo:lo+100], keys[lo:lo+100]); got != 100 || err != nil {
				t.Fatal(got, err)
			}
		}
		vals := make([]uint64, n)
		if hits, err := m.Get(t.Context(), keys, vals, nil); hits != n || err != nil || !slices.Equal(vals, keys) {
			t.Fatalf("seed %d: %d of %d keys: %v", s, hits, n, err)
		}
		stats, err := m.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		longest[s] = stats.MaxProbe
		if got, err := m.Delete(t.Context(), keys[:n/2], nil); got != n/2 || err != nil {
			t.Fatal(got, err)
		}
		if hits, err := m.Contains(t.Context(), keys, nil); hits != n/2 || err != nil {
			t.Fatalf("seed %d: %d keys after half were deleted: %v", s, hits, err)
		}
		if err := m.CheckInvariants(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if longest[seed] != n-1 || longest[seed+1] > 60 {
		t.Errorf("longest probes: %d under the seed that is known, %d under another; want %d and less than 60",
			longest[seed], longest[seed+1], n-1)
	}
}

// A path has an end: keys that crowd beyond it find no room though the table
// has plenty, and the call says so. The keys that got in stay.
func TestCrowdedBeyondAPath(t *testing.T) {
	dev := devicetest.Open(t)
	const (
		seed  = 99
		fits  = maxPath * lineBytes / 16 // one path
		extra = 100
	)
	keys := colliding(fits+extra, seed)
	m, err := New[uint64, uint64](dev, &Options{Seed: seed, Capacity: 2 * fits, MaxLoad: 1, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	// Fill the path the short way, by hand: a crowd of this size takes time in
	// the square of it.
	im, err := m.table.image()
	if err != nil {
		t.Fatal(err)
	}
	slot := 0
	for i := range im.path(false, keys[0]) {
		im.put(i, keys[slot], keys[slot])
		if slot++; slot == fits {
			break
		}
	}
	im.setCounters(uint64(slot), uint64(slot))
	if err := m.table.restore(im); err != nil {
		t.Fatal(err)
	}
	last := keys[fits-1:]
	ok := make([]bool, len(last))
	n, err := m.PutNew(t.Context(), last, last, ok)
	if n != 0 || !errors.Is(err, weft.ErrFull) || slices.Contains(ok, true) {
		t.Errorf("PutNew of %d keys beyond the end of their path: %d, %v", extra, n, err)
	}
	if hits, err := m.Contains(t.Context(), last, ok); hits != 1 || err != nil || !ok[0] {
		t.Errorf("of the last key on the path and %d beyond, %d are found: %v", extra, hits, err)
	}
	if m.Len() != fits {
		t.Errorf("%d keys, want %d", m.Len(), fits)
	}
	// Others are not concerned.
	other := []uint64{unhash(1<<63, seed)}
	if n, err := m.Put(t.Context(), other, other); n != 1 || err != nil {
		t.Errorf("Put elsewhere: %d, %v", n, err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
