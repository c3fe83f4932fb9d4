package slab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	graphs "github.com/weftgo/weft/graph"
)

// layout is a weighted graph of package graph or package slab.
type layout interface {
	Insert(ctx context.Context, from, to, weights []uint32, inserted []bool) (int, error)
	Apply(ctx context.Context, kinds []weft.OpKind, from, to, weights []uint32, done []bool) (int, error)
	Delete(ctx context.Context, from, to []uint32, deleted []bool) (int, error)
	DeleteVertices(ctx context.Context, vertices []uint32) (int, error)
	Has(ctx context.Context, from, to []uint32, found []bool) (int, error)
	Weight(ctx context.Context, from, to, weights []uint32, found []bool) (int, error)
	Degree(ctx context.Context, vertices, degrees []uint32) error
	Neighbors(ctx context.Context, vertex uint32, to []uint32) ([]uint32, error)
	Rows(ctx context.Context, vertices []uint32) (offsets []uint64, neighbors, weights []uint32, err error)

	InsertOn(s *device.Stream, from, to, weights device.Slice[uint32], inserted device.Slice[bool], counts ...device.Slice[uint64]) error
	ApplyOn(s *device.Stream, kinds device.Slice[uint8], from, to, weights device.Slice[uint32], done device.Slice[bool], counts ...device.Slice[uint64]) error
	DeleteOn(s *device.Stream, from, to device.Slice[uint32], deleted device.Slice[bool], counts ...device.Slice[uint64]) error
	DeleteVerticesOn(s *device.Stream, vertices device.Slice[uint32], counts ...device.Slice[uint64]) error
	HasOn(s *device.Stream, from, to device.Slice[uint32], found device.Slice[bool], hits ...device.Slice[uint64]) error
	WeightOn(s *device.Stream, from, to, weights device.Slice[uint32], found device.Slice[bool], hits ...device.Slice[uint64]) error
	DegreeOn(s *device.Stream, vertices, degrees device.Slice[uint32]) error
	RowsOn(s *device.Stream, vertices, degrees device.Slice[uint32], offsets device.Slice[uint64], neighbors, weights device.Slice[uint32]) error

	Edges() int
	Sync(ctx context.Context) error
	Check(ctx context.Context) error
	Close() error
}

// onLayouts runs a test on graphs of both packages, directed and undirected, on a host and on a
// simulated GPU.
func onLayouts(t *testing.T, maxVertices int, run func(t *testing.T, dev device.Device, g layout)) {
	onBoth(t, func(t *testing.T, dev device.Device) {
		for _, directed := range []bool{false, true} {
			t.Run(fmt.Sprintf("rows, directed %v", directed), func(t *testing.T) {
				g, err := graphs.NewWeightedGraph[uint32](dev, &graphs.Options{Directed: directed, MaxVertices: maxVertices})
				noError(t, err)
				run(t, dev, g)
				noError(t, errors.Join(g.Check(t.Context()), g.Close()))
			})
			t.Run(fmt.Sprintf("tables, directed %v", directed), func(t *testing.T) {
				g, err := NewWeightedGraph[uint32](dev, &GraphOptions{Directed: directed, MaxVertices: maxVertices})
				noError(t, err)
				run(t, dev, g)
				noError(t, errors.Join(g.Check(t.Context()), g.Close()))
			})
		}
	})
}

