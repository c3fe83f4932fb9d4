package btree

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/mutate"
)

// mutants lists ways to break the kernels, by replacing every match of a pattern in their PTX.
var mutants = []struct {
	name, kernels, pattern, with string
	shape                        int    // index in [troubles] of the programs; 0: all
	first                        uint64 // first seed to try; earlier ones find nothing
}{
	{"a latch is taken without what was done under it", "change_32_32", `atom\.acquire\.gpu\.global\.cas\.b64`, "atom.relaxed.gpu.global.cas.b64", 0, 0},
	{"a latch that somebody else was faster to take counts as taken", "change_32_32",
		`(atom\.acquire\.gpu\.global\.cas\.b64 (%rd\d+), \[%rd\d+\], (%rd\d+), %rd\d+;)`, "$1 mov.b64 $2, $3;", 0, 0},
	{"a latch is given back without what was done under it", "change_32_32", `st\.release\.gpu\.global\.b64`, "st.relaxed.gpu.global.b64", 0, 0},
	{"a node can be reached before it is written", "change_32_32", `st\.release\.gpu\.global\.b128 \[(%rd\d+)\]`, "st.relaxed.gpu.global.b128 [$1]", 4, 20},
	{"lanes go on to what one of them has found", "(get|change)_32_32", `bar\.warp\.sync [^;]*;`, "", 0, 0},
	{"a leaf is not read again behind its latch", "together_32_32",
		`(bar\.warp\.sync %r\d+;\nnot\.pred[^\n]*\nmov[^\n]*\nor\.pred[^\n]*\nmov[^\n]*\n@[^\n]*\nmov\.u64[^\n]*\natom\.acquire\.gpu\.global\.or\.b64[^\n]*\nand[^\n]*\nsetp[^\n]*\nselp[^\n]*\n` +
			`\$L__BB\d+_\d+:\nbar[^\n]*\nshfl[^\n]*\nfence[^\n]*\nsetp[^\n]*\nand\.pred[^\n]*\n@[^\n]*\n)((?:(?:add|cvta)[^\n]*\n)+\{[^\n]*b128[^\n]*\nadd[^\n]*\n\{[^\n]*b128[^\n]*\n)`, "$2$1", 0, 0},
	{"tiles in step take a latch without what was done under it", "together_32_32", `atom\.acquire\.gpu\.global\.or\.b64`, "atom.relaxed.gpu.global.or.b64", 0, 0},
	{"tiles in step take a latch that is somebody's", "together_32_32", `(atom\.acquire\.gpu\.global\.or\.b64 (%rd\d+), [^\n]*;)`, "$1 mov.b64 $2, 0;", 0, 0},
	{"tiles in step give a latch back without what was done under it", "together_32_32", `st\.release\.gpu\.global\.b64`, "st.relaxed.gpu.global.b64", 0, 0},
	{"a new leaf can be reached before it is written", "together_32_32", `st\.release\.gpu\.global\.b128`, "st.relaxed.gpu.global.b128", 0, 30},
	{"a writer does not read its node again behind the latch", "change_32_32",
		`(mov\.u32 [^\n]*\n@%p\d+ bra [^\n]*\n(?:[a-z][^\n]*\n)*?@%p\d+ bra [^\n]*\nor\.b64[^\n]*\natom\.acquire\.gpu\.global\.cas\.b64[^\n]*\nsetp[^\n]*\n\$L__BB\d+_\d+:\nselp[^\n]*\n\$L__BB\d+_\d+:\n` +
			`bar[^\n]*\nshfl[^\n]*\nsetp[^\n]*\n(?:mov[^\n]*\n)*@%p\d+ bra [^\n]*\n)((?:(?:mul|add|cvta)[^\n]*\n)+\{[^\n]*b128[^\n]*\nadd[^\n]*\n\{[^\n]*b128[^\n]*\n)`, "$2$1", 0, 0},
	{"a leaf is read without an order", "change_32_32", `ld\.acquire\.gpu\.global\.b128`, "ld.relaxed.gpu.global.b128", 0, 0},
}

// TestMutantsAreFound checks that the schedules find each mutant.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			cfg := schedules[uint32, uint32](true)
			cfg.Rewrite = mutate.Replace(t, m.kernels, m.pattern, m.with)
			cfg.NoShrink, cfg.First, cfg.Seeds = true, m.first, 60
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

// growing lists mutants of the kernels that split all leaves and make the new ones children.
var growing = []struct {
	name, kernels, pattern, with string
}{
	{"a new leaf is no child of its parent", "adopt_32_32", `st\.release\.gpu\.global\.b64 \[%rd\d+\], %rd\d+;`, ""},
	{"parents take a latch that is somebody's", "adopt_32_32", `(atom\.acquire\.gpu\.global\.or\.b64 (%rd\d+), [^\n]*;)`, "$1 mov.b64 $2, 0;"},
	{"the half of a parent can be reached before it is written", "adopt_32_32", `st\.release\.gpu\.global\.b128`, "st.relaxed.gpu.global.b128"},
}

