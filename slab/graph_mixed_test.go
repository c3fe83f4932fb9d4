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

// apply runs a mixed batch with repeated edges, and compares the result of each operation with the
// model.
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
	switch {
	case p.r.IntN(2) == 0:
		n = p.applyOn(kinds, from, to, weights, done)
	case p.weighted != nil:
		n, err = p.weighted.Apply(p.Context(), kinds, from, to, weights, done)
	default:
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

// applyOn runs the same batch from device memory, where all kinds except OpPut delete.
func (p *graphPlayer) applyOn(kinds []weft.OpKind, from, to, weights []uint32, done []bool) int {
	p.Helper()
	ctx := p.Context()
	s, err := p.g.core.Device.NewStream()
	noError(p, err)
	c := &columns{TB: p.TB, s: s}
	defer c.close()
	bytes := make([]uint8, len(kinds))
	for i, k := range kinds {
		if bytes[i] = uint8(k); k == weft.OpDelete && i%3 == 0 {
			bytes[i] = uint8(weft.OpGet)
		}
	}
	on, u, v, w := columnOf(c, bytes), columnOf(c, from), columnOf(c, to), columnOf(c, weights)
	ok, count := columnOf(c, make([]bool, len(from))), columnOf(c, []uint64{77})
	if p.weighted != nil {
		err = p.weighted.ApplyOn(s, on, u, v, w, ok, count)
	} else {
		err = p.set.ApplyOn(s, on, u, v, ok, count)
	}
	noError(p, err)
	p.sameEndpoints(c, u, v, ok, from, to)
	if p.weighted != nil { // once more without results
		err = p.weighted.ApplyOn(s, on, u, v, w, device.Slice[bool]{})
	} else {
		err = p.set.ApplyOn(s, on, u, v, device.Slice[bool]{})
	}
	noError(p, err)
	var n [1]uint64
	noError(p, ok.CopyTo(ctx, s, done))
	noError(p, count.CopyTo(ctx, s, n[:]))
	noError(p, p.g.Sync(ctx))
	return int(n[0]) - 77
}

// saved saves the graph and loads it into another graph of the same kind.
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

// TestGraphRefusesMixed checks that an invalid mixed batch changes nothing.
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
	c := &columns{TB: t, s: devicetest.NewStream(t, g.Device())}
	bad := columnOf(c, []uint32{1, 99, 3, 10})
	kinds, none := columnOf(c, []uint8{uint8(remove), uint8(remove), uint8(put), uint8(put)}), device.Slice[bool]{}
	if err := g.ApplyOn(c.s, kinds, bad, columnOf(c, []uint32{2, 4, 10, 10}), none); !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "edge 2 from 3 to 10") {
		t.Errorf("a vertex that cannot be, on the device: %v", err)
	}
	if err := g.ApplyOn(c.s, kinds, bad, bad, none, columnOf(c, []uint64{0}), columnOf(c, []uint64{0})); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("two counts: %v", err)
	}
	noError(t, g.Sync(t.Context()))
	if g.Edges() != 1 {
		t.Errorf("%d edges, want 1", g.Edges())
	}
	noError(t, g.ApplyOn(c.s, kinds.Sub(0, 0), bad.Sub(0, 0), bad.Sub(0, 0), none))
	// Without results.
	noError(t, g.ApplyOn(c.s, kinds.Sub(0, 2), bad.Sub(0, 2), columnOf(c, []uint32{4, 4}), none))
	for _, free := range c.free {
		noError(t, free())
	}
	n, err = g.Apply(t.Context(), []weft.OpKind{remove, put, put}, []uint32{99, 3, 3}, []uint32{4, 3, 4}, done)
	if n != 1 || err != nil || done[0] || done[1] || !done[2] {
		t.Errorf("an edge that cannot be is deleted, and a loop inserted: %d, %v, %v", n, done, err)
	}
}
