package algo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/conformance"
)

// followerOn is a mutable graph on a device. Its results are maintained on the device and on the
// host.
type followerOn struct {
	*testing.T
	s         *device.Stream
	r         *rand.Rand
	g         *graph.Graph
	vertices  int
	ranking   *Ranking
	connected *Connected
	ranks     *DeviceRanking
	parts     *DeviceConnected
	current   graph.Edges // edges of the last batch that changed the graph
}

func followOn(t *testing.T, dev device.Device, o graph.Options, vertices int, ranks *PageRankOptions) *followerOn {
	t.Helper()
	ctx := t.Context()
	f := &followerOn{T: t, s: devicetest.NewStream(t, dev), r: rand.New(rand.NewPCG(7, uint64(vertices))), vertices: vertices}
	var err error
	f.g, err = graph.New(dev, &o)
	must(t, err)
	all := make([]uint32, vertices)
	for i := range all {
		all[i] = uint32(i)
	}
	_, err = f.g.InsertVertices(ctx, all)
	must(t, err)
	c, err := f.g.CSR(ctx)
	must(t, err)
	d, err := f.g.CSROn(ctx, f.s)
	must(t, err)
	host := devicetest.OpenCPU(t, 2)
	f.ranking, err = NewRanking(ctx, host, c, ranks)
	must(t, err)
	f.connected, err = NewConnected(ctx, host, c)
	must(t, err)
	f.ranks, err = NewRankingOn(ctx, f.s, d, ranks)
	must(t, err)
	f.parts, err = NewConnectedOn(ctx, f.s, d)
	must(t, err)
	must(t, d.Free())
	return f
}

func (f *followerOn) close() {
	must(f.T, errors.Join(f.ranks.Free(), f.ranks.Free(), f.parts.Free(), f.parts.Free(), f.g.Close()))
}

// batch returns edges in device memory: random edges, some of them repeated, or present edges.
func (f *followerOn) batch(n int, existing bool) graph.DeviceEdges {
	var e graph.Edges
	if existing {
		c, err := f.g.CSR(f.Context())
		must(f.T, err)
		for u, v := range c.All() {
			if f.r.IntN(c.Arcs()) < n {
				e.From, e.To = append(e.From, u), append(e.To, v)
			}
		}
	}
	for len(e.From) < n {
		u, v := f.r.IntN(f.vertices), f.r.IntN(f.vertices)
		if f.r.IntN(4) == 0 {
			u = 1
		}
		e.From, e.To = append(e.From, uint32(u)), append(e.To, uint32(v))
	}
	return graph.DeviceEdges{
		From: devicetest.Upload(f, f.s, e.From), To: devicetest.Upload(f, f.s, e.To), Done: devicetest.Upload(f, f.s, make([]bool, len(e.From))),
	}
}

func (f *followerOn) change(deletes bool, n int) (inserted, deleted graph.DeviceEdges) {
	f.Helper()
	e := f.batch(n, deletes)
	if deletes {
		must(f.T, f.g.DeleteOn(f.s, e.From, e.To, e.Done))
		deleted = e
	} else {
		must(f.T, f.g.InsertOn(f.s, e.From, e.To, e.Done))
		inserted = e
	}
	list := graph.Edges{From: devicetest.Download(f, f.s, e.From), To: devicetest.Download(f, f.s, e.To)}
	f.current = list.Filter(devicetest.Download(f, f.s, e.Done))
	return inserted, deleted
}

// step runs a batch and updates all results.
func (f *followerOn) step(deletes bool, n int) {
	f.Helper()
	ctx := f.Context()
	inserted, deleted := f.change(deletes, n)
	added, removed := f.current, graph.Edges{}
	if deletes {
		added, removed = removed, added
	}
	want, err := f.ranking.Update(ctx, f.g, added, removed)
	must(f.T, err)
	got, err := f.ranks.Update(ctx, f.s, f.g, inserted, deleted)
	must(f.T, err)
	if got != want {
		f.Fatalf("ranks came as far as %+v, on the host %+v", got, want)
	}
	if deletes {
		c, err := f.g.CSR(ctx)
		must(f.T, err)
		must(f.T, f.connected.Reset(ctx, c))
		d, err := f.g.CSROn(ctx, f.s)
		must(f.T, err)
		must(f.T, errors.Join(f.parts.Reset(ctx, f.s, d), d.Free()))
	} else {
		must(f.T, f.connected.Insert(ctx, added))
		must(f.T, f.parts.Insert(ctx, f.s, inserted))
	}
	f.same()
}

