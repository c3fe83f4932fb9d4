package stack

import (
	"testing"

	"github.com/weftgo/weft/internal/mutate"
)

// mutants lists mutants of reclamation. Each replaces a pattern in the PTX of kernels.
var mutants = []struct{ name, kernels, pattern, with string }{
	{"a block frees its nodes one epoch early", "run", `sub\.s64 (%rd\d+), (%rd\d+), (%rd\d+);(\s+)min\.u64 (%rd\d+), %rd\d+, 3;`,
		"sub.s64 $1, $2, $3;${4}add.s64 $1, $1, 1;${4}min.u64 $5, $1, 3;"},
	{"nodes in device memory are freed one epoch early", "run", `add\.s64 (%rd\d+), (%rd\d+), 5;(\s+and\.b64 %rd\d+, %rd\d+, 7;)`, "add.s64 $1, $2, 6;$3"},
	{"a group reads before its announcement", "run", `fence\.sc\.gpu;`, ""},
	{"announcements and reads have no common order", "run", `fence\.sc\.gpu;`, "fence.acq_rel.gpu;"},
	{"the epoch is not read again behind the announcement", "run", `(fence\.sc\.gpu;\s+)ld\.relaxed\.gpu\.global\.b64 (%rd\d+), \[%rd\d+\];(\s+setp\.eq\.s64 %p\d+, )(%rd\d+), %rd\d+;`,
		"$1 mov.b64 $2, $4;$3$4, $2;"},
	{"the first slot is not looked at", "run", `(ld\.shared\.u32 (%r\d+), \[\w+\+16\];\s+mov\.u32 (%r\d+), %tid\.x;\s+add\.s32 (%r\d+), %r\d+, %r\d+;)`, "$1 add.s32 $4, $4, 1;"},
	{"no announcement is looked at", "run", `(bar\.red\.popc\.u32 (%r\d+), 0, p; \})`, "$1 mov.b32 $2, 0;"},
	{"who looks has not seen what groups did", "run", `ld\.acquire\.gpu\.global\.b64 (%rd\d+), (\[%rd\d+\];\s+\$L)`, "ld.relaxed.gpu.global.b64 $1, $2"},
	{"what was before an announcement may come behind it", "run", `st\.release\.gpu\.global\.b64`, "st.relaxed.gpu.global.b64"},
	{"an epoch begins without what was before it", "run", `atom\.acq_rel\.gpu\.global\.cas\.b64`, "atom.relaxed.gpu.global.cas.b64"},
	{"nodes are pushed without their links", "run", `atom\.release\.gpu\.global\.cas\.b32 (%r\d+), \[(%rd\d+)\]`, "atom.relaxed.gpu.global.cas.b32 $1, [$2]"},
	{"a block leaves without its nodes", "run", `(st\.global\.v2\.u32 \[%rd\d+\+8\], \{%r\d+, )(%r\d+)\};`, "mov.b32 $2, 0; $1$2};"},
	{"a block takes what has been left in its slot without an order", "run", `atom\.acquire\.gpu\.global\.cas\.b64`, "atom.relaxed.gpu.global.cas.b64"},
	{"what shared memory has no room for is lost", "run", `setp\.gt\.u32 (%p\d+), (%r\d+), 1;`, "setp.gt.u32 $1, $2, 2;"},
	{"what pins kept is not freed", "collect", `st\.release\.gpu\.global\.b32`, "ld.global.u32 %r1, [%rd1]; //"},
}

// rare lists the mutants that few schedules detect, with the first seed to try. Earlier seeds
// detect nothing.
var rare = map[string]uint64{
	"announcements and reads have no common order":     2900,
	"an epoch begins without what was before it":       4750,
	"nodes in device memory are freed one epoch early": 450,
}

// TestMutantsAreFound checks that the schedules detect each mutant.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const most = 400
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			rewrite := mutate.Replace(t, m.kernels, m.pattern, m.with)
			for i := range uint64(most) {
				seed := rare[m.name] + i
				if _, _, err := program(t.Context(), seed, rewrite); err != nil {
					t.Logf("found by program %d: %v", seed, err)
					return
				}
			}
			t.Errorf("not found by %d programs", most)
		})
	}
}
