package horton_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
)

// mutant breaks the protocol by replacing a pattern in the PTX of kernels. by lists the tests that
// notice the mutant, if the programs do not, or only late. The programs hold locks for long, so
// that lookups meet them, unless swift is set.
type mutant struct {
	name, kernels, pattern, with string
	by                           []mutate.KernelTest
	swift                        bool
}

// Patterns of instructions in the kernels.
const (
	// entry matches a move's write of an entry. It reads the array and stores it.
	fence   = `fence\.acq_rel\.gpu;`
	address = `\s+(?:ld\.param[^;]*;\s+)?(?:mul\.wide|shl)[^;]*;\s+add[^;]*;\s+`
	entry   = fence + `(` + address + `ld\.relaxed\.gpu\.global\.b64 %rd\d+, \[%rd\d+\];[^$]*?)(st\.relaxed\.gpu\.global\.b64 \[%rd\d+\], %rd\d+;)`
	// swap matches the instruction that takes a slot. It compares slot $2 with $3 and stores $4. $1
	// becomes the old content.
	swap = `atom\.relaxed\.gpu\.global\.cas\.b64 (%rd\d+), (\[%rd\d+\]), (%rd\d+), (%rd\d+);`
	// given matches the store that reuses the slot of a key. afterGiven matches the store of an
	// array that follows it.
	given      = fence + address + `st\.relaxed\.gpu\.global\.b64 [^;]*;`
	afterGiven = `\s+\$L__BB\d+_\d+:\s+` + fence + address + `st`
)

// mutants break changes.
var mutants = []mutant{
	{"a move leaves its entry as it was", "evict_32_32", entry, "fence.acq_rel.gpu;$1", nil, false},
	{"a key leaves those that share its entry", "evict_32_32",
		`setp\.ne\.s32 (%p\d+), (%r\d+), 1;(\s+mov\.[^;]*;\s+)`, "setp.ne.s32 $1, $2, $2;$3", only(sharers), false},
	{"a copy stays where it was", "evict_32_32",
		`(add\.s32 %r\d+, %r\d+, -1;\s+fence\.acq_rel\.gpu;\s+add\.s64 [^;]*;\s+)st\.relaxed\.gpu\.global\.b64 [^;]*;(\s+\$L)`, "$1$2", nil, false},
	{"an array takes the slot of a key that has not been copied", "evict_32_32",
		given + `(` + afterGiven + `)`, "$1", only(promoted), false},
	{"an array takes the place of a key that goes nowhere", "evict_32_32", `(?s)^(.*)` + swap + `(.*?` + given + afterGiven + `)`, "$1 mov.b64 $2, $4; $6", nil, false},
	{"a promotion without an entry", "evict_32_32", `or\.b64 (%rd\d+), %rd\d+, (%rd\d+);(\s+bra\.uni)`, "mov.b64 $1, $2;$3", nil, false},
	{"an eviction clears first", "evict_32_32",
		`(?s)(ld\.relaxed\.gpu\.global\.b64 %rd\d+, \[(%rd\d+)\];` + address + `ld\.relaxed\.gpu\.global\.b64 [^;]*;\s+shr\.u64 [^;]*;\s+setp\.ne\.s64 .*?)(atom\.relaxed\.gpu\.global\.cas\.b64)`,
		"$1 st.relaxed.gpu.global.b64 [$2], -1; $3", only(inARow), false},
	{"a lock is lost", "evict_32_32",
		`or\.b32 (%r\d+), (%r\d+), 1;(\s+)atom\.acquire\.gpu\.global\.cas\.b32 (%r\d+), \[(%rd\d+)\], %r\d+, %r\d+;`, "or.b32 $1, $2, 1;$3 mov.b32 $4, $2;", lockTests, false},
	{"a taken lock is taken again", "evict_32_32",
		`and\.b32 (%r\d+), (%r\d+), 1;(\s+setp\.eq\.[bsu]32 (?:%p\d+), %r\d+, 1;\s+mov\.pred)`, "and.b32 $1, $2, 0;$3", lockTests, false},
	{"an eviction copies to a slot that another key has taken", "evict_32_32", swap, "atom.relaxed.gpu.global.exch.b64 $1, $2, $4; mov.b64 $1, $3;", nil, false},
	{"keys go to the wrong one of two twins", "evict_32_32", `shr\.u32 (%r\d+), %r\d+, 31;(\s+xor\.b32)`, "mov.b32 $1, 0;$2", nil, false},
	{"a lookup goes to the wrong one of two twins", "get_32_32", `shr\.u32 (%r\d+), %r\d+, 31;(\s+xor\.b32)`, "mov.b32 $1, 0;$2", nil, false},
	{"keys lose their type bit", "change_32_32", `or\.b32 (%r\d+), (%r\d+), 16;`, "or.b32 $1, $2, 0;", nil, false},
	{"another bit is taken for the type bit", "get_32_32", `bfe\.u32 (%r\d+), (%r\d+), 4, 1;`, "bfe.u32 $1, $2, 5, 1;", nil, false},
	{"reclaiming leaves entries", "reclaim_32_32", `selp\.b64 (%rd\d+), %rd\d+, -1, %p\d+;(\s+and\.b64)`, "mov.b64 $1, -1;$2", nil, false},
	{"reclaiming clears entries that are needed", "reclaim_32_32", `selp\.b64 (%rd\d+), (%rd\d+), -1, %p\d+;(\s+and\.b64)`, "mov.b64 $1, $2;$3", nil, false},
	{"reclaiming brings keys back that find no slot", "reclaim_32_32",
		`(setp\.eq\.s32 )(%p\d+)(, %r\d+, -1;)(\s+@%p\d+ bra \$L__BB\d+_\d+;\s+add\.s32 %r\d+, %r\d+, -1;)`, "${1}$2$3 mov.pred $2, 0;$4", nil, false},
	{"reclaiming leaves buckets without entries of type B", "reclaim_32_32", `selp\.b64 (%rd\d+), -1, (%rd\d+), %p\d+;`, "mov.b64 $1, $2;", only(promoted), false},
}

