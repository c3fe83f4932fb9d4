package graph

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// DeviceCSR is a [CSR] in device memory, where kernels read it. [Graph.CSROn] and [CSR.Upload] make
// it. It takes 8 bytes a vertex and 4 bytes an arc until Free.
type DeviceCSR struct {
	offsets   device.Slice[uint64]
	neighbors device.Slice[uint32]
	host      CSR // its properties, and on a device.Host its rows
}

// Upload copies a graph to the device of a stream. Later work of the stream can use it.
func (g *CSR) Upload(s *device.Stream) (*DeviceCSR, error) {
	if s == nil {
		return nil, wrap("Upload", fmt.Errorf("%w: no stream", device.ErrInvalid))
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

// makeCSR allocates a graph with the properties of another, except for its rows.
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

// freeAfterError frees the remains after an error, when the stream is idle.
func (d *DeviceCSR) freeAfterError(s *device.Stream) error {
	return errors.Join(s.Sync(context.Background()), d.Free())
}

// Download copies the graph to host memory, after the earlier work of the stream.
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

// checkUsable refuses a freed graph, and a stream of another device.
func (d *DeviceCSR) checkUsable(s *device.Stream) error {
	if d.freed() {
		return fmt.Errorf("%w: the graph has been freed", device.ErrClosed)
	}
	return (&batch.Batch{}).CheckDevice(d.Device(), s)
}

// freed reports whether Free has been called: every other graph has an offset.
func (d *DeviceCSR) freed() bool { return d.offsets.Len() == 0 }

// Host returns the same memory as a [CSR] on a device.Host, nil on other devices. It must not be
// used after Free.
func (d *DeviceCSR) Host() *CSR {
	if !isHost(d.Device()) || d.freed() {
		return nil
	}
	return &d.host
}

// Device returns the device of the graph.
func (d *DeviceCSR) Device() device.Device { return d.offsets.Device() }

// Vertices is [CSR.Vertices].
func (d *DeviceCSR) Vertices() int { return max(0, d.offsets.Len()-1) }

// Arcs is [CSR.Arcs].
func (d *DeviceCSR) Arcs() int { return d.neighbors.Len() }

// Edges is [CSR.Edges].
func (d *DeviceCSR) Edges() int {
	return edgesOf(d.host.directed, uint64(d.Arcs()), uint64(d.host.loops))
}

// Loops is [CSR.Loops].
func (d *DeviceCSR) Loops() int { return d.host.loops }

// Directed is [CSR.Directed].
func (d *DeviceCSR) Directed() bool { return d.host.directed }

// Sorted is [CSR.Sorted].
func (d *DeviceCSR) Sorted() bool { return d.host.sorted }

// Simple is [CSR.Simple].
func (d *DeviceCSR) Simple() bool { return d.host.simple }

// Offsets returns the positions in Targets at which the rows begin, and the end of the last one.
// The slice belongs to the graph and must not be modified.
func (d *DeviceCSR) Offsets() device.Slice[uint64] { return d.offsets.Sub(0, d.offsets.Len()) }

// Targets returns the neighbors of all vertices, row by row. The slice belongs to the graph, as
// that of Offsets.
func (d *DeviceCSR) Targets() device.Slice[uint32] { return d.neighbors.Sub(0, d.neighbors.Len()) }

// Free frees the memory. Work that uses it must have completed. Algorithms on the graph then return
// device.ErrClosed. Free is idempotent.
func (d *DeviceCSR) Free() error {
	d.host = CSR{directed: d.host.directed}
	return errors.Join(d.offsets.Free(), d.neighbors.Free())
}

// DeviceWeighted is a [Weighted] in device memory.
type DeviceWeighted[W Weight] struct {
	*DeviceCSR
	weights device.Slice[W]
}

// Upload is [CSR.Upload] with weights.
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

// Download is [DeviceCSR.Download] with weights.
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

// Host is [DeviceCSR.Host] with weights.
func (d *DeviceWeighted[W]) Host() *Weighted[W] {
	g := d.DeviceCSR.Host()
	if g == nil {
		return nil
	}
	return NewWeighted(g, d.weights.Host())
}

// Weights returns the weights of all arcs, in the order of Targets. The slice belongs to the graph,
// as that of Targets.
func (d *DeviceWeighted[W]) Weights() device.Slice[W] { return d.weights.Sub(0, d.weights.Len()) }

// Free is [DeviceCSR.Free].
func (d *DeviceWeighted[W]) Free() error { return errors.Join(d.DeviceCSR.Free(), d.weights.Free()) }

// CSROn is [Graph.CSR] in the memory of the graph's device, without a copy through the host. It
// waits for the rows to be written.
func (g *Graph) CSROn(ctx context.Context, s *device.Stream) (*DeviceCSR, error) {
	d, _, err := exportCurrent[uint32](ctx, g.store, s, false)
	return d, err
}

// CSROn is [Graph.CSROn] with weights.
func (g *WeightedGraph[W]) CSROn(ctx context.Context, s *device.Stream) (*DeviceWeighted[W], error) {
	d, weights, err := exportCurrent[W](ctx, g.store, s, true)
	if err != nil {
		return nil, err
	}
	return &DeviceWeighted[W]{d, weights}, nil
}

// CSROn is [Graph.CSROn] of the snapshot, while updates continue.
func (s *Snapshot) CSROn(ctx context.Context, stream *device.Stream) (*DeviceCSR, error) {
	d, _, err := exportSnapshot[uint32](ctx, s, stream, false)
	return d, err
}

// CSROn is [WeightedGraph.CSROn] of the snapshot.
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

// exportOn writes all rows to new memory and waits for that.
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

// writeRows submits writing rows with their degrees and offsets.
func (g *store) writeRows(s *device.Stream, v *view, b *batch.Batch) error {
	if err := g.engine.degrees(context.Background(), s, v, b); err != nil {
		return err
	}
	if err := g.engine.offsets(s, b); err != nil {
		return err
	}
	return g.engine.rows(context.Background(), s, v, b)
}
