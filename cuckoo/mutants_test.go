package cuckoo_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
)

// mutant breaks the protocol by replacing a pattern in the PTX of kernels.
type mutant struct{ name, kernels, pattern, with string }

// mutants break evictions.
var mutants = []mutant{
	{"an eviction clears first", "evict_32_32",
		`(?s)(ld\.relaxed\.gpu\.global\.b64 %rd\d+, \[(%rd\d+)\];\s+mul\.[^;]*;\s+add\.[^;]*;\s+ld\.relaxed\.gpu\.global\.b64 [^;]*;\s+shr\.u64 [^;]*;\s+setp\.ne\.s64 .*?)(atom\.relaxed\.gpu\.global\.cas\.b64)`,
		"$1 st.relaxed.gpu.global.b64 [$2], -4294967300; nanosleep.u32 1; nanosleep.u32 1; nanosleep.u32 1; nanosleep.u32 1; $3"},
}

// readerMutants break lookups during evictions.
var readerMutants = []mutant{
	{"a lookup does not ask whether keys move", "get(_wide|_of_eight|_all)?_32_32",
		`ld\.(?:acquire|relaxed)\.gpu\.global\.b64 (%rd\d+), \[%rd\d+\];`, "mov.b64 $1, 0;"},
	{"lanes of a lookup do not meet", "get(_wide|_of_eight|_all)?_32_32", `bar\.warp\.sync [^;]*;`, ""},
	{"blocks that move keys say so at the end", "evict_32_32",
		`(?s)^(.*?)atom\.relaxed\.gpu\.global\.add\.u64 (%rd\d+), \[(%rd\d+)\], (%rd\d+);(.*)atom\.relaxed\.gpu\.global\.add\.u64 (%rd\d+), \[(%rd\d+)\], (%rd\d+);`,
		"$1 mov.b64 $2, 0;$5 { .reg .b64 both; mov.b64 both, 4294967296; atom.relaxed.gpu.global.add.u64 $6, [$7], both; }"},
}

// slotMutants break moves to one bucket at once.
var slotMutants = []mutant{
	{"an eviction copies to a slot that another key has taken", "evict_32_32",
		`atom\.relaxed\.gpu\.global\.cas\.b64 (%rd\d+), \[(%rd\d+)\], (%rd\d+), (%rd\d+);`, "atom.relaxed.gpu.global.exch.b64 $1, [$2], $4; mov.b64 $1, $3;"},
}

// lockMutants break the retries of a lookup that has missed its key while keys moved.
var lockMutants = []mutant{
	{"a move has no fence before it clears", "evict_32_32", `fence\.acq_rel\.gpu;(\s+st\.relaxed\.gpu\.global\.b64)`, "$1"},
	{"a lookup does not ask whether its key has moved", "get(_all)?_32_32",
		`ld\.relaxed\.gpu\.global\.b32 (%r\d+), \[%rd\d+\];(\s+setp\.ne\.s32 %p\d+, %r\d+, (%r\d+);)`, "mov.b32 $1, $3;$2"},
	{"a lookup does not mind that its key is moving", "get(_all)?_32_32",
		`(ld\.acquire\.gpu\.global\.b32 %r\d+, \[%rd\d+\];\s+\$L__BB\d+_\d+:\s+(?:not\.pred [^;]*;\s+)?)and\.b32 (%r\d+), %r\d+, 1;`, "${1}mov.b32 $2, 0;"},
}

// aside matches the instruction that takes a lock.
const aside = `atom\.acquire\.gpu\.global\.cas\.b32 (%r\d+), \[%rd\d+\], (%r\d+), %r\d+;`

// stepMutants break single steps, and buckets of one slot. Each lists the tests that notice it.
var stepMutants = []struct {
	mutant
	by []mutate.KernelTest
}{
	{mutant{"a lock is lost", "evict_32_32",
		`or\.b32 (%r\d+), (%r\d+), 1;(\s+)atom\.acquire\.gpu\.global\.cas\.b32 (%r\d+), \[(%rd\d+)\], %r\d+, %r\d+;`, "or.b32 $1, $2, 1;$3 mov.b32 $4, $2;"}, keptLockTests},
	{mutant{"a taken lock is taken again", "evict_32_32",
		`and\.b32 (%r\d+), (%r\d+), 1;(\s+setp\.eq\.[bsu]32 (?:%p\d+), %r\d+, 1;\s+mov\.pred)`, "and.b32 $1, $2, 0;$3"}, keptLockTests},
	{mutant{"a step takes a lock that another has", "displace_32_32", aside, "mov.b32 $1, $2;"}, keptLockTests[1:]},
	{mutant{"a step keeps its locks", "displace_32_32", `st\.release\.gpu\.global\.b32 [^;]*;`, ""}, keptLockTests[1:]},
	{mutant{"a step copies to a slot that another key has taken", "displace_32_32",
		`atom\.relaxed\.gpu\.global\.cas\.b64 (%rd\d+), \[(%rd\d+)\], (%rd\d+), (%rd\d+);`, "atom.relaxed.gpu.global.exch.b64 $1, [$2], $4; mov.b64 $1, $3;"}, stepTests},
	{mutant{"a step gives a slot away without a fence", "displace_32_32", `fence\.acq_rel\.gpu;(\s+st\.relaxed\.gpu\.global\.b64)`, "$1"}, stepLockTests},
	{mutant{"a lookup has another fourth function", "get_32_32", `-1028477387`, "-1028477385"}, stashTests},
	{mutant{"a lookup looks in another line of the stash", "get_32_32", `668265263`, "668265261"}, stashTests},
	{mutant{"a search puts keys into another line of the stash", "evict_32_32", `668265263`, "668265261"}, stashTests},
	{mutant{"a search has another third function", "evict_32_32", `-2048144789`, "-2048144787"}, stashTests},
}

