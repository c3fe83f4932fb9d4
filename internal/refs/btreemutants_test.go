package refs

import (
	"testing"

	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/mutate"
)

// versionMutants lists ways to break versions and their reclamation, by replacing a pattern in the
// PTX of the tile kernel. launches and repeat make ranges last long enough to show the fault.
var versionMutants = []struct {
	name, pattern, with string
	launches, repeat    int
	first               uint64 // first seed that finds the mutant
}{
	{"no write gets its time", `(fence\.sc\.gpu;\n(?:ld\.param[^\n]*\n)?ld\.relaxed\.gpu\.global\.b64 (%rd\d+), [^\n]*\n(?:(?:shl|add)[^\n]*\n)*)atom\.relaxed\.gpu\.global\.cas\.b64 (%rd\d+), \[%rd\d+\], (%rd\d+), %rd\d+;`,
		"$1 mov.b64 $3, $4;", 1, 1, 0},
	{"a write reads the clock before it can be seen", `fence\.sc\.gpu;(\n(?:ld\.param[^\n]*\n)?ld\.relaxed\.gpu\.global\.b64 %rd\d+, [^\n]*\n(?:(?:shl|add)[^\n]*\n)*atom\.relaxed)`, "$1", 1, 1, 130},
	{"the clock stands", `(add\.s64 (%rd\d+), (%rd\d+), 1;\natom\.relaxed\.gpu\.global\.cas\.b64 %rd\d+, \[%rd\d+\], %rd\d+, )%rd\d+;(\nfence\.sc)`, "$1$3;$4", 1, 1, 0},
	{"a snapshot reads before its time can be seen", `(add\.s64 (%rd\d+), %rd\d+, 1;\natom\.relaxed\.gpu\.global\.cas\.b64 %rd\d+, \[%rd\d+\], %rd\d+, %rd\d+;\n)fence\.sc\.gpu;`, "$1", 1, 1, 30},
	{"copies are free at once", `sub\.s64 (%rd\d+), (%rd\d+), (%rd\d+);(\s+)min\.u64 (%rd\d+), %rd\d+, 3;`, "sub.s64 $1, $2, $3;${4}mov.b64 $5, 3;", 3, 12, 0},
	{"a reader is in a node that is used again", `(bar\.red\.popc\.u32 (%r\d+), 0, p; \})`, "$1 mov.b32 $2, 0;", 3, 12, 0},
}

// Schedules of races between ranges and changes detect each version mutant.
func TestVersionMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const most = 120
	for _, m := range versionMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			rewrite := mutate.Replace(t, "btree_versioned_32_32", m.pattern, m.with)
			for seed := m.first; seed < m.first+most; seed++ {
				o := sim.Schedule(seed)
				o.Rewrite, o.Budget = rewrite, 1<<23
				if err := race(t, o, m.launches, m.repeat, false); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("not found by %d schedules", most)
		})
	}
}
