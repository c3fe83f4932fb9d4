package graph

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
)

// TestLittleMemory checks that calls on a device with little memory succeed, or return
// device.ErrMemory and change nothing.
func TestLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	const vertices = 300
	dev, o := devicetest.OpenSim(t, &sim.Options{Memory: 1800 << 10}), Options{MaxVertices: vertices, Directed: true}
	g, err := NewWeightedGraph[uint32](dev, &o)
	must(t, err)
	r, m, refused, made := rand.New(rand.NewPCG(5, 77)), newModel[uint32](o), map[string]int{}, 0
	var snaps []held[uint32]
	for range 60 {
		n := 1 + r.IntN(600)
		from, to, weights := make([]uint32, n), make([]uint32, n), make([]uint32, n)
		for i := range n {
			from[i], to[i], weights[i] = r.Uint32N(vertices), r.Uint32N(vertices), r.Uint32()
		}
		forceSort(g.store, r.IntN(3) == 0)
		ends, method, applyModel := from[:min(n, 3)], "", func() {}
		edges := func(kind weft.OpKind) func() {
			return func() {
				for i := range from {
					m.apply(kind, from[i], to[i], weights[i])
				}
				m.markLive()
			}
		}
		switch k := r.IntN(10); {
		case k < 5:
			method, applyModel = "Insert", edges(weft.OpPut)
			_, err = g.Insert(t.Context(), from, to, weights, nil)
		case k < 6:
			method, applyModel = "Delete", edges(weft.OpDelete)
			_, err = g.Delete(t.Context(), from, to, nil)
		case k < 7:
			method, applyModel = "DeleteVertices", func() { m.deleteVertices(ends) }
			_, err = g.DeleteVertices(t.Context(), ends)
		case k < 9 || len(snaps) == 0:
			var s *WeightedSnapshot[uint32]
			s, err = g.Snapshot(t.Context())
			method, applyModel = "Snapshot", func() { snaps = append(snaps, held[uint32]{s, m.clone()}) }
		default:
			method = "Close"
			err = snaps[0].Close()
			snaps = snaps[1:]
		}
		switch {
		case errors.Is(err, device.ErrMemory):
			refused[method]++
		case err != nil:
			t.Fatalf("%s: %v", method, err)
		default:
			made++
			applyModel()
		}
		must(t, g.Check(t.Context()))
		if g.Edges() != m.count() {
			t.Fatalf("%s, %v: %d edges, want %d", method, err, g.Edges(), m.count())
		}
	}
	if refused["Insert"] < 5 || made < 20 {
		t.Errorf("%d calls were made, refused were %v", made, refused)
	}
	for _, s := range snaps {
		must(t, s.Close())
	}
	must(t, g.Check(t.Context()))
	var got []edge
	// Rows copies through device memory, which may be exhausted.
	image, _, _, err := g.engine.image(t.Context(), g.currentView())
	must(t, err)
	for u := range uint32(image.vertices) {
		for _, v := range image.row(u).ids {
			got = append(got, edge{u, v})
		}
	}
	if want, _ := m.arcs(); !slices.Equal(got, want) {
		t.Errorf("edges %v, want %v", got, want)
	}
	must(t, g.Close())
}
