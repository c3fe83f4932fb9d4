package graph

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// DeviceCSR is a [CSR] in device memory, where kernels read it. [Graph.CSROn] and [CSR.Upload] make
// one. It takes 8 bytes a vertex and 4 bytes an arc until Free.
type DeviceCSR struct {
	offsets   device.Slice[uint64]
	neighbors device.Slice[uint32]
	host      CSR // properties of the graph, and on a device.Host also the rows
}

// Upload copies a graph to the device of a stream. Later work of the stream can read the copy.
func (g *CSR) Upload(s *device.Stream) (*DeviceCSR, error) {
	if s == nil {
		return nil, wrap("Upload", fmt.Errorf("%w: the stream is nil", device.ErrInvalid))
	}
	d, err := makeCSR(s.Device(), g.Vertices(), g.Arcs(), g)
	if err == nil {
		err = errors.Join(d.offsets.CopyFrom(s, g.offsets), d.neighbors.CopyFrom(s, g.neighbors))
	}
	if err != nil {
		return nil, wrap("Upload", errors.Join(err, d.freeAfterError(s)))
	}
	return d, nil
}

// makeCSR allocates a graph on dev. It copies all properties of props except the rows.
func makeCSR(dev device.Device, vertices, arcs int, props *CSR) (d *DeviceCSR, err error) {
	d = &DeviceCSR{host: *props}
	if d.offsets, err = device.Make[uint64](dev, vertices+1); err != nil {
		return d, fmt.Errorf("offsets of %d vertices: %w", vertices, err)
	}
	if d.neighbors, err = device.Make[uint32](dev, arcs); err != nil {
		return d, fmt.Errorf("%d arcs: %w", arcs, err)
	}
	d.host.offsets, d.host.neighbors = d.offsets.Host(), d.neighbors.Host()
	return d, nil
}

// freeAfterError waits for the stream and frees a graph that was only partly made.
func (d *DeviceCSR) freeAfterError(s *device.Stream) error {
	return errors.Join(s.Sync(context.Background()), d.Free())
}

// Download waits for the earlier work of the stream and copies the graph to host memory.
func (d *DeviceCSR) Download(ctx context.Context, s *device.Stream) (*CSR, error) {
	if err := d.checkUsable(s); err != nil {
		return nil, wrap("Download", err)
	}
	g := d.host
	g.offsets, g.neighbors = make([]uint64, d.offsets.Len()), make([]uint32, d.neighbors.Len())
	err := d.offsets.CopyTo(ctx, s, g.offsets)
	if err == nil {
		err = d.neighbors.CopyTo(ctx, s, g.neighbors)
	}
	if err != nil {
		return nil, wrap("Download", err)
	}
	return &g, nil
}

// checkUsable returns an error if the graph is freed, or if the stream belongs to another device.
func (d *DeviceCSR) checkUsable(s *device.Stream) error {
	if d.freed() {
		return fmt.Errorf("%w: the graph has been freed", device.ErrClosed)
	}
	return (&batch.Batch{}).CheckDevice(d.Device(), s)
}

// freed reports whether Free has been called. Every other graph has at least one offset.
func (d *DeviceCSR) freed() bool { return d.offsets.Len() == 0 }

// Host returns the graph as a [CSR] that shares its memory. It returns nil unless the device is a
// device.Host. The CSR must not be used after Free.
func (d *DeviceCSR) Host() *CSR {
	if !isHost(d.Device()) || d.freed() {
		return nil
	}
	return &d.host
}

// Device returns the device of the graph.
func (d *DeviceCSR) Device() device.Device { return d.offsets.Device() }

// Vertices returns the number of vertices.
func (d *DeviceCSR) Vertices() int { return max(0, d.offsets.Len()-1) }

// Arcs returns the number of entries in all rows. See [CSR.Arcs].
func (d *DeviceCSR) Arcs() int { return d.neighbors.Len() }

// Edges returns the number of edges.
func (d *DeviceCSR) Edges() int {
	return edgesOf(d.host.directed, uint64(d.Arcs()), uint64(d.host.loops))
}

// Loops returns the number of edges from a vertex to itself.
func (d *DeviceCSR) Loops() int { return d.host.loops }

// Directed reports whether edges lead only one way.
func (d *DeviceCSR) Directed() bool { return d.host.directed }

// Sorted reports whether the neighbors of each vertex ascend.
func (d *DeviceCSR) Sorted() bool { return d.host.sorted }

// Simple reports whether the graph has neither self loops nor parallel edges. See [CSR.Simple].
func (d *DeviceCSR) Simple() bool { return d.host.simple }

// Offsets returns the index in Targets at which each row begins, followed by the end of the last
// row. The slice belongs to the graph and must not be modified.
func (d *DeviceCSR) Offsets() device.Slice[uint64] { return d.offsets.Sub(0, d.offsets.Len()) }

// Targets returns the neighbors of all vertices, row by row. The slice must not be modified.
func (d *DeviceCSR) Targets() device.Slice[uint32] { return d.neighbors.Sub(0, d.neighbors.Len()) }

// Free frees the memory. Work that uses the graph must have completed. Later algorithms on the
// graph return device.ErrClosed. Free is idempotent.
func (d *DeviceCSR) Free() error {
	d.host = CSR{directed: d.host.directed}
	return errors.Join(d.offsets.Free(), d.neighbors.Free())
}

// DeviceWeighted is a DeviceCSR with a weight per arc.
type DeviceWeighted[W Weight] struct {
	*DeviceCSR
	weights device.Slice[W]
}

