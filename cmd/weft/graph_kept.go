package main

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
)

// kept is a result that is updated with each batch of a graph.
type kept interface {
	inserted(graph.Edges) error // after an insertion: the new edges
	leave(graph.Edges) error    // before a deletion: all edges of it
	deleted(graph.Edges) error  // after a deletion: the removed edges
	// value returns the result, and its vertex, if it has one.
	value() (x float64, vertex string, err error)
	close() error
}

// keep returns the result of the empty graph.
func (r *replayer) keep() (kept, error) {
	empty, err := graph.Build(r.ctx, r.dev, graph.Edges{Vertices: r.file.Vertices}, &graph.Options{Directed: r.Directed, MaxVertices: max(1, r.file.Vertices)})
	if err != nil {
		return nil, err
	}
	switch r.o.result {
	case "components":
		c, err := algo.NewConnected(r.ctx, r.dev, empty)
		return &keptComponents{r, c, false}, err
	case "triangles":
		return &keptTriangles{r, 0}, nil
	case "pagerank":
		return r.keepRanks(empty)
	}
	return keptEdges{r}, nil
}

// keptEdges stores nothing: the graph has the number of edges.
type keptEdges struct{ *replayer }

func (k keptEdges) inserted(graph.Edges) error { return nil }

func (k keptEdges) leave(graph.Edges) error { return nil }

func (k keptEdges) deleted(graph.Edges) error { return nil }

func (k keptEdges) close() error { return nil }

func (k keptEdges) value() (float64, string, error) { return float64(k.g.Edges()), "", nil }

// keptComponents counts components, from scratch after deletions.
type keptComponents struct {
	*replayer
	connected *algo.Connected
	stale     bool
}

func (k *keptComponents) inserted(e graph.Edges) error {
	if k.stale {
		return nil
	}
	e.Vertices = k.file.Vertices // possibly more than the default
	return k.connected.Insert(k.ctx, e)
}

func (k *keptComponents) leave(graph.Edges) error { return nil }

func (k *keptComponents) deleted(graph.Edges) error {
	k.stale = true
	return nil
}

func (k *keptComponents) close() error { return nil }

func (k *keptComponents) value() (float64, string, error) {
	if k.stale {
		c, err := k.g.CSR(k.ctx)
		if err == nil {
			err = k.connected.Reset(k.ctx, c)
		}
		if err != nil {
			return 0, "", err
		}
		k.stale = false
	}
	alone := k.file.Vertices - k.connected.Vertices() // vertices that have had no edge yet
	return float64(k.connected.Count() + alone), "", nil
}

// keptTriangles counts triangles.
type keptTriangles struct {
	*replayer
	triangles uint64
}

func (k *keptTriangles) inserted(e graph.Edges) error {
	n, err := algo.TrianglesOf(k.ctx, k.on, k.g, e)
	k.triangles += n
	return err
}

func (k *keptTriangles) leave(e graph.Edges) error {
	n, err := algo.TrianglesOf(k.ctx, k.on, k.g, e)
	k.triangles -= n
	return err
}

func (k *keptTriangles) deleted(graph.Edges) error { return nil }

func (k *keptTriangles) close() error { return nil }

func (k *keptTriangles) value() (float64, string, error) { return float64(k.triangles), "", nil }

// keptRanks keeps PageRank on the graph's device. Edges that come and go between two results are
// applied together.
type keptRanks struct {
	*replayer
	stream   *device.Stream
	ranking  *algo.DeviceRanking
	in, gone graph.Edges
}

func (r *replayer) keepRanks(empty *graph.CSR) (_ kept, err error) {
	k := &keptRanks{replayer: r}
	if k.stream, err = r.on.NewStream(); err != nil {
		return nil, err
	}
	rows, err := empty.Upload(k.stream)
	if err == nil {
		k.ranking, err = algo.NewRankingOn(r.ctx, k.stream, rows, nil)
		err = errors.Join(err, k.stream.Sync(context.WithoutCancel(r.ctx)), rows.Free())
	}
	if err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func (k *keptRanks) close() (err error) {
	if k.ranking != nil {
		err = k.ranking.Free()
	}
	return errors.Join(err, k.stream.Close())
}

func (k *keptRanks) inserted(e graph.Edges) error {
	k.in.From, k.in.To = append(k.in.From, e.From...), append(k.in.To, e.To...)
	return nil
}

func (k *keptRanks) leave(graph.Edges) error { return nil }

func (k *keptRanks) deleted(e graph.Edges) error {
	k.gone.From, k.gone.To = append(k.gone.From, e.From...), append(k.gone.To, e.To...)
	return nil
}

func (k *keptRanks) value() (float64, string, error) {
	err := k.follow()
	if err != nil || k.ranking.Vertices() == 0 {
		return 0, "", err
	}
	k.in, k.gone = graph.Edges{}, graph.Edges{}
	best, ranks := 0, make([]uint64, k.ranking.Vertices())
	if err := k.ranking.Ranks().CopyTo(k.ctx, k.stream, ranks); err != nil {
		return 0, "", err
	}
	for v, r := range ranks {
		if r > ranks[best] {
			best = v
		}
	}
	return float64(ranks[best]) / algo.RankOne, k.file.Names.Name(uint32(best)), nil
}

// follow copies edges to the device, and updates the ranks.
func (k *keptRanks) follow() (err error) {
	var lists [2]graph.DeviceEdges
	for i, e := range []graph.Edges{k.in, k.gone} {
		if err == nil {
			lists[i].From, err = device.Upload(k.stream, e.From)
		}
		if err == nil {
			lists[i].To, err = device.Upload(k.stream, e.To)
		}
	}
	if err == nil {
		_, err = k.ranking.Update(k.ctx, k.stream, k.g, lists[0], lists[1])
	}
	err = errors.Join(err, k.stream.Sync(context.WithoutCancel(k.ctx)))
	for i := range lists {
		err = errors.Join(err, lists[i].From.Free(), lists[i].To.Free())
	}
	return err
}