// TestVerticesThatCannotBe checks vertices out of range. Inserting such a vertex returns an error
// with the limit, the option and the position, before anything changes. Deleting it or looking it
// up finds nothing, and the rest of the batch is done.
func TestVerticesThatCannotBe(t *testing.T) {
	const limit = 50
	onLayouts(t, limit, func(t *testing.T, dev device.Device, g layout) {
		ctx, s := t.Context(), devicetest.NewStream(t, dev)
		_, err := g.Insert(ctx, []uint32{1, 2, 3, 49}, []uint32{2, 3, 4, 48}, []uint32{5, 6, 7, 8}, nil)
		noError(t, err)
		up := func(ids ...uint32) device.Slice[uint32] { return devicetest.Upload(t, s, ids) }
		none, put, del := device.Slice[bool]{}, weft.OpPut, weft.OpDelete
		for _, beyond := range []uint32{limit, limit + 1, 1 << 28, 1<<31 - 1, 1 << 31, 1<<32 - 4, 1<<32 - 3, 1<<32 - 2, 1<<32 - 1} {
			for name, run := range map[string]func(from, to uint32) error{
				"Insert": func(u, v uint32) error {
					_, err := g.Insert(ctx, []uint32{5, u}, []uint32{6, v}, []uint32{1, 1}, nil)
					return err
				},
				"InsertOn": func(u, v uint32) error { return g.InsertOn(s, up(5, u), up(6, v), up(1, 1), none) },
				"Apply": func(u, v uint32) error {
					_, err := g.Apply(ctx, []weft.OpKind{del, put}, []uint32{1, u}, []uint32{2, v}, []uint32{1, 1}, nil)
					return err
				},
				"ApplyOn": func(u, v uint32) error {
					return g.ApplyOn(s, devicetest.Upload(t, s, []uint8{uint8(del), uint8(put)}), up(1, u), up(2, v), up(1, 1), none)
				},
			} {
				for _, edge := range [][2]uint32{{3, beyond}, {beyond, 3}, {beyond, beyond}} {
					err := run(edge[0], edge[1])
					if says := fmt.Sprintf("edge 1 from %d to %d: vertices are 0 to %d; MaxVertices allows more", edge[0], edge[1], limit-1); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), says) {
						t.Errorf("%s: %v, want %q", name, err, says)
					}
				}
			}
			if noError(t, g.Sync(ctx)); g.Edges() != 4 {
				t.Fatalf("%d edges behind refusals, want 4", g.Edges())
			}
			from, to := []uint32{beyond, 3, beyond, 1, 3}, []uint32{3, beyond, beyond, 2, 4}
			want := []bool{false, false, false, true, true}
			found, weights := make([]bool, 5), []uint32{9, 9, 9, 9, 9}
			n, err := g.Has(ctx, from, to, found)
			if err != nil || n != 2 || !slices.Equal(found, want) {
				t.Errorf("Has: %d, %v, %v", n, found, err)
			}
			n, err = g.Weight(ctx, from, to, weights, found)
			if err != nil || n != 2 || !slices.Equal(found, want) || !slices.Equal(weights, []uint32{0, 0, 0, 5, 7}) {
				t.Errorf("Weight: %d, %v, %v, %v", n, found, weights, err)
			}
			u, v, w, ok, hits := up(from...), up(to...), up(weights...), devicetest.Upload(t, s, make([]bool, 5)), devicetest.Upload(t, s, []uint64{40})
			noError(t, errors.Join(g.HasOn(s, u, v, ok, hits), g.WeightOn(s, u, v, w, ok, hits)))
			if got, n := devicetest.Download(t, s, ok), devicetest.Download(t, s, hits)[0]; !slices.Equal(got, want) || n != 44 || !slices.Equal(devicetest.Download(t, s, w), []uint32{0, 0, 0, 5, 7}) {
				t.Errorf("on the device: %v, %d and 40 hits", got, n)
			}
			ids, degrees := []uint32{beyond, 49}, []uint32{9, 9}
			err = g.Degree(ctx, ids, degrees)
			if err != nil || degrees[0] != 0 || degrees[1] != 1 {
				t.Errorf("Degree: %v, %v", degrees, err)
			}
			offsets, row, _, err := g.Rows(ctx, ids)
			if err != nil || !slices.Equal(offsets, []uint64{0, 0, 1}) || !slices.Equal(row, []uint32{48}) {
				t.Errorf("Rows: %v %v, %v", offsets, row, err)
			}
			if row, err := g.Neighbors(ctx, beyond, nil); err != nil || len(row) != 0 {
				t.Errorf("Neighbors: %v, %v", row, err)
			}
			d, o, r := up(9, 9), devicetest.Upload(t, s, make([]uint64, 3)), up(9)
			noError(t, errors.Join(g.RowsOn(s, up(ids...), d, o, r, up(9)), g.DegreeOn(s, up(ids...), d)))
			if !slices.Equal(devicetest.Download(t, s, d), []uint32{0, 1}) || !slices.Equal(devicetest.Download(t, s, o), offsets) || devicetest.Download(t, s, r)[0] != 48 {
				t.Errorf("RowsOn: %v", devicetest.Download(t, s, o))
			}

			// The rest of a batch of deletions is done, and is inserted again.
			again := func(what string, n int, err error, deleted []bool) {
				t.Helper()
				if err != nil || n != 1 || deleted != nil && !slices.Equal(deleted, []bool{false, false, false, true}) {
					t.Errorf("%s beyond: %d, %v, %v", what, n, deleted, err)
				}
				n, err = g.Insert(ctx, []uint32{1}, []uint32{2}, []uint32{5}, nil)
				if err != nil || n != 1 {
					t.Errorf("%s had the edge stay: %d, %v", what, n, err)
				}
			}
			from, to, found = from[:4], to[:4], found[:4]
			n, err = g.Delete(ctx, from, to, found)
			again("Delete", n, err, found)
			n, err = g.Apply(ctx, []weft.OpKind{del, del, del, del}, from, to, make([]uint32, 4), found)
			again("Apply", n, err, found)
			count := func() int {
				n := int(devicetest.Download(t, s, hits)[0]) - 44
				noError(t, hits.CopyFrom(s, []uint64{44}))
				return n
			}
			u, v, ok = u.Sub(0, 4), v.Sub(0, 4), ok.Sub(0, 4)
			err = g.DeleteOn(s, u, v, ok, hits)
			again("DeleteOn", count(), err, devicetest.Download(t, s, ok))
			err = errors.Join(g.DeleteOn(s, u, v, none), g.Sync(ctx))
			again("DeleteOn, untold", 1, err, nil)
			err = g.ApplyOn(s, devicetest.Upload(t, s, []uint8{uint8(del), uint8(del), uint8(del), uint8(del)}), u, v, up(0, 0, 0, 0), ok, hits)
			again("ApplyOn", count(), err, devicetest.Download(t, s, ok))
			for what, run := range map[string]func(ids ...uint32) error{
				"DeleteVertices":   func(ids ...uint32) error { _, err := g.DeleteVertices(ctx, ids); return err },
				"DeleteVerticesOn": func(ids ...uint32) error { return errors.Join(g.DeleteVerticesOn(s, up(ids...)), g.Sync(ctx)) },
			} {
				noError(t, errors.Join(run(beyond), run(beyond, 49, beyond)))
				if g.Edges() != 3 {
					t.Errorf("%s: %d edges, want 3", what, g.Edges())
				}
				_, err := g.Insert(ctx, []uint32{49}, []uint32{48}, []uint32{8}, nil)
				noError(t, err)
			}
		}
	})
}

