package linear_test

import (
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
)

// mutant breaks the protocol of the kernels. It replaces a pattern in the PTX wherever the pattern
// occurs.
type mutant struct {
	name    string
	mode    mode
	widths  string
	pattern string
	with    string
}

const (
	cas128 = `mov\.b128 w, \{(%rd\d+), (%rd\d+)\}; mov\.b128 t, \{(%rd\d+), (%rd\d+)\}; ` +
		`atom\.relaxed\.gpu\.global\.cas\.b128 o, \[(%rd\d+)\], w, t; mov\.b128 \{(%rd\d+), (%rd\d+)\}, o;`
	cas64   = `atom\.relaxed\.gpu\.global\.cas\.b64 (%rd\d+), \[(%rd\d+)\], (%rd\d+), (%rd\d+);`
	load128 = `ld\.relaxed\.gpu\.global\.b128 t, \[(%rd\d+)\]; mov\.b128 \{(%rd\d+), (%rd\d+)\}, t;`
	store   = `mov\.b128 t, \{(%rd\d+), (%rd\d+)\}; st\.relaxed\.gpu\.global\.b128 \[(%rd\d+)\], t;`
	add64   = `(?m)^\s*atom\.relaxed\.gpu\.global\.add\.u64 (%rd\d+), \[(%rd\d+)\], (%rd\d+);`
)

var mutants = []mutant{
	{"a pair is read in two halves", mode{arch: 90}, "64,64", load128,
		"ld.relaxed.gpu.global.b64 $2, [$1]; ld.relaxed.gpu.global.b64 $3, [$1+8];"},
	{"a pair is written without compare and swap", mode{arch: 90}, "64,64", cas128,
		"mov.b128 t, {$3, $4}; ld.relaxed.gpu.global.b128 o, [$5]; st.relaxed.gpu.global.b128 [$5], t; mov.b128 {$6, $7}, o;"},
	{"the key is published before the value", mode{arch: 90}, "64,64", cas128,
		"atom.relaxed.gpu.global.cas.b64 $7, [$5+8], $2, $4; st.relaxed.gpu.global.b64 [$5], $3; mov.b64 $6, $1;"},
	{"a lost compare and swap of a pair counts as won", mode{arch: 90}, "64,64", cas128,
		"mov.b128 w, {$1, $2}; mov.b128 t, {$3, $4}; atom.relaxed.gpu.global.cas.b128 o, [$5], w, t; mov.b128 {$6, $7}, w;"},
	{"a lost compare and swap counts as won", mode{arch: 90}, "32,32", cas64,
		"atom.relaxed.gpu.global.cas.b64 $1, [$2], $3, $4; mov.b64 $1, $3;"},
	{"a slot is taken by an exchange", mode{arch: 90}, "32,32", cas64,
		"atom.relaxed.gpu.global.exch.b64 $1, [$2], $4;"},
	{"a pending pair is published in two stores", mode{arch: 80}, "64,64", store,
		"st.relaxed.gpu.global.b64 [$3+8], $2; st.relaxed.gpu.global.b64 [$3], $1;"},
	{"a pair is taken without looking at who holds it", mode{arch: 80}, "64,64", cas64,
		"ld.relaxed.gpu.global.b64 $1, [$2]; st.relaxed.gpu.global.b64 [$2], $4; mov.b64 $1, $3;"},
	{"keys are counted without atomics", mode{arch: 90}, "32,32", add64,
		"{ .reg .b64 t; ld.relaxed.gpu.global.u64 $1, [$2]; add.u64 t, $1, $3; st.relaxed.gpu.global.u64 [$2], t; }"},
	{"the flags of duplicates are moved by weak accesses", mode{arch: 90}, "32,32", `(ld|st)\.relaxed\.gpu\.global\.u8`,
		"$1.global.u8"},
	{"a slot is read by a weak load", mode{arch: 80}, "64,64", load128,
		"ld.global.v2.b64 {$2, $3}, [$1];"},
	{"after a lost compare and swap the slot is not read again", mode{arch: 90}, "32,32", cas64,
		"{ .reg .pred q; .reg .b64 o, t; atom.relaxed.gpu.global.cas.b64 o, [$2], $3, $4; mov.b64 t, o; setp.ne.b64 q, o, $3; " +
			"@q atom.relaxed.gpu.global.cas.b64 t, [$2], o, $4; setp.eq.b64 q, t, o; selp.b64 $1, $3, t, q; }"},
	{"a path leaves the table by a line before it wraps", mode{arch: 90}, "32,32",
		`setp\.lt\.u32 (%p\d+, %r\d+, %r\d+;\s+(?:setp\.eq\.s32 [^;]*;\s+)?selp\.b32 %r\d+, 0, %r\d+, %p\d+;\s+selp)`, "setp.le.u32 $1"},
	{"a vote of the next tile counts", mode{arch: 90}, "32,32", `and\.b32 (%r\d+), (%r\d+), 3;`, "and.b32 $1, $2, 7;"},
	{"the last lane of a tile has no vote", mode{arch: 90}, "32,32", `and\.b32 (%r\d+), (%r\d+), 3;`, "and.b32 $1, $2, 1;"},
	{"the rank of a key is the last one offered", mode{arch: 90}, "32,32", `red\.relaxed\.gpu\.global\.(?:min|max)\.u32`,
		"st.relaxed.gpu.global.u32"},
}