// sayLate matches code that adds to the number of running moves. late makes both additions at the
// end.
const (
	sayLate = `(?s)^(.*?)atom\.relaxed\.gpu\.global\.add\.u64 (%rd\d+), \[%rd\d+\], %rd\d+;(.*)atom\.relaxed\.gpu\.global\.add\.u64 (%rd\d+), \[(%rd\d+)\], %rd\d+;`
	late    = "$1 mov.b64 $2, 0;$3 { .reg .b64 both; mov.b64 both, 4294967296; atom.relaxed.gpu.global.add.u64 $4, [$5], both; }"
)

// readerMutants break the protocol between lookups and moves.
var readerMutants = []mutant{
	{"a lookup does not ask whether keys move", "get(_wide|_of_eight)?_32_32", `ld\.(?:acquire|relaxed)\.gpu\.global\.b64 (%rd\d+), \[%rd\d+\];`, "mov.b64 $1, 0;", readerTests, false},
	{"lanes of a lookup do not meet", "get(_wide|_of_eight)?_32_32", `bar\.warp\.sync [^;]*;`, "", readerTests, false},
	{"blocks that move keys say so at the end", "evict_32_32", sayLate, late, readerTests, false},
	{"blocks that reclaim say so at the end", "reclaim_32_32", sayLate, late, only(promoted), false},
	{"an entry is written before its item", "evict_32_32", `(?s)^(.*)` + swap + `(.*?)` + entry + `(.*` + entry + `.*` + entry + `)`,
		"$1 mov.b64 $2, $4; $6 $7 $8 atom.relaxed.gpu.global.cas.b64 $2, $3, $4, $5; $9", only(backAndForth), false},
	{"an entry has no fence before it", "evict_32_32", entry, "$1$2", only(backAndForth), false},
	{"an array has no fence before it", "evict_32_32", fence + `(` + address + `st\.relaxed\.gpu\.global\.b64 [^;]*;\s+\$L__BB\d+_\d+:\s+)` + fence + `(` + address + `st\.relaxed\.gpu\.global\.b64 [^;]*;\s+(?:mov|not|or)\.pred)`, "$1$2", only(promoted), false},
	{"a key's slot is given away without a fence", "evict_32_32", fence + `(` + address + `st\.relaxed\.gpu\.global\.b64 [^;]*;` + afterGiven + `)`, "$1", only(promoted), false},
	{"a key comes back without a fence", "reclaim_32_32", fence + `(` + address + `(?:mov\.u64 %rd\d+, -1;\s+)?st\.relaxed)`, "$1", only(promoted), false},
	{"a lookup does not ask whether its key has moved", "get(_of_eight)?_32_32",
		`ld\.relaxed\.gpu\.global\.b32 (%r\d+), \[%rd\d+\];(\s+setp\.ne\.s32 %p\d+, %r\d+, (%r\d+);)`, "mov.b32 $1, $3;$2", only(backAndForth), false},
	{"a lookup does not mind that its key is moving", "get(_of_eight)?_32_32",
		`(ld\.acquire\.gpu\.global\.b32 %r\d+, \[%rd\d+\];\s+\$L__BB\d+_\d+:\s+(?:not\.pred [^;]*;\s+)?)and\.b32 (%r\d+), %r\d+, 1;`, "${1}mov.b32 $2, 0;", only(backAndForth), false},
}

