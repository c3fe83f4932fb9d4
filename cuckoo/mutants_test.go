package cuckoo_test

import (
	"testing"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
)

// A mutant is a way to break the protocol: the PTX of kernels with a pattern replaced.
type mutant struct{ name, kernels, pattern, with string }

// mutants break evictions.
var mutants = []mutant{
	{"an eviction clears first", "evict_32_32",
		`(?s)(ld\.relaxed\.gpu\.global\.b64 %rd\d+, \[(%rd\d+)\];\s+mul\.[^;]*;\s+add\.[^;]*;\s+ld\.relaxed\.gpu\.global\.b64 [^;]*;\s+shr\.u64 [^;]*;\s+setp\.ne\.s64 .*?)(atom\.relaxed\.gpu\.global\.cas\.b64)`,
		"$1 st.relaxed.gpu.global.b64 [$2], -4294967300; nanosleep.u32 1; nanosleep.u32 1; nanosleep.u32 1; nanosleep.u32 1; $3"},
	{"a lock is lost", "evict_32_32",
		`or\.b32 (%r\d+), (%r\d+), 1;(\s+)atom\.acquire\.gpu\.global\.cas\.b32 (%r\d+), \[(%rd\d+)\], %r\d+, %r\d+;`, "or.b32 $1, $2, 1;$3 mov.b32 $4, $2;"},
	{"a taken lock is taken again", "evict_32_32",
		`and\.b32 (%r\d+), (%r\d+), 1;(\s+setp\.eq\.[bsu]32 (?:%p\d+), %r\d+, 1;\s+mov\.pred)`, "and.b32 $1, $2, 0;$3"},
}

// readerMutants break lookups beside evictions.
var readerMutants = []mutant{
	{"a lookup does not ask whether keys move", "get(_wide|_of_eight|_all)?_32_32",
		`ld\.(?:acquire|relaxed)\.gpu\.global\.b64 (%rd\d+), \[%rd\d+\];`, "mov.b64 $1, 0;"},
	{"a move has no fence before it clears", "evict_32_32", `fence\.acq_rel\.gpu;(\s+st\.relaxed\.gpu\.global\.b64)`, "$1"},
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

// lockMutants break what a lookup does that has missed its key while keys moved.
var lockMutants = []mutant{
	{"a lookup does not ask whether its key has moved", "get(_all)?_32_32",
		`ld\.relaxed\.gpu\.global\.b32 (%r\d+), \[%rd\d+\];(\s+setp\.ne\.s32 %p\d+, %r\d+, (%r\d+);)`, "mov.b32 $1, $3;$2"},
	{"a lookup does not mind that its key is moving", "get(_all)?_32_32",
		`(ld\.acquire\.gpu\.global\.b32 %r\d+, \[%rd\d+\];\s+\$L__BB\d+_\d+:\s+(?:not\.pred [^;]*;\s+)?)and\.b32 (%r\d+), %r\d+, 1;`, "${1}mov.b32 $2, 0;"},
}

// evicting are programs with many evictions, and lookups beside them.
func evicting() dst.Config[uint32, uint32] {
	cfg := schedules[uint32, uint32](mode{Arch: 90, Options: cuckoo.Options{Slots: 4, MaxLoad: .95, Unordered: true}})
	cfg.Shapes, cfg.Seeds = troubles[len(dst.Shapes):len(dst.Shapes)+2], 400
	return cfg
}

// The default number of schedules finds every one of the mutants of evictions.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			cfg := evicting()
			cfg.Rewrite, cfg.Whole = mutate.Replace(t, m.kernels, m.pattern, m.with), true
			f, tried := dst.Find(cfg)
			if f == nil {
				t.Fatalf("not found by %v", tried)
			}
			t.Logf("found by program %d: %v", tried.Programs, f.Err)
		})
	}
}