// reduceMutants are mutants that lose combined values.
var reduceMutants = []mutant{
	{"a sum is stored without compare and swap", mode{arch: 90}, "32,32", cas64,
		"ld.relaxed.gpu.global.b64 $1, [$2]; st.relaxed.gpu.global.b64 [$2], $4; mov.b64 $1, $3;"},
	{"a sum goes to a key that dies", mode{arch: 90}, "32,32", cas64,
		"atom.relaxed.gpu.global.cas.b64 $1, [$2], $3, $4; mov.b64 $1, $3;"},
	{"a pair is combined by who does not hold it", mode{arch: 80}, "64,64", cas64,
		"ld.relaxed.gpu.global.b64 $1, [$2]; st.relaxed.gpu.global.b64 [$2], $4; mov.b64 $1, $3;"},
}

// Programs of dst must detect every mutant within the default number of schedules. No mutant
// removes a fence, because the kernels have none: all accesses to the table are relaxed. Since a
// slot is one word, no order is needed; linear.cu explains why.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	findAll(t, mutants, schedules[uint32, uint32], schedules[uint64, uint64])
	findAll(t, reduceMutants, func(m mode) dst.Config[uint32, uint32] {
		return schedules[uint32, uint32](m).Reducing()
	},
		func(m mode) dst.Config[uint64, uint64] {
			return schedules[uint64, uint64](m).Reducing()
		})
}

func findAll(t *testing.T, mutants []mutant, narrow func(mode) dst.Config[uint32, uint32], wide func(mode) dst.Config[uint64, uint64]) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			rewrite := mutate.Replace(t, ".*", m.pattern, m.with)
			if m.widths == "32,32" {
				find(t, narrow(m.mode), rewrite)
			} else {
				find(t, wide(m.mode), rewrite)
			}
		})
	}
}

func find[K weft.Key, V weft.Value](t *testing.T, cfg dst.Config[K, V], rewrite func(file, ptx string) string) {
	cfg.Rewrite, cfg.NoShrink = rewrite, true
	f, tried := dst.Find(cfg)
	if f == nil {
		t.Fatalf("not found by %v", tried)
	}
	t.Logf("found by program %d: %v", tried.Programs, f.Err)
}

// Kernel tests must detect mutants that programs of dst cannot detect. Such mutants concern outputs
// and counts after overflow, batches without optional columns, and statistics.
func TestMutantsFailKernelTests(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range []struct{ name, kernels, pattern, with string }{
		{"a rehash does not count the keys without room", "rehash_32_32", `atom\.relaxed\.gpu\.global\.add\.u32 [^;]*;`, ""},
		{"a rehash in place does not count what it drops", "in_place_32_32", `(red|atom)\.relaxed\.gpu\.global\.add\.u64 [^;]*;`, ""},
		{"a rehash in place does not wait for its lanes", "in_place_32_32", `bar\.warp\.sync [^;]*;`, ""},
		{"a segment has no border", "borders_32_32", `st\.relaxed\.gpu\.global\.b32 (\[%rd\d+\]), %r\d+;`, "st.relaxed.gpu.global.b32 $1, -1;"},
		{"the list of operations without room is not written", "change(_wide)?_32_32", `(?s)(.*)st\.global\.u32 [^;]*;`, "$1;"},
		{"operations without room are counted by each block for itself", "change(_wide)?_32_32", `atom\.relaxed\.gpu(\.global\.add\.u32)`, "atom.relaxed.cta$1"},
		{"flags are written where there is no column of them", "change(_wide)?_32_32",
			`@%p\d+ bra \$\w+;(\s+setp[^@]*?st\.global\.cs\.u8)`, "$1"},
		{"the longest path is the shortest", "stats_32_32", `max\.u32`, "min.u32"},
		{"the longest path is that of one block", "stats_32_32", `red\.relaxed\.gpu\.global\.max\.u32`, "st.global.u32"},
		{"a table is as large as a path is long", "get(_wide)?_32_32", `(ld\.param\.u32 %r\d+, \[%rd\d+)\+24\]`, "$1+28]"},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			quick, random := mutate.DeviceTrials(90, 1, kernelTests[uint32, uint32](false))
			mutate.RequireDetected(t, slices.Concat(random, quick), mutate.Replace(t, m.kernels, m.pattern, m.with))
		})
	}
}
