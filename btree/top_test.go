package btree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/mutate"
)

// TestSearchesBelowRoot looks up keys by searches that begin below the root. Meanwhile the tree
// splits, then its root splits, and then nodes merge. All keys must be found.
func TestSearchesBelowRoot(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("32_32,seed=%d", seed), func(t *testing.T) { searchBelowRoot[uint32, uint32](t, seed) })
	}
	t.Run("64_64", func(t *testing.T) { searchBelowRoot[uint64, uint64](t, 3) })
	for _, m := range misleading {
		t.Run(m.name, func(t *testing.T) {
			if err := ask(t, mutate.Replace(t, "get_32_32", m.pattern, m.with)); err == nil {
				t.Error("it is not noticed")
			} else {
				t.Log(err)
			}
		})
	}
}

// misleading lists mutants of the levels that blocks read before they search.
var misleading = []struct{ name, pattern, with string }{
	{"pairs of leaves are taken for nodes", `and\.b32 (%r\d+), (%r\d+), 3584;`, "and.b32 $1, $2, 65528;"},
	{"nodes are read before all threads have listed them", `bar\.sync 0;`, ""},
}

// full returns a tree of full nodes.
func full[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device) (m *Map[K, V], keys []K, vals []V, err error) {
	m, err = New[K, V](dev, &Options{Fill: 1})
	if err != nil {
		t.Fatal(err)
	}
	const n = 14*14*14 + 1
	keys, vals = make([]K, n), make([]V, n)
	for i := range keys {
		keys[i], vals[i] = K(10*i), V(i)
	}
	_, err = m.Put(t.Context(), keys, vals)
	return m, keys, vals, err
}

// ask looks up the first topKeys keys of a tree of full nodes, without concurrent changes. It fails
// if a key is not found.
func ask(t *testing.T, rewrite func(file, ptx string) string) (err error) {
	dev, err := sim.Open(&sim.Options{Scheduler: sim.Random, Rewrite: rewrite, Races: true})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, keys, vals, err := full[uint32, uint32](t, dev)
	defer func() { err = errors.Join(err, m.Close()) }()
	if err != nil {
		return err
	}
	got := make([]uint32, topKeys)
	if hits, err := m.Get(t.Context(), keys[:topKeys], got, nil); err != nil || hits != topKeys || !slices.Equal(got, vals[:topKeys]) {
		return errors.Join(err, fmt.Errorf("%d of %d keys are found, with %v", hits, topKeys, got))
	}
	return nil
}

// searchBelowRoot looks up keys alongside batches that first enlarge a tree of full nodes, and then
// shrink it.
func searchBelowRoot[K, V ~uint32 | ~uint64](t *testing.T, seed uint64) {
	dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: seed, Races: true})
	m, keys, vals, err := full[K, V](t, dev)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	rng := rand.New(rand.NewPCG(seed, 1))
	asked, wanted, more := make([]K, topKeys), make([]V, topKeys), make([]K, 120)
	for i := range asked {
		at := rng.IntN(len(keys))
		asked[i], wanted[i] = keys[at], vals[at]
	}
	for i := range more {
		more[i] = K(rng.IntN(10*len(keys))/10*10 + 1 + i%9)
	}
	writer, reader := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
	in, fresh := devicetest.Upload(t, reader, asked), devicetest.Upload(t, writer, more)
	one := devicetest.Upload(t, writer, make([]V, len(more)))
	var out [6]device.Slice[V]
	for i := range out {
		out[i] = devicetest.Upload(t, reader, make([]V, len(asked)))
	}
	if err := errors.Join(writer.Sync(t.Context()), reader.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	get := func(i int) error { return m.GetOn(reader, in, out[i], device.Slice[bool]{}) }
	err = errors.Join(m.PutOn(writer, fresh, one), get(0), get(1), get(2), m.DeleteOn(writer, fresh, device.Slice[bool]{}), get(3), get(4), get(5))
	if err := errors.Join(err, writer.Sync(t.Context()), reader.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	got := make([]V, len(asked))
	for i := range out {
		if err := out[i].CopyTo(t.Context(), reader, got); err != nil {
			t.Fatal(err)
		}
		for j := range got {
			if got[j] != wanted[j] {
				t.Fatalf("lookup %d of key %v finds %v, want %v", i, asked[j], got[j], wanted[j])
			}
		}
	}
	if err := errors.Join(m.Sync(t.Context()), m.Check(t.Context())); err != nil {
		t.Fatal(err)
	}
}
