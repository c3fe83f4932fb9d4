package graph

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// TestEndpointsOn checks which vertices are listed, for batches on a graph with edge 1-2 of weight
// 5 and edge 2-3 of weight 6.
func TestEndpointsOn(t *testing.T) {
	const put, remove = uint8(weft.OpPut), uint8(weft.OpDelete)
	for name, tt := range map[string]struct {
		o        Options
		kinds    []uint8
		from, to []uint32
		weights  []uint32
		want     []uint32
	}{
		"nothing":                          {},
		"new":                              {kinds: []uint8{put, put}, from: []uint32{9, 4}, to: []uint32{1, 9}, weights: []uint32{1, 1}, want: []uint32{1, 4, 9}},
		"there already":                    {kinds: []uint8{put}, from: []uint32{1}, to: []uint32{2}, weights: []uint32{5}},
		"another weight":                   {kinds: []uint8{put}, from: []uint32{2}, to: []uint32{1}, weights: []uint32{7}},
		"the other way":                    {o: Options{Directed: true}, kinds: []uint8{put}, from: []uint32{2}, to: []uint32{1}, weights: []uint32{5}, want: []uint32{1, 2}},
		"both ends of a directed edge":     {o: Options{Directed: true}, kinds: []uint8{put}, from: []uint32{3}, to: []uint32{8}, weights: []uint32{5}, want: []uint32{3, 8}},
		"one more of a multigraph":         {o: Options{Multi: true}, kinds: []uint8{put}, from: []uint32{1}, to: []uint32{2}, weights: []uint32{5}, want: []uint32{1, 2}},
		"deleted":                          {kinds: []uint8{remove}, from: []uint32{3}, to: []uint32{2}, weights: []uint32{0}, want: []uint32{2, 3}},
		"not there":                        {kinds: []uint8{remove}, from: []uint32{3}, to: []uint32{1}, weights: []uint32{0}},
		"not there that way":               {o: Options{Directed: true}, kinds: []uint8{remove}, from: []uint32{3}, to: []uint32{2}, weights: []uint32{0}},
		"deletion at no vertex":            {kinds: []uint8{remove}, from: []uint32{39}, to: []uint32{2}, weights: []uint32{0}},
		"several times":                    {kinds: []uint8{put, put, put}, from: []uint32{7, 8, 7}, to: []uint32{8, 7, 8}, weights: []uint32{1, 2, 3}, want: []uint32{7, 8}},
		"undone":                           {kinds: []uint8{put, remove}, from: []uint32{1, 7}, to: []uint32{7, 1}, weights: []uint32{1, 0}, want: []uint32{1, 7}},
		"deleted and inserted":             {kinds: []uint8{remove, put}, from: []uint32{2, 2}, to: []uint32{1, 1}, weights: []uint32{0, 5}, want: []uint32{1, 2}},
		"a self loop that is left out":     {kinds: []uint8{put, put}, from: []uint32{4, 6}, to: []uint32{4, 7}, weights: []uint32{1, 1}, want: []uint32{6, 7}},
		"a self loop that is not left out": {o: Options{SelfLoops: true}, kinds: []uint8{put}, from: []uint32{4}, to: []uint32{4}, weights: []uint32{1}, want: []uint32{4}},
		"all at once": {kinds: []uint8{put, remove, put, put}, from: []uint32{1, 2, 2, 0}, to: []uint32{2, 3, 5, 39}, weights: []uint32{9, 0, 1, 1},
			want: []uint32{0, 2, 3, 5, 39}},
	} {
		t.Run(name, func(t *testing.T) {
			devices(t, func(t *testing.T, dev device.Device) {
				s := devicetest.NewStream(t, dev)
				tt.o.MaxVertices = 40
				g, err := NewWeightedGraph[uint32](dev, &tt.o)
				must(t, err)
				_, err = g.Insert(t.Context(), []uint32{1, 2}, []uint32{2, 3}, []uint32{5, 6}, nil)
				must(t, err)
				e := DeviceEdges{From: devicetest.Upload(t, s, tt.from), To: devicetest.Upload(t, s, tt.to), Done: devicetest.Upload(t, s, make([]bool, len(tt.from)))}
				must(t, g.ApplyOn(s, devicetest.Upload(t, s, tt.kinds), e.From, e.To, devicetest.Upload(t, s, tt.weights), e.Done))
				if got := endpointsOf(t, g.Graph, s, e); !slices.Equal(got, tt.want) {
					t.Errorf("touched are %v, want %v", got, tt.want)
				}
				must(t, g.Close())
			})
		})
	}
}