// evenMutants break load balancing, with its lock per insertion.
var evenMutants = []mutant{
	{"balanced insertions take a lock that another has", "(even_of_eight|change_even)_32_32", aside, "mov.b32 $1, $2;"},
	{"balanced insertions keep their locks", "(even_of_eight|change_even)_32_32", `st\.release\.gpu\.global\.b32 [^;]*;`, ""},
}

// roundMutants break changes in buckets of eight slots, which each lane runs by itself.
var roundMutants = []struct {
	mutant
	by []mutate.KernelTest
}{
	{mutant{"an insertion takes a slot that another key has taken", "change_of_eight_32_32",
		`atom\.relaxed\.gpu\.global\.cas\.b64 (%rd\d+), (\[%rd\d+\]), (%rd\d+), (%rd\d+);`, "atom.relaxed.gpu.global.exch.b64 $1, $2, $4; mov.b64 $1, $3;"}, firstFitTests},
	{mutant{"an insertion does not see that its key has come to the slot that it wanted", "change_of_eight_32_32",
		`(ld\.relaxed\.gpu\.global\.b64 %rd\d+, \[%rd\d+\];\s+\{[^}]*\{[^}]*\}[^}]*\}\s+)setp\.ne\.s32 (%p\d+), [^;]*;(\s+mov\.pred)`, "$1 mov.pred $2, -1;$3"}, firstFitTests},
	{mutant{"a lane whose lock is taken goes on to its next operation", "even_of_eight_32_32",
		`@!%p\d+ bra \$L__BB\d+_\d+;(\s+bra\.uni \$L__BB\d+_\d+;\s+\$L__BB\d+_\d+:\s+add\.s64 [^;]*;\s+add\.s64 [^;]*;\s+min\.u64)`, "$1"}, balancingTests(8)},
	{mutant{"lanes that work for each other by locks do not meet", "even_of_eight_32_32", `bar\.warp\.sync [^;]*;`, ""}, balancingTests(8)},
}

// manyOfEach makes threads insert the same few keys at the same time, repeatedly. Each key must be
// present once, and be found.
func manyOfEach(slots int, policy cuckoo.Policy) func(t testing.TB, dev device.Device) {
	return func(t testing.TB, dev device.Device) {
		const rounds = 4
		m := conformance.Open(t, cuckoo.New[uint32, uint32], dev, cuckoo.Crowded(cuckoo.Options{Capacity: 64, Fixed: true, Slots: slots, Policy: policy, Unordered: true, Seed: 3}))
		stay := conformance.Sequence[uint32](1, 24)
		s := devicetest.NewStream(t, dev)
		on := devicetest.Upload(t, s, slices.Repeat(stay, 6))
		for range rounds {
			if err := errors.Join(m.Clear(t.Context()), m.PutOn(s, on, on), m.Sync(t.Context()), m.CheckInvariants()); err != nil {
				t.Fatal(err)
			}
			conformance.WantPairs(t, m, stay)
		}
	}
}

// firstFitTests run tables that do not balance.
var firstFitTests = []mutate.KernelTest{{Name: "many of each key, first fit", Run: manyOfEach(8, cuckoo.FirstFit)}}

// balancingTests run tables that balance, with buckets of eight slots and of other sizes.
func balancingTests(slots int) []mutate.KernelTest {
	return []mutate.KernelTest{{Name: fmt.Sprintf("many of each key, %d slots", slots), Run: manyOfEach(slots, cuckoo.LoadBalancing), Budget: 1 << 20}}
}

// Mutants of load balancing are noticed, in buckets of eight slots and of other sizes.
func TestBalancingMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, slots := range []int{4, 8} {
		mutate.RunOnSim(t, balancingTests(slots), 2, 90)
		for _, m := range evenMutants {
			t.Run(fmt.Sprintf("%s, %d slots", m.name, slots), func(t *testing.T) {
				t.Parallel()
				_, random := mutate.DeviceTrials(90, 40, balancingTests(slots))
				mutate.RequireDetected(t, random, mutate.Replace(t, m.kernels, m.pattern, m.with))
			})
		}
	}
}

// Mutants of changes in buckets of eight slots are noticed.
func TestRoundMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	mutate.RunOnSim(t, firstFitTests, 2, 90)
	for _, m := range roundMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			_, random := mutate.DeviceTrials(90, 40, m.by)
			mutate.RequireDetected(t, random, mutate.Replace(t, m.kernels, m.pattern, m.with))
		})
	}
}

// evicting returns programs with many evictions and concurrent lookups.
func evicting() dst.Config[uint32, uint32] {
	cfg := schedules[uint32, uint32](mode{Arch: 90, Options: cuckoo.Options{Slots: 4, MaxLoad: .95, Unordered: true}})
	// Found by seed 64.
	cfg.Shapes, cfg.First, cfg.Seeds = troubles[len(dst.Shapes):len(dst.Shapes)+2], 62, 400
	return cfg
}

// Schedules find every mutant of evictions.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			cfg := evicting()
			cfg.Rewrite, cfg.NoShrink = mutate.Replace(t, m.kernels, m.pattern, m.with), true
			f, tried := dst.Find(cfg)
			if f == nil {
				t.Fatalf("not found by %v", tried)
			}
			t.Logf("found by program %d: %v", tried.Programs, f.Err)
		})
	}
}
