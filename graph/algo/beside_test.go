package algo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/conformance"
)

// testConcurrentUpdates runs kernels of algorithms on a snapshot. Two other streams meanwhile
// change the graph and look up edges.
func testConcurrentUpdates(t testing.TB, dev device.Device, seed uint64) {
	ctx, host := t.Context(), devicetest.OpenCPU(t, 1)
	r := rand.New(rand.NewPCG(seed, 8))
	batch := func() (from, to []uint32) {
		for range 40 {
			from, to = append(from, r.Uint32N(24)), append(to, r.Uint32N(24))
		}
		return from, to
	}
	g, err := graph.New(dev, nil)
	must(t, err)
	from, to := batch()
	_, err = g.Insert(ctx, from, to, nil)
	must(t, err)
	s, changes, lookups := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
	for round := range 2 {
		snap, err := g.Snapshot(ctx)
		must(t, err)
		was, err := snap.CSR(ctx)
		must(t, err)
		newFrom, newTo := batch()
		u, v := devicetest.Upload(t, changes, newFrom), devicetest.Upload(t, changes, newTo)
		found, none := devicetest.Upload(t, lookups, make([]bool, len(newFrom))), device.Slice[bool]{}
		must(t, changes.Sync(ctx))
		must(t, g.InsertOn(changes, u, v, none))
		must(t, g.HasOn(lookups, u, v, found))
		must(t, g.DeleteOn(changes, u.Sub(0, 20), v.Sub(0, 20), none))

		onDevice, err := snap.CSROn(ctx, s)
		must(t, err)
		triangles, err := TrianglesOn(ctx, s, onDevice)
		must(t, err)
		wantTriangles, err := Triangles(ctx, host, was)
		must(t, err)
		touching, err := TrianglesOfOn(ctx, s, snap, u, v) // reads rows in place
		must(t, err)
		wantTouching, err := TrianglesOf(ctx, host, snap, graph.Edges{From: newFrom, To: newTo})
		must(t, err)
		labels, want := devicetest.Upload(t, s, make([]uint32, was.Vertices())), make([]uint32, was.Vertices())
		parts, err := ComponentsOn(ctx, s, onDevice, labels)
		must(t, err)
		wantParts, err := Components(ctx, host, was, want)
		must(t, err)
		if triangles != wantTriangles || touching != wantTouching || parts != wantParts || !slices.Equal(devicetest.Download(t, s, labels), want) {
			t.Errorf("round %d: %d triangles, %d of the batch, %d components; want %d, %d, %d", round, triangles, touching, parts, wantTriangles, wantTouching, wantParts)
		}
		for i, is := range devicetest.Download(t, lookups, found) {
			if is != (newFrom[i] != newTo[i]) {
				t.Errorf("round %d: the edge from %d to %d has been inserted, and is there: %v", round, newFrom[i], newTo[i], is)
			}
		}
		must(t, errors.Join(onDevice.Free(), snap.Close(), changes.Sync(ctx), g.Check(ctx)))
	}
	must(t, g.Close())
}

// TestConcurrentUpdates overlaps updates, lookups and algorithms, under random schedules and weak
// memory, where a data race is a fault.
func TestConcurrentUpdates(t *testing.T) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	if dev := kernelDevice(t); dev.Properties().Kind != device.Sim {
		testConcurrentUpdates(t, dev, 1)
		return
	}
	for i, scheduler := range []sim.Scheduler{sim.Random, sim.PCT} {
		t.Run(fmt.Sprint(scheduler), func(t *testing.T) {
			testConcurrentUpdates(t, devicetest.OpenSim(t, &sim.Options{Scheduler: scheduler, Seed: uint64(i), Races: true}), uint64(i))
		})
	}
}
