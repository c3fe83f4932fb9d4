package btree

import (
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
)

// mutants are ways to break the kernels: their PTX with a pattern replaced wherever it occurs.
var mutants = []struct {
	name, kernels, pattern, with string
	shape                        int    // of the programs, of [troubles]; 0: all
	first                        uint64 // seed: those before are in vain
}{
	{"a latch is taken without what was done under it", "change_32_32", `atom\.acquire\.gpu\.global\.cas\.b64`, "atom.relaxed.gpu.global.cas.b64", 0, 0},
	{"a latch that somebody else was faster to take counts as taken", "change_32_32",
		`(atom\.acquire\.gpu\.global\.cas\.b64 (%rd\d+), \[%rd\d+\], (%rd\d+), %rd\d+;)`, "$1 mov.b64 $2, $3;", 0, 0},
	{"a latch is given back without what was done under it", "change_32_32", `st\.release\.gpu\.global\.b64`, "st.relaxed.gpu.global.b64", 0, 0},
	{"a node can be reached before it is written", "change_32_32", `st\.release\.gpu\.global\.b128 \[(%rd\d+)\]`, "st.relaxed.gpu.global.b128 [$1]", 4, 15},
	{"lanes go on to what one of them has found", "(get|change)_32_32", `bar\.warp\.sync [^;]*;`, "", 0, 0},
	{"a leaf is not read again behind its latch", "change_32_32",
		`(bar\.warp\.sync %r\d+;\nmov\.b32 %r\d+, 0;\nmov\.u32 %r\d+, %r\d+;\n@[^\n]*\ncvta[^\n]*\nadd[^\n]*\nld\.relaxed[^\n]*\nand[^\n]*\nsetp[^\n]*\nmov[^\n]*\n@[^\n]*\nor[^\n]*\n` +
			`atom\.acquire[^\n]*\nsetp[^\n]*\nselp[^\n]*\n\$L__BB\d+_\d+:\nbar[^\n]*\nshfl[^\n]*\nsetp[^\n]*\n@[^\n]*\n)(\{[^\n]*b128[^\n]*\n\{[^\n]*b128[^\n]*\n)`, "$2$1", 0, 0},
	{"a leaf is read without an order", "change_32_32", `ld\.acquire\.gpu\.global\.b128`, "ld.relaxed.gpu.global.b128", 0, 0},
}

// The schedules find each of them.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			cfg := schedules[uint32, uint32](true)
			cfg.Rewrite = mutate.Replace(t, m.kernels, m.pattern, m.with)
			cfg.Whole, cfg.First, cfg.Seeds = true, m.first, 60
			if m.shape != 0 {
				cfg.Shapes = troubles[m.shape : m.shape+1]
			}
			f, tried := dst.Find(cfg)
			if f == nil {
				t.Fatalf("not found by %v", tried)
			}
			t.Logf("found by program %d: %v", tried.Programs, f.Err)
		})
	}
}

// tearing are mutants that show halves of a change of a leaf.
var tearing = []struct {
	name, pattern, with string
	first               uint64 // seed: those before are in vain
}{
	{"a leaf is read without looking at its state before", `(?s)ld\.acquire\.gpu\.global\.b64 (%rd\d+), (\[%rd\d+\];)(.*?)ld\.relaxed\.gpu\.global\.b64 (%rd\d+), \[%rd\d+\];`,
		"mov.b64 $1, 0;${3}ld.relaxed.gpu.global.b64 $4, $2 mov.b64 $1, $4;", 0},
	{"a leaf is read without looking at its state again", `(?s)(ld\.acquire\.gpu\.global\.b64 (%rd\d+), \[%rd\d+\];.*?)ld\.relaxed\.gpu\.global\.b64 (%rd\d+), \[%rd\d+\];`,
		"${1}mov.b64 $3, $2;", 200},
}

// A key that is there is found, while others shift it from slot to slot. Without the state before
// and behind, some schedule hides it.
func TestShiftsHideNoKey(t *testing.T) {
	conformance.NotRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for seed := range uint64(3) {
		if missed := shift(t, seed, nil); missed != 0 {
			t.Errorf("seed %d: %d lookups have missed keys that are there", seed, missed)
		}
	}
	for _, m := range tearing {
		t.Run(m.name, func(t *testing.T) {
			rewrite := mutate.Replace(t, "change_32_32", m.pattern, m.with)
			for seed := m.first; seed < m.first+400; seed++ { // one in 15 to 40 hides a key; other code moves them
				if missed := shift(t, seed, rewrite); missed != 0 {
					t.Logf("seed %d: %d lookups have missed keys that are there", seed, missed)
					return
				}
			}
			t.Error("no schedule hides a key")
		})
	}
}

// shift looks keys of a leaf up beside changes of smaller ones, and returns how many it misses.
func shift(t *testing.T, seed uint64, rewrite func(file, ptx string) string) (missed int) {
	dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: seed, Rewrite: rewrite})
	m, err := New[uint32, uint32](dev, &Options{Unordered: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keys := []uint32{10, 20, 30, 40, 50, 60, 70, 80}
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	ops, res := make([]weft.Op[uint32, uint32], 120), make([]weft.Result[uint32], 120)
	for i := range ops {
		switch i % 3 {
		case 0:
			ops[i] = weft.Op[uint32, uint32]{Kind: weft.OpGet, Key: keys[i%len(keys)]}
		case 1:
			ops[i] = weft.Op[uint32, uint32]{Kind: weft.OpPut, Key: uint32(i % 5)}
		default:
			ops[i] = weft.Op[uint32, uint32]{Kind: weft.OpDelete, Key: uint32(i % 5)}
		}
	}
	if err := m.Apply(t.Context(), ops, res); err != nil {
		t.Fatal(err)
	}
	for i, r := range res {
		if i%3 == 0 && (!r.OK || r.Value != ops[i].Key) {
			missed++
		}
	}
	return missed
}

// A parent's latch that is given back before it has the new child loses one, when leaves below it split at
// once: some schedule of ascending keys does that.
func TestUnlockBeforeLinkIsFound(t *testing.T) {
	conformance.NotRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	rewrite := mutate.Replace(t, "change_32_32",
		`(st\.release\.gpu\.global\.b64 \[%rd\d+\], %rd\d+;)(\n(?:\$L__BB\d+_\d+:\n)?bar\.warp\.sync %r\d+;\n@%p\d+ bra \$L__BB\d+_\d+;\n(?:[a-z][^\n]*\n)*?)(st\.release\.gpu\.global\.b64 \[%rd\d+\], %rd\d+;)`,
		"$2$3\n$1")
	for seed := uint64(45); seed < 345; seed++ { // those before are in vain
		if err := ascend(t, seed, rewrite); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("no schedule loses a child")
}

// ascend inserts ascending keys all at once, and checks the tree.
func ascend(t *testing.T, seed uint64, rewrite func(file, ptx string) string) error {
	dev, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed, Rewrite: rewrite})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, err := New[uint32, uint32](dev, &Options{Unordered: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keys := conformance.Sequence[uint32](0, 150)
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		return err
	}
	return m.Check(t.Context())
}