// Upload copies a graph and its weights to the device of a stream. See [CSR.Upload].
func (g *Weighted[W]) Upload(s *device.Stream) (*DeviceWeighted[W], error) {
	rows, err := g.CSR.Upload(s)
	if err != nil {
		return nil, err
	}
	weights, err := device.Upload(s, g.weights)
	if err != nil {
		return nil, wrap("Upload", errors.Join(fmt.Errorf("%d weights: %w", len(g.weights), err), rows.freeAfterError(s)))
	}
	return &DeviceWeighted[W]{rows, weights}, nil
}

// Download waits for the stream and copies the graph and its weights to host memory.
func (d *DeviceWeighted[W]) Download(ctx context.Context, s *device.Stream) (*Weighted[W], error) {
	g, err := d.DeviceCSR.Download(ctx, s)
	if err != nil {
		return nil, err
	}
	weights := make([]W, d.weights.Len())
	if err := d.weights.CopyTo(ctx, s, weights); err != nil {
		return nil, wrap("Download", err)
	}
	return NewWeighted(g, weights), nil
}

// Host returns the graph as a [Weighted] that shares its memory. See [DeviceCSR.Host].
func (d *DeviceWeighted[W]) Host() *Weighted[W] {
	g := d.DeviceCSR.Host()
	if g == nil {
		return nil
	}
	return NewWeighted(g, d.weights.Host())
}

// Weights returns the weights of all arcs, in the order of Targets. The slice must not be modified.
func (d *DeviceWeighted[W]) Weights() device.Slice[W] { return d.weights.Sub(0, d.weights.Len()) }

// Free frees the rows and the weights. See [DeviceCSR.Free].
func (d *DeviceWeighted[W]) Free() error { return errors.Join(d.DeviceCSR.Free(), d.weights.Free()) }

// CSROn returns an immutable copy of the graph on the same device, which the caller must free. The
// rows are not copied through the host. CSROn waits until they are written. See [Graph.CSR].
func (g *Graph) CSROn(ctx context.Context, s *device.Stream) (*DeviceCSR, error) {
	d, _, err := exportCurrent[uint32](ctx, g.store, s, false)
	return d, err
}

// CSROn returns an immutable copy of the graph with weights on the same device. See [Graph.CSROn].
func (g *WeightedGraph[W]) CSROn(ctx context.Context, s *device.Stream) (*DeviceWeighted[W], error) {
	d, weights, err := exportCurrent[W](ctx, g.store, s, true)
	if err != nil {
		return nil, err
	}
	return &DeviceWeighted[W]{d, weights}, nil
}

// CSROn returns an immutable copy of the snapshot on the same device, while updates continue. See
// [Graph.CSROn].
func (s *Snapshot) CSROn(ctx context.Context, stream *device.Stream) (*DeviceCSR, error) {
	d, _, err := exportSnapshot[uint32](ctx, s, stream, false)
	return d, err
}

// CSROn returns an immutable copy of the snapshot and its weights. See [Graph.CSROn].
func (s *WeightedSnapshot[W]) CSROn(ctx context.Context, stream *device.Stream) (*DeviceWeighted[W], error) {
	d, weights, err := exportSnapshot[W](ctx, s.Snapshot, stream, true)
	if err != nil {
		return nil, err
	}
	return &DeviceWeighted[W]{d, weights}, nil
}

func exportCurrent[W Weight](ctx context.Context, g *store, s *device.Stream, weighted bool) (d *DeviceCSR, weights device.Slice[W], err error) {
	err = g.read(ctx, nil, func(v *view) error {
		d, weights, err = exportOn[W](ctx, g, v, s, g.arcs, g.loops, weighted)
		return err
	})
	return d, weights, wrap("CSROn", err)
}

func exportSnapshot[W Weight](ctx context.Context, snap *Snapshot, s *device.Stream, weighted bool) (d *DeviceCSR, weights device.Slice[W], err error) {
	err = snap.withOpen(ctx, func() error {
		d, weights, err = exportOn[W](ctx, snap.graph, snap.view, s, snap.arcs, snap.loops, weighted)
		return err
	})
	return d, weights, wrap("CSROn", err)
}

// exportOn writes all rows to new device memory and waits until they are written.
func exportOn[W Weight](ctx context.Context, g *store, v *view, s *device.Stream, arcs, loops uint64, weighted bool) (d *DeviceCSR, weights device.Slice[W], err error) {
	if err := errors.Join((&batch.Batch{}).CheckDevice(g.dev, s), ctx.Err()); err != nil {
		return nil, weights, err
	}
	props := &CSR{loops: int(loops), directed: g.opts.Directed, sorted: true, simple: g.simple(loops)}
	d, err = makeCSR(g.dev, v.vertices, int(arcs), props)
	if err == nil && weighted {
		weights, err = device.Make[W](g.dev, int(arcs))
	}
	var degrees device.Slice[uint32]
	if err == nil {
		degrees, err = device.Make[uint32](g.dev, v.vertices)
	}
	if err == nil {
		b := rowsBatchOn(device.Slice[uint32]{}, degrees, d.offsets, d.neighbors)
		b.N = v.vertices
		b.Columns[batch.Keys] = batch.Column{}
		if weighted {
			b.Columns[batch.Vals] = batch.RowsOn(weights)
		}
		err = g.writeRows(s, v, b)
	}
	err = errors.Join(err, s.Sync(ctx))
	if err != nil {
		err = errors.Join(err, s.Sync(context.Background()), d.Free(), weights.Free())
		d = nil
	}
	return d, weights, errors.Join(err, degrees.Free())
}

// writeRows submits kernels that write the degrees, the offsets and the rows of the vertices of a
// batch.
func (g *store) writeRows(s *device.Stream, v *view, b *batch.Batch) error {
	if err := g.engine.degrees(context.Background(), s, v, b); err != nil {
		return err
	}
	if err := g.engine.offsets(s, b); err != nil {
		return err
	}
	return g.engine.rows(context.Background(), s, v, b)
}