// TestCountsAddUp checks that all On methods add to their counters. Four streams share a counter,
// and no count may be lost.
func TestCountsAddUp(t *testing.T) {
	rounds := map[bool]int{true: 300, false: 2}
	onLayouts(t, 100, func(t *testing.T, dev device.Device, g layout) {
		ctx := t.Context()
		s := devicetest.NewStream(t, dev)
		_, err := g.Insert(ctx, []uint32{90}, []uint32{91}, []uint32{1}, nil)
		noError(t, err)
		counter := devicetest.Upload(t, s, []uint64{1000})
		noError(t, s.Sync(ctx))
		_, host := dev.(device.Host)
		const workers = 4
		var all sync.WaitGroup
		work := func(w uint32) error {
			s := devicetest.NewStream(t, dev)
			up := func(ids ...uint32) device.Slice[uint32] { return devicetest.Upload(t, s, ids) }
			there, thereTo := up(90), up(91)
			u, v, weights, puts, none := up(10*w, 10*w), up(10*w+1, 10*w+2), up(3, 4), devicetest.Upload(t, s, []uint8{uint8(weft.OpPut), uint8(weft.OpPut)}), device.Slice[bool]{}
			for range rounds[host] {
				// 2 edges from each of five calls, and 2 vertices or edges of vertices
				err := errors.Join(
					g.InsertOn(s, u, v, weights, none, counter), g.HasOn(s, u, v, none, counter), g.DeleteOn(s, u, v, none, counter),
					g.ApplyOn(s, puts, u, v, weights, none, counter), g.WeightOn(s, u, v, weights, none, counter), g.DeleteVerticesOn(s, u.Sub(0, 1), counter))
				for range 20 {
					err = errors.Join(err, g.HasOn(s, there, thereTo, none, counter))
				}
				if err != nil {
					return err
				}
			}
			return s.Sync(ctx)
		}
		for w := range uint32(workers) {
			if !host { // the simulator supports only one host thread
				noError(t, work(w))
				continue
			}
			all.Go(func() {
				if err := work(w); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		each := uint64(10 + 2 + 20)
		// In package graph, DeleteVertices counts vertices.
		if _, rows := g.(*graphs.WeightedGraph[uint32]); rows {
			each--
		}
		noError(t, g.Sync(ctx))
		if got, want := devicetest.Download(t, s, counter)[0], 1000+workers*uint64(rounds[host])*each; got != want {
			t.Errorf("the counts of %d streams are %d, want %d", workers, got, want)
		}
	})
}

// TestCountsAddUpAtOnce runs the same calls on concurrent streams, under random schedules.
func TestCountsAddUpAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for seed := range uint64(4) {
		dev := devicetest.OpenSim(t, &sim.Options{Arch: 90, Seed: seed, Scheduler: sim.Random, Races: true})
		for _, g := range []func() (layout, error){
			func() (layout, error) { return graphs.NewWeightedGraph[uint32](dev, nil) },
			func() (layout, error) { return NewWeightedGraph[uint32](dev, nil) },
		} {
			g, err := g()
			noError(t, err)
			s := devicetest.NewStream(t, dev)
			counter, none := devicetest.Upload(t, s, []uint64{7}), device.Slice[bool]{}
			ids, ends := devicetest.Upload(t, s, sequence(0, 40)), devicetest.Upload(t, s, sequence(1, 41))
			noError(t, errors.Join(g.InsertOn(s, ids, ends, ids, none), s.Sync(t.Context())))
			for range 4 {
				on := devicetest.NewStream(t, dev)
				noError(t, errors.Join(g.HasOn(on, ids, ends, none, counter), g.WeightOn(on, ids, ends, devicetest.Upload(t, on, make([]uint32, 40)), none, counter)))
				if seed%2 == 0 {
					noError(t, g.InsertOn(on, ids, ends, ids, none, counter))
				}
			}
			noError(t, g.Sync(t.Context()))
			noError(t, dev.Sync(t.Context()))
			if got := devicetest.Download(t, s, counter)[0]; got != 7+8*40 {
				t.Errorf("seed %d: %d, want %d", seed, got, 7+8*40)
			}
			noError(t, g.Close())
		}
	}
}
