package main

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/graph/algo"
)

// tracker keeps a result up to date while a graph changes.
type tracker interface {
	afterInsert(graph.Edges) error  // takes the new edges after an insertion
	beforeDelete(graph.Edges) error // takes all edges of a deletion before it
	afterDelete(graph.Edges) error  // takes the removed edges after a deletion
	// value returns the result, and the name of a vertex if the result is about one.
	value() (x float64, vertex string, err error)
	close() error
}

// newTracker returns a tracker for an empty graph.
func (r *replayer) newTracker() (tracker, error) {
	empty, err := graph.Build(r.ctx, r.dev, graph.Edges{Vertices: r.file.Vertices}, &graph.Options{Directed: r.Directed, MaxVertices: max(1, r.file.Vertices)})
	if err != nil {
		return nil, err
	}
	switch r.o.result {
	case "components":
		c, err := algo.NewConnected(r.ctx, r.dev, empty)
		return &componentTracker{r, c, false}, err
	case "triangles":
		return &triangleTracker{r, 0}, nil
	case "pagerank":
		return r.newRankTracker(empty)
	}
	return edgeTracker{r}, nil
}

// edgeTracker reads the number of edges from the graph.
type edgeTracker struct{ *replayer }

func (k edgeTracker) afterInsert(graph.Edges) error { return nil }

func (k edgeTracker) beforeDelete(graph.Edges) error { return nil }

func (k edgeTracker) afterDelete(graph.Edges) error { return nil }

func (k edgeTracker) close() error { return nil }

func (k edgeTracker) value() (float64, string, error) { return float64(k.g.Edges()), "", nil }

// componentTracker counts components. After a deletion it recomputes them when the result is next
// needed.
type componentTracker struct {
	*replayer
	connected *algo.Connected
	stale     bool
}

func (k *componentTracker) afterInsert(e graph.Edges) error {
	if k.stale {
		return nil
	}
	e.Vertices = k.file.Vertices // possibly more than the edges contain
	return k.connected.Insert(k.ctx, e)
}

func (k *componentTracker) beforeDelete(graph.Edges) error { return nil }

func (k *componentTracker) afterDelete(graph.Edges) error {
	k.stale = true
	return nil
}

func (k *componentTracker) close() error { return nil }

func (k *componentTracker) value() (float64, string, error) {
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
	isolated := k.file.Vertices - k.connected.Vertices() // vertices that have had no edge so far
	return float64(k.connected.Count() + isolated), "", nil
}

type triangleTracker struct {
	*replayer
	triangles uint64
}

func (k *triangleTracker) afterInsert(e graph.Edges) error {
	n, err := algo.TrianglesOf(k.ctx, k.computeDev, k.g, e)
	k.triangles += n
	return err
}

func (k *triangleTracker) beforeDelete(e graph.Edges) error {
	n, err := algo.TrianglesOf(k.ctx, k.computeDev, k.g, e)
	k.triangles -= n
	return err
}

func (k *triangleTracker) afterDelete(graph.Edges) error { return nil }

func (k *triangleTracker) close() error { return nil }

func (k *triangleTracker) value() (float64, string, error) { return float64(k.triangles), "", nil }

// rankTracker keeps PageRank on the graph's device. It collects the changed edges and applies them
// when the result is needed.
type rankTracker struct {
	*replayer
	stream         *device.Stream
	ranking        *algo.DeviceRanking
	added, removed graph.Edges
}

func (r *replayer) newRankTracker(empty *graph.CSR) (_ tracker, err error) {
	k := &rankTracker{replayer: r}
	if k.stream, err = r.computeDev.NewStream(); err != nil {
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

func (k *rankTracker) close() (err error) {
	if k.ranking != nil {
		err = k.ranking.Free()
	}
	return errors.Join(err, k.stream.Close())
}

func (k *rankTracker) afterInsert(e graph.Edges) error {
	k.added.From, k.added.To = append(k.added.From, e.From...), append(k.added.To, e.To...)
	return nil
}

func (k *rankTracker) beforeDelete(graph.Edges) error { return nil }

func (k *rankTracker) afterDelete(e graph.Edges) error {
	k.removed.From, k.removed.To = append(k.removed.From, e.From...), append(k.removed.To, e.To...)
	return nil
}

func (k *rankTracker) value() (float64, string, error) {
	err := k.updateRanks()
	if err != nil || k.ranking.Vertices() == 0 {
		return 0, "", err
	}
	k.added, k.removed = graph.Edges{}, graph.Edges{}
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

// updateRanks copies the changed edges to the device and updates the ranks.
func (k *rankTracker) updateRanks() (err error) {
	var lists [2]graph.DeviceEdges
	for i, e := range []graph.Edges{k.added, k.removed} {
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