// aside matches the instruction that takes a lock. With it replaced, the kernel of single steps
// finds all locks taken, and leaves all keys to the kernel that searches.
const aside = `atom\.acquire\.gpu\.global\.cas\.b32 (%r\d+), \[%rd\d+\], (%r\d+), %r\d+;`

// stepMutants break the kernel of single steps.
var stepMutants = []mutant{
	{"a step's entry is written before its item", "displace_32_32", `(?s)` + swap + `(\s+setp\.ne\.s64 .*?` + fence + `.*?st\.relaxed\.gpu\.global\.b64 \[%rd\d+\], %rd\d+;)`,
		"mov.b64 $1, $3; $5 atom.relaxed.gpu.global.cas.b64 $1, $2, $3, $4;", only(backAndForth), false},
	{"a step's entry has no fence before it", "displace_32_32", fence + `(\s+@!%p\d+ bra \$L__BB\d+_\d+;\s+bra\.uni \$L__BB\d+_\d+;\s+\$L__BB\d+_\d+:\s+add\.s32)`, "$1", only(backAndForth), false},
	{"a step promotes a bucket without an entry", "displace_32_32", `or\.b64 (%rd\d+), %rd\d+, (%rd\d+);(\s+mul\.wide\.u32)`, "mov.b64 $1, $2;$3", only(promotions), false},
	{"a step takes a lock that another has", "displace_32_32", aside, "mov.b32 $1, $2;", soon(stepTests), false},
	{"a step moves a key that shares its entry", "displace_32_32", `(add\.s32 %r\d+, %r\d+, -1;\s+and\.b32 )(%r\d+)(, %r\d+, %r\d+;\s+)setp\.eq\.s32 (%p\d+), %r\d+, 0;`,
		"$1$2$3 setp.eq.s32 $4, $2, $2;", only(sharers), false},
	{"a step keeps its locks", "displace_32_32", `st\.release\.gpu\.global\.b32 [^;]*;`, "", soon(stepTests), false},
	{"a step copies to a slot that another key has taken", "displace_32_32", swap, "atom.relaxed.gpu.global.exch.b64 $1, $2, $4; mov.b64 $1, $3;", stepTests, false},
}

// roundMutants break changes in buckets of eight slots, which each lane runs by itself.
var roundMutants = []mutant{
	{"an insertion takes a slot that another key has taken", "change_of_eight_32_32", swap, "atom.relaxed.gpu.global.exch.b64 $1, $2, $4; mov.b64 $1, $3;", only(manyOfEach), true},
	{"an insertion does not see that its key has come to the slot that it wanted", "change_of_eight_32_32",
		`(ld\.relaxed\.gpu\.global\.b64 %rd\d+, \[%rd\d+\];\s+\{[^}]*\{[^}]*\}[^}]*\}\s+)setp\.ne\.s32 (%p\d+), [^;]*;(\s+mov\.pred)`, "$1 mov.pred $2, -1;$3", only(manyOfEach), true},
}

