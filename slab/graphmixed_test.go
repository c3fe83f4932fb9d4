package slab

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// apply runs a mixed batch, in which edges come several times, and compares what is said of each operation with the model.
func (p *graphPlayer) apply() {
	p.Helper()
	from, to, weights := p.draw()
	from, to, weights = append(from, from...), append(to, to...), append(weights, weights...)
	kinds, done, want := make([]weft.OpKind, len(from)), make([]bool, len(from)), 0
	for i := range kinds {
		if kinds[i] = weft.OpPut; p.r.IntN(2) == 0 {
			kinds[i] = weft.OpDelete
		}
		weights[i] += uint32(i)
	}
	var n int
	var err error
	if p.weighted != nil {
		n, err = p.weighted.Apply(p.Context(), kinds, from, to, weights, done)
	} else {
		n, err = p.set.Apply(p.Context(), kinds, from, to, done)
	}
	noError(p, err)
	for i, u := range from {
		k := p.key(u, to[i])
		_, there := p.model[k]
		puts := kinds[i] == weft.OpPut && u != to[i]
		if delete(p.model, k); puts {
			p.model[k] = weights[i]
		}
		if done[i] != (puts != there) {
			p.Fatalf("operation %d, %v of %d-%d, is said to have done something: %v", i, kinds[i], u, to[i], done[i])
		}
		if done[i] {
			want++
		}
	}
	if n != want {
		p.Fatalf("%d operations have done something, want %d", n, want)
	}
}

// saved writes the graph, and another one of the same kind reads it.
func (p *graphPlayer) saved() {
	p.Helper()
	var file bytes.Buffer
	noError(p, p.g.Save(p.Context(), &file))
	o := p.g.policy.opts
	o.Seed, o.Vertices = 0, 0
	q := newGraphPlayer(p.TB, p.g.core.Device, p.weighted != nil, o, p.vertices, p.size, 9)
	defer q.close()
	noError(p, q.g.Load(p.Context(), &file))
	q.model = p.model
	q.same()
}

// A mixed batch with what cannot be changes nothing.
func TestGraphRefusesMixed(t *testing.T) {
	g, err := NewGraph(devicetest.Open(t), &GraphOptions{MaxVertices: 10})
	noError(t, err)
	defer g.Close()
	_, err = g.Insert(t.Context(), []uint32{1}, []uint32{2}, nil)
	noError(t, err)
	done := []bool{true, true, true}
	put, remove := weft.OpPut, weft.OpDelete
	n, err := g.Apply(t.Context(), []weft.OpKind{remove, remove, put}, []uint32{1, 99, 3}, []uint32{2, 4, 10}, done)
	if n != 0 || !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "edge 2 from 3 to 10") || done[0] {
		t.Errorf("a vertex that cannot be: %d, %v, %v", n, done, err)
	}
	n, err = g.Apply(t.Context(), []weft.OpKind{remove, weft.OpGet}, []uint32{1, 1}, []uint32{2, 2}, nil)
	if n != 0 || !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "operation 1") {
		t.Errorf("a lookup: %d, %v", n, err)
	}
	if g.Edges() != 1 {
		t.Errorf("%d edges, want 1", g.Edges())
	}
	n, err = g.Apply(t.Context(), []weft.OpKind{remove, put, put}, []uint32{99, 3, 3}, []uint32{4, 3, 4}, done)
	if n != 1 || err != nil || done[0] || done[1] || !done[2] {
		t.Errorf("an edge that cannot be is deleted, and a loop inserted: %d, %v, %v", n, done, err)
	}
}
