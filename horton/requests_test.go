package horton

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
)

// A lookup on a GPU requests the sectors of at most two buckets, each sector once, whether its key
// is present or not. All lookups together request as many buckets as Stats reports.
func TestLookupsRequestTwoBuckets(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for slots, load := range map[int]float64{1: .7, 2: .8, 4: .9, 8: .95, 16: .95} {
		t.Run(fmt.Sprintf("%d slots", slots), func(t *testing.T) {
			t.Parallel()
			twoBuckets[uint32, uint32](t, slots, load)
			if slots == 8 {
				twoBuckets[uint64, uint64](t, slots, load)
			}
		})
	}
}

// counted records the requests of a lookup of one key.
type counted struct {
	geometry
	base    device.Ptr
	slot    int // bytes
	primary uint32
	sectors map[device.Ptr]int
	beyond  map[uint32]bool // secondary buckets
}

// add records the sectors that a warp requests.
func (c *counted) add(r sim.Request) {
	bytes := device.Ptr(int(c.buckets) << c.shift * c.slot)
	for _, s := range r.Sectors {
		if r.Kind != sim.Load || s < c.base || s >= c.base+bytes {
			continue
		}
		c.sectors[s]++
		size := device.Ptr(c.slot << c.shift)
		first := c.base + device.Ptr(c.primary)*size
		if s+sim.SectorBytes <= first || s >= first+size {
			c.beyond[uint32(s-c.base)/uint32(c.slot<<c.secondaryShift())] = true
		}
	}
}

// reads returns the number of buckets that the lookup has requested. It returns an error if a
// request is wrong.
func (c *counted) reads() (int, error) {
	for s, n := range c.sectors {
		if n > 1 {
			return 0, fmt.Errorf("the sector at %d is requested %d times", s-c.base, n)
		}
	}
	most := max(c.slot<<c.shift, sim.SectorBytes)/sim.SectorBytes + max(c.slot<<c.secondaryShift(), sim.SectorBytes)/sim.SectorBytes
	if len(c.beyond) > 1 || len(c.sectors) > most || len(c.sectors) == 0 {
		return 0, fmt.Errorf("%d sectors are requested, of %d buckets beside the primary one", len(c.sectors), len(c.beyond))
	}
	return 1 + len(c.beyond), nil
}

func twoBuckets[K weft.Key, V weft.Value](t *testing.T, slots int, load float64) {
	const n = 450
	var c *counted
	dev := devicetest.OpenSim(t, &sim.Options{Arch: 90, Requests: func(r sim.Request) {
		if c != nil {
			c.add(r)
		}
	}})
	s := devicetest.NewStream(t, dev)
	m := conformance.Open(t, New[K, V], dev, &Options{Capacity: n, MaxLoad: load, Fixed: true, Slots: slots, Seed: 1})
	keys, vals := conformance.Sequence[K](1, 2*n), make([]V, 2*n)
	on, out, found := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, vals), devicetest.Upload(t, s, make([]bool, 2*n))
	if err := errors.Join(m.PutOn(s, on.Sub(0, n), out.Sub(0, n)), m.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	g := m.engine.(*gpuEngine).Parts().(*generation)
	sums := [2]int{} // of present keys, and of absent ones
	for i, k := range keys {
		c = &counted{geometry: g.geometry, base: g.Buf.Ptr, slot: m.layout.slotBytes, sectors: map[device.Ptr]int{}, beyond: map[uint32]bool{}}
		c.primary = bucketOf(g.geometry, m.layout.slotBytes, uint64(k))
		if err := errors.Join(m.GetOn(s, on.Sub(i, i+1), out.Sub(i, i+1), found.Sub(i, i+1)), s.Sync(t.Context())); err != nil {
			t.Fatal(err)
		}
		buckets, err := c.reads()
		if err != nil {
			t.Fatalf("key %d: %v", k, err)
		}
		sums[i/n] += buckets
	}
	c = nil
	is := make([]bool, 2*n)
	if err := found.CopyTo(t.Context(), s, is); err != nil {
		t.Fatal(err)
	}
	for i, there := range is {
		if there != (i < n) {
			t.Fatalf("key %d: found is %v", keys[i], there)
		}
	}
	stats := conformance.StatsOf(t, m)
	if sums[0] != n+stats.Secondary || stats.Secondary == 0 {
		t.Errorf("lookups of all keys request %d buckets: %v", sums[0], stats)
	}
	if miss := float64(sums[1]) / n; math.Abs(miss-stats.PerMiss) > .05 {
		t.Errorf("lookups of absent keys request %.3f buckets: %v", miss, stats)
	}
}

// bucketOf returns a key's primary bucket in a table with slots of slotBytes bytes.
func bucketOf(g geometry, slotBytes int, key uint64) uint32 {
	if slotBytes == 8 {
		return pathOf[uint32, uint32](g, uint32(key)).bucket
	}
	return pathOf[uint64, uint64](g, key).bucket
}