// same compares the results on the device with those on the host.
func (f *followerOn) same() {
	f.Helper()
	if got := devicetest.Download(f, f.s, f.ranks.Ranks()); !slices.Equal(got, f.ranking.Ranks()) || f.ranks.Vertices() != len(got) {
		f.Fatalf("other ranks than on the host")
	}
	n := f.connected.Vertices()
	labels, want := devicetest.Upload(f, f.s, make([]uint32, n)), make([]uint32, n)
	f.connected.Labels(want)
	must(f.T, f.parts.Labels(f.Context(), f.s, labels))
	if got := devicetest.Download(f, f.s, labels); f.parts.Count() != f.connected.Count() || f.parts.Vertices() != n || !slices.Equal(got, want) {
		f.Fatalf("%d components, on the host %d; labels are the same: %v", f.parts.Count(), f.connected.Count(), slices.Equal(got, want))
	}
}

// onDevices runs a test on a CPU, and on a device with kernels.
func onDevices(t *testing.T, test func(t *testing.T, dev device.Device)) {
	conformance.SkipRaced(t, "the simulator has goroutines of its own")
	t.Run("cpu", func(t *testing.T) { test(t, devicetest.OpenCPU(t, 2)) })
	t.Run("kernels", func(t *testing.T) { test(t, kernelDevice(t)) })
}

// TestFollowingOn checks that results maintained on a device equal those of the host to the bit,
// after small and large batches, with new vertices.
func TestFollowingOn(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		for _, o := range []graph.Options{{}, {Directed: true, SelfLoops: true}, {Multi: true}} {
			t.Run(fmt.Sprintf("directed=%v/multi=%v", o.Directed, o.Multi), func(t *testing.T) {
				f := followOn(t, dev, o, 200, &PageRankOptions{Tolerance: 1e-4})
				defer f.close()
				f.step(false, 500)
				for i, n := range []int{3, 1, 2, 60, 1, 1} {
					if i == 3 {
						f.vertices = 230
					}
					f.step(!o.Multi && i%3 == 1, n)
				}
			})
		}
	})
}

// TestRankingOnSnapshot checks that a ranking can read a snapshot instead of the graph. An edge
// joins two parts that even out slowly, so that updates push from single vertices.
func TestRankingOnSnapshot(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		ctx := t.Context()
		f := followOn(t, dev, graph.Options{}, 600, nil)
		defer f.close()
		f.step(false, 1200)
		inserted, none := f.change(false, 1)
		was := f.current
		snap, err := f.g.Snapshot(ctx)
		must(t, err)
		f.change(false, 300) // not in the snapshot
		want, err := f.ranking.Update(ctx, snap, was, graph.Edges{})
		must(t, err)
		got, err := f.ranks.Update(ctx, f.s, snap, inserted, none)
		must(t, err)
		must(t, snap.Close())
		if ranks := devicetest.Download(t, f.s, f.ranks.Ranks()); got != want || !slices.Equal(ranks, f.ranking.Ranks()) {
			t.Errorf("%+v, want %+v; ranks are the same: %v", got, want, slices.Equal(ranks, f.ranking.Ranks()))
		}
	})
}

