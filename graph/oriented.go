package graph

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/triangles"
)

// Oriented returns a directed view of the graph on the same device, and waits until it is complete.
// The caller must free the view. See [CSR.Oriented] for its rows.
func (d *DeviceCSR) Oriented(ctx context.Context, s *device.Stream) (*DeviceCSR, error) {
	o, err := d.orientedOn(ctx, s)
	return o, wrap("Oriented", err)
}

func (d *DeviceCSR) orientedOn(ctx context.Context, s *device.Stream) (o *DeviceCSR, err error) {
	if err := d.checkUsable(s); err != nil {
		return nil, err
	}
	if g := d.Host(); g != nil {
		v, err := g.Oriented(ctx, d.Device())
		if err != nil {
			return nil, err
		}
		return v.Upload(s)
	}
	k, err := triangles.Load(d.Device())
	if err != nil {
		return nil, err
	}
	rows := triangles.Rows{Offsets: d.offsets, Neighbors: d.neighbors}
	if d.host.directed || !d.host.sorted {
		if rows, err = k.Ascend(ctx, s, rows, d.host.directed); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, rows.Free()) }()
	}
	view, err := k.Orient(ctx, s, rows)
	if err != nil {
		return nil, err
	}
	return &DeviceCSR{offsets: view.Offsets, neighbors: view.Neighbors, host: CSR{directed: true, sorted: true, simple: true}}, nil
}

// orientByKernels computes Oriented on a device with kernels.
func (g *CSR) orientByKernels(ctx context.Context, dev device.Device) (o *CSR, err error) {
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	uploaded, err := g.Upload(s)
	if err != nil {
		return nil, err
	}
	view, err := uploaded.Oriented(ctx, s)
	if err == nil {
		o, err = view.Download(ctx, s)
		err = errors.Join(err, s.Sync(context.Background()), view.Free())
	}
	if err = errors.Join(err, s.Sync(context.Background()), uploaded.Free()); err != nil {
		return nil, err
	}
	return o, nil
}
