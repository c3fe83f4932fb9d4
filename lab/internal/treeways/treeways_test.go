package treeways

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
)

// keysOf returns distinct keys, in an order of a seed, or ascending, so that all tiles need the
// same leaf.
func keysOf(n int, seed uint64) []uint32 {
	keys := conformance.Sequence[uint32](1, n)
	if seed%3 != 0 {
		g := rand.New(rand.NewPCG(seed, 1))
		g.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	}
	return keys
}

// run inserts keys by one way and deletes half of them by another, under the schedule of a seed. It
// returns the first error. A negative erase means no deletions.
func run(t *testing.T, insert, erase Way, n int, seed uint64, rewrite func(file, ptx string) string) (err error) {
	t.Helper()
	opts := sim.Options{Scheduler: sim.Random, Seed: seed, Races: true, Rewrite: rewrite, Budget: 1 << 22}
	dev, err := sim.Open(&opts)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := btree.New[uint32, uint32](dev, &btree.Options{Unordered: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	k, err := Open(dev)
	if err != nil {
		t.Fatal(err)
	}
	keys := keysOf(n, seed)
	in, err := device.Upload(s, keys)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Free()
	err = k.Insert(t.Context(), s, m, insert, in, in)
	if err == nil {
		err = check(t, m, keys, keys)
	}
	if err == nil && erase >= 0 {
		if err = k.Erase(t.Context(), s, m, erase, in.Sub(0, n/2)); err == nil {
			err = check(t, m, keys, keys[n/2:])
		}
	}
	return errors.Join(err, s.Sync(t.Context()))
}

var errContent = errors.New("the content is wrong")

// check requires exactly some keys in a map, with themselves as values.
func check(t *testing.T, m *btree.Map[uint32, uint32], all, want []uint32) error {
	if err := errors.Join(m.Sync(t.Context()), m.Check(t.Context())); err != nil {
		return err
	}
	vals, found := make([]uint32, len(all)), make([]bool, len(all))
	hits, err := m.Get(t.Context(), all, vals, found)
	if err != nil {
		return err
	}
	if hits != len(want) || m.Len() != len(want) {
		return errContent
	}
	for i, k := range all {
		if found[i] != slices.Contains(want, k) || found[i] && vals[i] != k {
			return errContent
		}
	}
	return nil
}

// Under every schedule, each way leaves a valid tree with all keys, beginning with an empty one.
func TestWays(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	for _, way := range Inserts {
		t.Run(way.String(), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3) {
				if err := run(t, way, Erases[seed%2], 90, seed, nil); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// Lookups find exactly the present keys, with their values.
func TestFind(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	dev := devicetest.Open(t)
	if dev.Properties().Kind == device.CPU {
		dev = devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: 1, Races: true})
	}
	s := devicetest.NewStream(t, dev)
	m, err := btree.New[uint32, uint32](dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	k, err := Open(dev)
	if err != nil {
		t.Fatal(err)
	}
	const n = 700
	keys, vals := make([]uint32, n), make([]uint32, n)
	for i := range keys {
		keys[i], vals[i] = uint32(3*i), uint32(i)
	}
	if _, err := m.Put(t.Context(), keys, vals); err != nil {
		t.Fatal(err)
	}
	asked := conformance.Sequence[uint32](0, n)
	in := devicetest.Upload(t, s, asked)
	for _, throughL1 := range []bool{false, true} {
		out, flags := devicetest.Upload(t, s, make([]uint32, n)), devicetest.Upload(t, s, make([]bool, n))
		if err := k.Find(t.Context(), s, m, throughL1, in, out, flags); err != nil {
			t.Fatal(err)
		}
		got, found := make([]uint32, n), make([]bool, n)
		if err := errors.Join(out.CopyTo(t.Context(), s, got), flags.CopyTo(t.Context(), s, found)); err != nil {
			t.Fatal(err)
		}
		for i, key := range asked {
			if there := key%3 == 0; found[i] != there || there && got[i] != key/3 || !there && got[i] != 0 {
				t.Fatalf("through L1 %v: key %d has %d, %v", throughL1, key, got[i], found[i])
			}
		}
	}
}

// Ways to insert are refused for deletions, and the reverse.
func TestWrongWays(t *testing.T) {
	k := &Kernels{}
	none := device.Slice[uint32]{}
	if err := k.Insert(t.Context(), nil, nil, Erase, none, none); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Insert by erase: %v", err)
	}
	if err := k.Erase(t.Context(), nil, nil, Spin, none); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("Erase by spin: %v", err)
	}
}

// mutants are broken ways: their PTX with a pattern replaced.
var mutants = []struct {
	name          string
	insert        Way
	pattern, with string
}{
	{"a latch is taken without what was done under it", Spin, `atom\.acquire\.gpu\.global\.cas\.b64`, "atom.relaxed.gpu.global.cas.b64"},
	{"a latch is given back without what was done under it", Coupled, `st\.release\.gpu\.global\.b64`, "st.relaxed.gpu.global.b64"},
	{"a latch that somebody else was faster to take counts as taken", BackOff,
		`(atom\.acquire\.gpu\.global\.cas\.b64 (%rd\d+), \[%rd\d+\], (%rd\d+), %rd\d+;)`, "$1 mov.b64 $2, $3;"},
	{"fences are left out", Fences, `fence\.sc\.gpu;`, ""},
}

// The schedules detect each mutant.
func TestMutantsAreFound(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			rewrite := mutate.Replace(t, m.insert.String(), m.pattern, m.with)
			for seed := range uint64(100) {
				if err := run(t, m.insert, -1, 120, seed, rewrite); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("not found")
		})
	}
}
