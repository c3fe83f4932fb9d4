package cuckoo_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
)

// lookupsDuringEvictions runs lookups during batches that move keys.
func lookupsDuringEvictions(opts cuckoo.Options) func(t testing.TB, dev device.Device) {
	return func(t testing.TB, dev device.Device) {
		opts.Capacity, opts.Fixed, opts.MaxLoad, opts.Seed = 128, true, 1, 3
		conformance.LookupsAlongsideMoves(t, dev, conformance.Open(t, cuckoo.New[uint32, uint32], dev, &opts), 80, 44)
	}
}

// backAndForth looks up a key repeatedly during changes that move the key from one bucket to the
// other and back.
//
// Buckets 2 and 3 are full of keys that could only change places. The other keys of bucket 0, and
// the keys of bucket 1, could only go to bucket 2. So an insertion into bucket 0 or 1, when it is
// full, moves the key to the other bucket, where a slot is free.
func backAndForth(opts cuckoo.Options) func(t testing.TB, dev device.Device) {
	return func(t testing.TB, dev device.Device) {
		const rounds, lookups = 8, 96
		slots := cmp.Or(opts.Slots, 4)
		opts.Capacity, opts.Fixed, opts.MaxLoad, opts.Slots, opts.Seed = 4*slots, true, 1, slots, 3
		m := conformance.Open(t, cuckoo.New[uint32, uint32], dev, &opts)
		change, look := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
		key := m.KeysOf(0, 1, 1, 1)
		come := [2][]uint32{m.KeysOf(0, 2, 1, slots), m.KeysOf(1, 2, 1, slots)}
		stay := slices.Concat(key, come[0][1:], come[1][1:], m.KeysOf(2, 3, 1, slots), m.KeysOf(3, 2, 1, slots))
		on, upload := device.Slice[bool]{}, func(keys []uint32) device.Slice[uint32] { return devicetest.Upload(t, change, keys) }
		all, comes := upload(stay), [2]device.Slice[uint32]{upload(come[0][:1]), upload(come[1][:1])}
		wanted := devicetest.Upload(t, look, slices.Repeat(key, lookups))
		vals, found := devicetest.Upload(t, look, make([]uint32, lookups*rounds)), devicetest.Upload(t, look, make([]bool, lookups*rounds))
		check := func(errs ...error) {
			t.Helper()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
		}
		check(look.Sync(t.Context()), m.PutOn(change, all, all), m.Sync(t.Context()))
		for round := range rounds {
			lo, hi := round*lookups, (round+1)*lookups
			check(m.GetOn(look, wanted, vals.Sub(lo, hi), found.Sub(lo, hi)))
			for _, one := range comes {
				check(m.PutOn(change, one, one), m.DeleteOn(change, one, on))
			}
		}
		check(m.Sync(t.Context()))
		there, got := make([]bool, lookups*rounds), make([]uint32, lookups*rounds)
		check(found.CopyTo(t.Context(), look, there), vals.CopyTo(t.Context(), look, got))
		for i := range there {
			if !there[i] || got[i] != key[0] {
				t.Fatalf("round %d: key %d has value %d, found is %v", i/lookups, key[0], got[i], there[i])
			}
		}
	}
}

// oneSlot moves several keys to one bucket at the same time. The bucket has a free slot for each.
// Afterward all keys are present.
func oneSlot(t testing.TB, dev device.Device) {
	const slots, rounds, free = 4, 8, 3
	m := conformance.Open(t, cuckoo.New[uint32, uint32], dev,
		cuckoo.Crowded(cuckoo.Options{Capacity: 4 * slots, Fixed: true, MaxLoad: 1, Slots: slots, Unordered: true, Seed: 3}))
	s := devicetest.NewStream(t, dev)
	stay := slices.Concat(m.KeysOf(0, 3, 1, slots), m.KeysOf(1, 3, 1, slots), m.KeysOf(2, 3, 1, slots), m.KeysOf(3, 0, 1, slots-free))
	come := slices.Concat(m.KeysOf(0, 1, 1, 1), m.KeysOf(1, 2, 1, 1), m.KeysOf(2, 0, 1, 1))
	there, others := devicetest.Upload(t, s, stay), devicetest.Upload(t, s, come)
	for range rounds {
		if err := errors.Join(m.Clear(t.Context()), m.PutOn(s, there, there), m.PutOn(s, others, others), m.Sync(t.Context()), m.CheckInvariants()); err != nil {
			t.Fatal(err)
		}
		conformance.WantPairs(t, m, slices.Concat(stay, come))
	}
}