// rare has seeds shortly before those that reveal mutants. Only few schedules reveal these mutants.
var rare = map[string]uint64{
	"a copy stays where it was":                               8,
	"an eviction copies to a slot that another key has taken": 19,
	"an entry is written before its item":                     7,
	"an entry has no fence before it":                         20,
	"a key's slot is given away without a fence":              19,
}

// only returns a list with one test, which calls run.
func only(run func(t testing.TB, dev device.Device)) []mutate.KernelTest {
	return []mutate.KernelTest{{Run: run}}
}

// stepTests change many keys in buckets of eight slots at the same time.
var stepTests = []mutate.KernelTest{{Name: "lookups beside steps", Run: lookupsDuringMoves(horton.Options{})}}

// soon returns tests with a smaller budget, which soon notice a lock that is never released.
func soon(tests []mutate.KernelTest) []mutate.KernelTest {
	tests = slices.Clone(tests)
	for i := range tests {
		tests[i].Budget = 1 << 20
	}
	return tests
}

// lockTests soon notice a lock that is never released.
var lockTests = []mutate.KernelTest{{Name: "lookups beside moves", Run: lookupsDuringMoves(horton.Options{Slots: 4}), Budget: 1 << 20}}

// evicting returns programs with many moves and concurrent lookups.
func evicting(reclaim horton.Reclaim) dst.Config[uint32, uint32] {
	cfg := schedules[uint32, uint32](mode{Arch: 90, Options: horton.Options{Slots: 4, MaxLoad: .9, Unordered: true, Reclaim: reclaim}})
	cfg.Shapes, cfg.Seeds = troubles[len(dst.Shapes):len(dst.Shapes)+2], 60
	return cfg
}

// The programs with the default number of schedules, or a test, find every mutant.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range slices.Concat(mutants, readerMutants, stepMutants, roundMutants) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			var trials []mutate.Trial
			if m.by != nil {
				_, trials = mutate.DeviceTrials(90, 240, m.by)
				trials = trials[rare[m.name]:]
			} else {
				reclaim := horton.Never // waiters for a lost lock wait long
				if strings.HasPrefix(m.kernels, "reclaim") {
					reclaim = horton.Eager
				}
				cfg := evicting(reclaim)
				cfg.First = rare[m.name]
				trials = []mutate.Trial{mutate.ScheduleTrial("programs", cfg)}
			}
			broken := mutate.Replace(t, m.kernels, m.pattern, m.with)
			if m.kernels == "evict_32_32" {
				broken = compose(broken, mutate.Replace(t, "displace_32_32", aside, "mov.b32 $1, -1;"))
			}
			if m.by == nil || m.swift {
				mutate.RequireDetected(t, trials, broken)
				return
			}
			slow := mutate.Replace(t, "(displace|evict|reclaim)_32_32", `(fence\.acq_rel\.gpu;|st\.release\.gpu\.global\.b32)`, strings.Repeat("nanosleep.u32 1; ", 8)+"$1")
			mutate.RequireDetected(t, trials, compose(broken, slow))
		})
	}
}

// compose applies two rewrites.
func compose(first, then func(file, ptx string) string) func(file, ptx string) string {
	return func(file, ptx string) string { return then(file, first(file, ptx)) }
}

// The kernel that searches runs all operations that the kernel of single steps leaves, even if that
// is all of them.
func TestSearchesAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	quick, random := mutate.DeviceTrials(90, 1, slices.Concat(moverTests, searchTests))
	if by, how := mutate.FirstFailure(t, slices.Concat(quick, random), mutate.Replace(t, "displace_32_32", aside, "mov.b32 $1, -1;")); by != "" {
		t.Fatalf("%s: %s", by, how)
	}
}
