package btree

import (
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
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
	{"a leaf is not read again behind its latch", "together_32_32",
		`(bar\.warp\.sync %r\d+;\nnot\.pred[^\n]*\nmov[^\n]*\nor\.pred[^\n]*\nmov[^\n]*\n@[^\n]*\nmov\.u64[^\n]*\natom\.acquire\.gpu\.global\.or\.b64[^\n]*\nand[^\n]*\nsetp[^\n]*\nselp[^\n]*\n` +
			`\$L__BB\d+_\d+:\nbar[^\n]*\nshfl[^\n]*\n)((?:(?:add|cvta)[^\n]*\n)+\{[^\n]*b128[^\n]*\nadd[^\n]*\n\{[^\n]*b128[^\n]*\n)`, "$2$1", 0, 0},
	{"tiles in step take a latch without what was done under it", "together_32_32", `atom\.acquire\.gpu\.global\.or\.b64`, "atom.relaxed.gpu.global.or.b64", 0, 0},
	{"tiles in step take a latch that is somebody's", "together_32_32", `(atom\.acquire\.gpu\.global\.or\.b64 (%rd\d+), [^\n]*;)`, "$1 mov.b64 $2, 0;", 0, 0},
	{"tiles in step give a latch back without what was done under it", "together_32_32", `st\.release\.gpu\.global\.b64`, "st.relaxed.gpu.global.b64", 0, 0},
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
	name, kernels, pattern, with string
}{
	{"a leaf is read without looking at its state before", "get_32_32", `(?s)ld\.acquire\.gpu\.global\.b64 (%rd\d+), (\[%rd\d+\];)(.*?)ld\.relaxed\.gpu\.global\.b64 (%rd\d+), \[%rd\d+\];`,
		"mov.b64 $1, 0;${3}ld.relaxed.gpu.global.b64 $4, $2 mov.b64 $1, $4;"},
	{"a leaf is read without looking at its state again", "get_32_32", `(?s)(ld\.acquire\.gpu\.global\.b64 (%rd\d+), \[%rd\d+\];.*?)ld\.relaxed\.gpu\.global\.b64 (%rd\d+), \[%rd\d+\];`,
		"${1}mov.b64 $3, $2;"},
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
			rewrite := mutate.Replace(t, m.kernels, m.pattern, m.with)
			for seed := range uint64(400) {
				if missed := shift(t, seed, rewrite); missed != 0 {
					t.Logf("seed %d: %d lookups have missed keys that are there", seed, missed)
					return
				}
			}
			t.Error("no schedule hides a key")
		})
	}
}

// shift looks keys of some leaves up beside changes of smaller ones, and returns how many it misses.
func shift(t *testing.T, seed uint64, rewrite func(file, ptx string) string) (missed int) {
	dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: seed, Rewrite: rewrite})
	m, err := New[uint32, uint32](dev, &Options{Unordered: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const leaves, each = 8, 8 // of each hundred, eight keys stay, which smaller ones shift
	var keys, other []uint32
	for i := range uint32(leaves * each) {
		keys = append(keys, 100*(i/each+1)+50+i%each)
		other = append(other, 100*(i/each+1)+i%3)
	}
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	writer, reader := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
	asked, changed := devicetest.Upload(t, reader, keys), devicetest.Upload(t, writer, other)
	vals := devicetest.Upload(t, reader, make([]uint32, len(keys)))
	var found [4]device.Slice[bool]
	for i := range found {
		found[i] = devicetest.Upload(t, reader, make([]bool, len(keys)))
		err := errors.Join(m.PutOn(writer, changed, changed), m.GetOn(reader, asked, vals, found[i]),
			m.DeleteOn(writer, changed, device.Slice[bool]{}))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writer.Sync(t.Context()), reader.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	for i := range found {
		host := make([]bool, len(keys))
		if err := found[i].CopyTo(t.Context(), reader, host); err != nil {
			t.Fatal(err)
		}
		for _, there := range host {
			if !there {
				missed++
			}
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