// readerTests run lookups during evictions.
var readerTests = []mutate.KernelTest{
	{Name: "lookups beside evictions", Run: lookupsDuringEvictions(cuckoo.Options{Slots: 4})},
	{Name: "in both buckets at once", Run: lookupsDuringEvictions(cuckoo.Options{Slots: 8, Lookup: cuckoo.AllBuckets})},
	{Name: "balanced", Run: lookupsDuringEvictions(cuckoo.Options{Slots: 4, Policy: cuckoo.LoadBalancing})},
}

// lockTests move a key so often that a lookup may miss it twice.
var lockTests = []mutate.KernelTest{
	{Name: "back and forth, both buckets at once", Run: backAndForth(cuckoo.Options{Unordered: true, Lookup: cuckoo.AllBuckets})},
	{Name: "back and forth", Run: backAndForth(cuckoo.Options{Unordered: true})},
}

// stepTests use buckets of eight slots, in which keys move by single steps.
var stepTests = []mutate.KernelTest{{Name: "lookups beside steps", Run: lookupsDuringEvictions(cuckoo.Options{})}}

// stepLockTests move a key by single steps, so often that a lookup may miss it twice.
var stepLockTests = []mutate.KernelTest{{Name: "back and forth, eight slots", Run: backAndForth(cuckoo.Options{Slots: 8, Unordered: true})}}

// keptLockTests soon notice a lock that is never released.
var keptLockTests = []mutate.KernelTest{
	{Name: "lookups beside evictions", Run: lookupsDuringEvictions(cuckoo.Options{Slots: 4}), Budget: 1 << 20},
	{Name: "lookups beside steps", Run: lookupsDuringEvictions(cuckoo.Options{}), Budget: 1 << 20},
}

// stashTests store keys in all four of their buckets, and in the stash.
var stashTests = []mutate.KernelTest{{Name: "stash", Run: stashed}}

// stashed fills a table with buckets of one slot until no more keys fit. Lookups must find all
// keys.
func stashed(t testing.TB, dev device.Device) {
	const slots, n = 512, 503
	m := conformance.Open(t, cuckoo.New[uint32, uint32], dev, cuckoo.Crowded(cuckoo.Options{Capacity: slots, Fixed: true, MaxLoad: 1, Slots: 1, Unordered: true, Seed: 3}))
	keys := conformance.Sequence[uint32](1, n)
	for batch := range slices.Chunk(keys, 100) {
		if _, err := m.Put(t.Context(), batch, batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
	conformance.WantPairs(t, m, keys)
	if s := conformance.StatsOf(t, m); s.Stashed < 2 {
		t.Fatal(s)
	}
}

// slotTests move keys at the same time.
var slotTests = []mutate.KernelTest{{Name: "to one bucket", Run: oneSlot}}

// A lookup finds a present key while the key moves.
func TestLookupsBesideEvictions(t *testing.T) {
	mutate.RunOnSim(t, readerTests, 2, 80, 90)
	mutate.RunOnSim(t, lockTests, 2, 90)
	mutate.RunOnSim(t, slotTests, 2, 80, 90)
	mutate.RunOnSim(t, slices.Concat(keptLockTests, stepLockTests, stashTests), 2, 90)
}

// rare has seeds shortly before those that reveal mutants. Only few schedules reveal these mutants.
var rare = map[string]int{"lanes of a lookup do not meet": 7, "a lookup does not mind that its key is moving": 70}

// Mutants of lookups are noticed.
func TestReaderMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	noticed := func(m mutant, tests []mutate.KernelTest) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			_, random := mutate.DeviceTrials(90, 200, tests)
			random = random[rare[m.name]:]
			// Locks are held for long, so that lookups meet them.
			slow := mutate.Replace(t, "(displace|evict)_32_32", `(fence\.acq_rel\.gpu;|st\.release\.gpu\.global\.b32)`, strings.Repeat("nanosleep.u32 1; ", 8)+"$1")
			broken := mutate.Replace(t, m.kernels, m.pattern, m.with)
			mutate.RequireDetected(t, random, func(file, ptx string) string { return slow(file, broken(file, ptx)) })
		})
	}
	for _, m := range readerMutants {
		noticed(m, readerTests)
	}
	for _, m := range slotMutants {
		noticed(m, slotTests)
	}
	for _, m := range stepMutants {
		noticed(m.mutant, m.by)
	}
	for _, m := range lockMutants {
		noticed(m, lockTests)
	}
}

// An iteration sees each untouched pair once, while kernels would otherwise move keys.
func TestIterateAlongsideOnGPU(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	for _, slots := range []int{4, 8} {
		t.Run(fmt.Sprintf("%d slots", slots), func(t *testing.T) {
			dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: 1, Races: true})
			conformance.IterateAlongside(t, dev, 200, conformance.MapOf(cuckoo.New[uint32, uint32], &cuckoo.Options{MaxLoad: .97, Slots: slots}))
		})
	}
}