// TestRankingOnIsLocal checks that after inserting one edge into a ring, an update changes ranks
// near the edge and exports no graph.
func TestRankingOnIsLocal(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		ctx := t.Context()
		const n = 1 << 12
		f := followOn(t, dev, graph.Options{}, n, nil)
		defer f.close()
		ring := graph.Edges{}
		for v := range uint32(n) {
			ring.From, ring.To = append(ring.From, v), append(ring.To, (v+1)%n)
		}
		_, err := f.g.Insert(ctx, ring.From, ring.To, nil)
		must(t, err)
		_, err = f.ranking.Update(ctx, f.g, ring, graph.Edges{})
		must(t, err)
		list := graph.DeviceEdges{From: devicetest.Upload(t, f.s, ring.From), To: devicetest.Upload(t, f.s, ring.To)}
		read := &exporting{Graph: f.g}
		_, err = f.ranks.Update(ctx, f.s, read, list, graph.DeviceEdges{})
		must(t, err)
		inserted, none := f.change(false, 1)
		want, err := f.ranking.Update(ctx, f.g, f.current, graph.Edges{})
		must(t, err)
		got, err := f.ranks.Update(ctx, f.s, read, inserted, none)
		must(t, err)
		if got != want || got.Iterations < 10 || !isHost(dev) && read.exports != 1 {
			t.Errorf("for one edge %+v, want %+v; the graph was exported %d times, want once, for the ring", got, want, read.exports)
		}
		must(t, f.connected.Insert(ctx, ring))
		must(t, f.connected.Insert(ctx, f.current))
		must(t, f.parts.Insert(ctx, f.s, list))
		must(t, f.parts.Insert(ctx, f.s, inserted))
		f.same()
	})
}

// exporting is a DeviceReader that counts exports.
type exporting struct {
	*graph.Graph
	exports int
}

func (e *exporting) CSROn(ctx context.Context, s *device.Stream) (*graph.DeviceCSR, error) {
	e.exports++
	return e.Graph.CSROn(ctx, s)
}

// TestFollowingOnErrors checks that rankings and components refuse the same arguments on a device
// as on a host, with the same error text.
func TestFollowingOnErrors(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		ctx := t.Context()
		none := graph.DeviceEdges{}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		other := devicetest.NewStream(t, devicetest.OpenCPU(t, 1))
		for _, tt := range []struct {
			say string
			is  error
			do  func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error
		}{
			{"vertex 3 has", device.ErrInvalid, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				_, err := f.ranks.Update(ctx, f.s, f.g, e(3, 40), none)
				return err
			}},
			{"edge 0 from 1 to 50 was deleted, but there were only 50 vertices", device.ErrInvalid, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				_, err := f.ranks.Update(ctx, f.s, f.g, none, e(1, 50))
				return err
			}},
			{"edge 0 from 1 to 4294967295: vertices are 0 to", device.ErrInvalid, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				_, err := f.ranks.Update(ctx, f.s, f.g, e(1, 1<<32-1), none)
				return err
			}},
			{"edge 0 from 1 to 4294967295: vertices are 0 to", device.ErrInvalid, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				return f.parts.Insert(ctx, f.s, e(1, 1<<32-1))
			}},
			{"-1 vertices", device.ErrInvalid, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				return f.parts.Insert(ctx, f.s, graph.DeviceEdges{Vertices: -1})
			}},
			{"stream", device.ErrInvalid, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				_, err := f.ranks.Update(ctx, other, f.g, none, none)
				return err
			}},
			{"stream", device.ErrInvalid, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				return f.parts.Insert(ctx, nil, e(1, 2))
			}},
			{"another device", device.ErrInvalid, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				d := e(1, 2)
				d.To = devicetest.Upload(t, other, []uint32{2})
				_, err := f.ranks.Update(ctx, f.s, f.g, d, none)
				return err
			}},
			{"another device", device.ErrInvalid, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				d := e(1, 2)
				d.Done = devicetest.Upload(t, other, []bool{true})
				return f.parts.Insert(ctx, f.s, d)
			}},
			{"directed to undirected", device.ErrInvalid, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				g, err := graph.New(dev, &graph.Options{Directed: true})
				must(t, err)
				_, err = f.ranks.Update(ctx, f.s, g, none, none)
				return errors.Join(err, g.Close())
			}},
			{"freed", device.ErrClosed, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				must(t, f.ranks.Free())
				_, err := f.ranks.Update(ctx, f.s, f.g, none, none)
				return err
			}},
			{"freed", device.ErrClosed, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				must(t, f.parts.Free())
				return f.parts.Insert(ctx, f.s, e(1, 2))
			}},
			{"", context.Canceled, func(f *followerOn, e func(from, to uint32) graph.DeviceEdges) error {
				return f.parts.Insert(ended, f.s, e(1, 2))
			}},
		} {
			f := followOn(t, dev, graph.Options{}, 50, nil)
			err := tt.do(f, func(from, to uint32) graph.DeviceEdges {
				return graph.DeviceEdges{From: devicetest.Upload(t, f.s, []uint32{from}), To: devicetest.Upload(t, f.s, []uint32{to})}
			})
			if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("%v, want %q", err, tt.say)
			}
			f.close()
		}
	})
}