func endpointsOf(t testing.TB, g *Graph, s *device.Stream, e DeviceEdges) []uint32 {
	t.Helper()
	endpoints, count := devicetest.Upload(t, s, make([]uint32, 2*e.From.Len())), devicetest.Upload(t, s, []uint64{77})
	must(t, g.EndpointsOn(s, e, endpoints, count))
	return devicetest.Download(t, s, endpoints)[:devicetest.Download(t, s, count)[0]]
}

// TestEndpointsOfDeviceEdges varies what the caller chooses: the selected edges, the listed ends,
// the number of vertices, and the capacity of the list.
func TestEndpointsOfDeviceEdges(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		s := devicetest.NewStream(t, dev)
		g, err := New(dev, &Options{Directed: true})
		must(t, err)
		from, to := devicetest.Upload(t, s, []uint32{5, 1, 5, 1<<32 - 1}), devicetest.Upload(t, s, []uint32{6, 9, 7, 8})
		done := devicetest.Upload(t, s, []bool{true, false, true, false})
		for _, tt := range []struct {
			what string
			e    DeviceEdges
			want []uint32
		}{
			{"all edges", DeviceEdges{From: from, To: to}, []uint32{1, 5, 6, 7, 8, 9}},
			{"some edges", DeviceEdges{From: from, To: to, Done: done}, []uint32{5, 6, 7}},
			{"their own rows", DeviceEdges{From: from, To: from, Done: done}, []uint32{5}},
			{"the rows of their other ends", DeviceEdges{From: to, To: to, Done: done}, []uint32{6, 7}},
			{"up to a vertex", DeviceEdges{Vertices: 7, From: from, To: to}, []uint32{1, 5, 6}},
		} {
			if got := endpointsOf(t, g, s, tt.e); !slices.Equal(got, tt.want) {
				t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
			}
		}
		endpoints, count := devicetest.Upload(t, s, []uint32{70, 71, 72, 73}), devicetest.Upload(t, s, []uint64{77})
		must(t, g.EndpointsOn(s, DeviceEdges{From: from, To: to}, endpoints.Sub(0, 3), count))
		if got, n := devicetest.Download(t, s, endpoints), devicetest.Download(t, s, count)[0]; n != 6 || !slices.Equal(got, []uint32{1, 5, 6, 73}) {
			t.Errorf("with room for three: %v of %d", got, n)
		}
		must(t, g.EndpointsOn(s, DeviceEdges{From: from, To: to, Done: done}, device.Slice[uint32]{}, count))
		if n := devicetest.Download(t, s, count)[0]; n != 3 {
			t.Errorf("without room: %d, want 3", n)
		}
		before, err := g.Stats(t.Context())
		must(t, err)
		if _, host := dev.(device.Host); host != (before.Bytes < 1<<20) {
			t.Errorf("%d bytes, with a bit for each of 2^28 vertices on a GPU", before.Bytes)
		}
		must(t, g.Close())
	})
}

// TestEndpointsOnMisuse checks that invalid arguments are refused before anything is written.
func TestEndpointsOnMisuse(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		s, host := devicetest.NewStream(t, dev), devicetest.OpenCPU(t, 1)
		elsewhere := devicetest.NewStream(t, host)
		g, err := New(dev, &Options{MaxVertices: 50})
		must(t, err)
		column, other := devicetest.Upload(t, s, []uint32{1, 2}), devicetest.Upload(t, elsewhere, []uint32{1, 2})
		count := devicetest.Upload(t, s, []uint64{77})
		e := DeviceEdges{From: column, To: column}
		for name, run := range map[string]func() error{
			"no stream":                 func() error { return g.EndpointsOn(nil, e, column, count) },
			"another device's stream":   func() error { return g.EndpointsOn(elsewhere, e, column, count) },
			"edges of another device":   func() error { return g.EndpointsOn(s, DeviceEdges{From: other, To: other}, column, count) },
			"room of another device":    func() error { return g.EndpointsOn(s, e, other, count) },
			"a count of another device": func() error { return g.EndpointsOn(s, e, column, devicetest.Upload(t, elsewhere, []uint64{0})) },
			"no count":                  func() error { return g.EndpointsOn(s, e, column, device.Slice[uint64]{}) },
			"more vertices than may be": func() error {
				return g.EndpointsOn(s, DeviceEdges{Vertices: 51, From: column, To: column}, column, count)
			},
		} {
			if err := run(); !errors.Is(err, device.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !panics(func() { _ = g.EndpointsOn(s, DeviceEdges{From: column, To: column.Sub(0, 1)}, column, count) }) {
			t.Error("columns of other lengths do not panic")
		}
		if got, n := devicetest.Download(t, s, column), devicetest.Download(t, s, count)[0]; n != 77 || !slices.Equal(got, []uint32{1, 2}) {
			t.Errorf("%v and %d have been written", got, n)
		}
		must(t, g.Close())
		if err := g.EndpointsOn(s, e, column, count); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("of a graph that is closed: %v", err)
		}
	})
}
