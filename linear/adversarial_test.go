package linear

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// Keys that collide under one seed may slow a table down, but must not break it. Under another seed
// they are ordinary keys.
func TestCollidingKeys(t *testing.T) {
	dev := devicetest.Open(t)
	const n, seed = 500, 12345
	keys := conformance.Colliding(n, seed)
	for _, k := range keys {
		if home(geometry{seed, 1000}, k) != 0 {
			t.Fatalf("key %#x has home %d", k, home(geometry{seed, 1000}, k))
		}
	}
	longest := map[uint64]int{}
	for _, s := range []uint64{seed, seed + 1} {
		m := conformance.Open(t, New[uint64, uint64], dev, &Options{Seed: s})
		conformance.FillAndHalve(t, m, keys, func() { longest[s] = conformance.StatsOf(t, m).MaxProbe })
	}
	if longest[seed] != n-1 || longest[seed+1] > 60 {
		t.Errorf("longest probes: %d under the seed that is known, %d under another; want %d and less than 60",
			longest[seed], longest[seed+1], n-1)
	}
}

// If keys crowd beyond the end of a path, they must be dropped and reported, although the table has
// free slots. Keys inserted before must stay.
func TestCrowdedBeyondAPath(t *testing.T) {
	dev := devicetest.Open(t)
	const (
		seed  = 99
		fits  = maxPath * lineBytes / 16 // one path
		extra = 100
	)
	keys := conformance.Colliding(fits+extra, seed)
	m, err := New[uint64, uint64](dev, &Options{Seed: seed, Capacity: 2 * fits, MaxLoad: 1, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	// Fill the path directly, because inserting that many crowded keys takes quadratic time.
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
	// Other keys are unaffected.
	other := []uint64{conformance.Unhash(1<<63, seed)}
	if n, err := m.Put(t.Context(), other, other); n != 1 || err != nil {
		t.Errorf("Put elsewhere: %d, %v", n, err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