// TestFollowingOnEnds checks that an ended context changes nothing, and that the next call
// continues.
func TestFollowingOnEnds(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		ctx := t.Context()
		ended, cancel := context.WithCancel(ctx)
		cancel()
		f := followOn(t, dev, graph.Options{}, 300, nil)
		defer f.close()
		f.step(false, 700)
		for _, n := range []int{300, 1} {
			inserted, none := f.change(false, n)
			_, err := f.ranking.Update(ctx, f.g, f.current, graph.Edges{})
			must(t, err)
			if _, err := f.ranks.Update(ended, f.s, f.g, inserted, none); !errors.Is(err, context.Canceled) {
				t.Errorf("%d edges, cancelled: %v", n, err)
			}
			_, err = f.ranks.Update(ctx, f.s, f.g, none, none)
			must(t, err)
			must(t, f.connected.Insert(ctx, f.current))
			must(t, f.parts.Insert(ctx, f.s, inserted))
			f.same()
		}
	})
}

// TestFollowingOnEmpty checks graphs without vertices or edges, and lists that set the number of
// vertices.
func TestFollowingOnEmpty(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		ctx := t.Context()
		f := followOn(t, dev, graph.Options{}, 0, nil)
		defer f.close()
		f.same()
		none := graph.DeviceEdges{}
		_, err := f.ranks.Update(ctx, f.s, f.g, none, none)
		must(t, err)
		must(t, f.parts.Insert(ctx, f.s, none))
		f.same()
		_, err = f.g.InsertVertices(ctx, []uint32{6})
		must(t, err)
		want, err := f.ranking.Update(ctx, f.g, graph.Edges{Vertices: 7}, graph.Edges{})
		must(t, err)
		got, err := f.ranks.Update(ctx, f.s, f.g, graph.DeviceEdges{Vertices: 7}, none)
		must(t, err)
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		must(t, f.connected.Insert(ctx, graph.Edges{Vertices: 7}))
		must(t, f.parts.Insert(ctx, f.s, graph.DeviceEdges{Vertices: 7}))
		f.same()
		f.vertices = 9
		f.step(false, 5)
	})
}

// TestFollowingOnFails checks that a lack of memory at any point is an error, leaks nothing after
// Free, and does not affect a new object.
func TestFollowingOnFails(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		ctx := t.Context()
		s := devicetest.NewStream(t, dev)
		g, err := graph.New(dev, nil)
		must(t, err)
		from, to := devicetest.Upload(t, s, []uint32{0, 1, 4}), devicetest.Upload(t, s, []uint32{1, 2, 5})
		must(t, g.InsertOn(s, from.Sub(0, 2), to.Sub(0, 2), device.Slice[bool]{}))
		was, err := g.CSROn(ctx, s)
		must(t, err)
		must(t, g.InsertOn(s, from.Sub(2, 3), to.Sub(2, 3), device.Slice[bool]{}))
		last := graph.DeviceEdges{From: from.Sub(2, 3), To: to.Sub(2, 3)}
		devicetest.FailEach(t, dev, "ranking", func() error {
			r, err := NewRankingOn(ctx, s, was, &PageRankOptions{Tolerance: 0.2})
			if err != nil {
				return err
			}
			_, err = r.Update(ctx, s, g, last, graph.DeviceEdges{})
			devicetest.ClearFailures(dev)
			return errors.Join(err, r.Free())
		})
		devicetest.FailEach(t, dev, "connected", func() error {
			c, err := NewConnectedOn(ctx, s, was)
			if err != nil {
				return err
			}
			err = c.Insert(ctx, s, last)
			devicetest.ClearFailures(dev)
			if err == nil && (c.Count() != 3 || c.Vertices() != 6) {
				t.Errorf("%d components, %d vertices", c.Count(), c.Vertices())
			}
			if err != nil {
				must(t, c.Reset(ctx, s, was))
				must(t, c.Insert(ctx, s, last))
				if c.Count() != 3 {
					t.Errorf("made again: %d components", c.Count())
				}
			}
			return errors.Join(err, c.Free())
		})
		must(t, errors.Join(was.Free(), g.Close()))
	})
}