// TestLeavesSplitAtOnce splits all leaves of a full tree in one batch, and the full nodes above
// them. Afterward all nodes must be children of their parents.
func TestLeavesSplitAtOnce(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, o := range []Options{{}, {Unordered: true}, {Versions: InPlace, Unordered: true}, {Versions: OutOfPlace}} {
		t.Run(fmt.Sprintf("versions=%d,unordered=%v", o.Versions, o.Unordered), func(t *testing.T) {
			t.Parallel()
			o.Fill = 1
			if err := splitAll(t, 1, nil, &o); err != nil {
				t.Error(err)
			}
		})
	}
	for _, m := range growing {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			rewrite := mutate.Replace(t, m.kernels, m.pattern, m.with)
			for seed := range uint64(60) {
				if err := splitAll(t, seed, rewrite, &Options{Fill: 1}); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("no schedule shows it")
		})
	}
}

// splitAll inserts one key into each leaf of a tree of full nodes, and three more keys into some
// leaves, while a snapshot is open. It checks the tree.
func splitAll(t *testing.T, seed uint64, rewrite func(file, ptx string) string, o *Options) (err error) {
	dev, err := sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed, Rewrite: rewrite, Races: rewrite == nil})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, err := New[uint32, uint32](dev, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	const slots, leaves = 14, 3 * 14
	var keys, inserts []uint32
	for i := range uint32(slots * leaves) {
		keys = append(keys, 100*i)
	}
	for i := range uint32(leaves) {
		inserts = append(inserts, 100*slots*i+550+i)
		if i%4 == 0 {
			inserts = append(inserts, 100*slots*i+50, 100*slots*i+1250, 100*slots*i+1260)
		}
	}
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		return err
	}
	snap, err := m.Snapshot(t.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	if n, err := m.Put(t.Context(), inserts, inserts); err != nil || n != len(inserts) {
		return errors.Join(err, fmt.Errorf("%d of %d keys are new", n, len(inserts)))
	}
	if err := m.Check(t.Context()); err != nil {
		return err
	}
	all, vals := slices.Concat(keys, inserts), make([]uint32, len(keys)+len(inserts))
	if n, err := m.Get(t.Context(), all, vals, nil); err != nil || n != len(all) || !slices.Equal(all, vals) {
		return errors.Join(err, fmt.Errorf("%d of %d keys are found", n, len(all)))
	}
	if n, err := snap.Get(t.Context(), all, vals, nil); err != nil || n != len(keys) {
		return errors.Join(err, fmt.Errorf("a snapshot has %d of %d keys", n, len(keys)))
	}
	return nil
}

// tearing lists mutants with which a reader may see half of a change to a leaf.
var tearing = []struct {
	name, kernels, pattern, with string
	first                        uint64 // first seed to try; earlier ones find nothing
}{
	{"a leaf is read without looking at its state before", "get_32_32", afterFirst, "ld.relaxed.gpu.global.b64 $4, $5; mov.b64 $1, $4;", 0},
	{"a leaf is read without looking at its state again", "get_32_32", afterFirst, "or.b64 $1, $2, $3; mov.b64 $4, $1;", 53},
}

// afterFirst matches the place where a lane gets the first state from another lane ($1) and reads
// the state again ($4).
const afterFirst = `or\.b64 (%rd\d+), (%rd\d+), (%rd\d+);\nld\.relaxed\.gpu\.global\.b64 (%rd\d+), (\[%rd\d+\]);`

// TestShiftsHideNoKey looks up keys while changes shift them from slot to slot. All must be found.
// Without either read of the state, some schedule must hide a key.
func TestShiftsHideNoKey(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
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
			for seed := m.first; seed < m.first+400; seed++ {
				if missed := shift(t, seed, rewrite); missed != 0 {
					t.Logf("seed %d: %d lookups have missed keys that are there", seed, missed)
					return
				}
			}
			t.Error("no schedule hides a key")
		})
	}
}

// shift looks up keys in some leaves while smaller keys of these leaves change. It returns the
// number of keys that it misses.
func shift(t *testing.T, seed uint64, rewrite func(file, ptx string) string) (missed int) {
	dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: seed, Rewrite: rewrite})
	m, err := New[uint32, uint32](dev, &Options{Unordered: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const leaves, each = 8, 8 // of each hundred, eight keys stay and are shifted by smaller ones
	var keys, changedKeys []uint32
	for i := range uint32(leaves * each) {
		keys = append(keys, 100*(i/each+1)+50+i%each)
		changedKeys = append(changedKeys, 100*(i/each+1)+i%3)
	}
	if _, err := m.Put(t.Context(), keys, keys); err != nil {
		t.Fatal(err)
	}
	writer, reader := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
	asked, changed := devicetest.Upload(t, reader, keys), devicetest.Upload(t, writer, changedKeys)
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

// TestUnlockBeforeLinkIsFound releases a parent's latch before the parent has the new child. If
// leaves below it split at the same time, some schedule of ascending keys must lose a child.
func TestUnlockBeforeLinkIsFound(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	rewrite := mutate.Replace(t, "change_32_32",
		`(st\.release\.gpu\.global\.b64 \[%rd\d+\], %rd\d+;)(\n(?:\$L__BB\d+_\d+:\n)?bar\.warp\.sync %r\d+;\n@%p\d+ bra \$L__BB\d+_\d+;\n(?:[a-z][^\n]*\n)*?)(st\.release\.gpu\.global\.b64 \[%rd\d+\], %rd\d+;)`,
		"$2$3\n$1")
	for seed := uint64(77); seed < 345; seed++ { // earlier seeds find nothing
		if err := ascend(t, seed, rewrite); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("no schedule loses a child")
}

// ascend inserts ascending keys in one batch, and checks the tree.
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
