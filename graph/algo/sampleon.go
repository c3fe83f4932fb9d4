package algo

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/gpu/sampling"
)

// SampleOn draws neighbors of vertices in a graph on a device, and waits for the result. vertices
// and out lie on the same device. out receives the same elements as from [Sample].
func SampleOn(ctx context.Context, s *device.Stream, g *graph.DeviceCSR, vertices device.Slice[uint32], fanout int, out device.Slice[uint32], opts *SampleOptions) (drawn int, err error) {
	mustMatchSample(vertices.Len(), fanout, out.Len())
	if err := checkReadable("sample", s, g); err != nil {
		return 0, err
	}
	for _, column := range []device.Slice[uint32]{vertices, out} {
		if column.Len() > 0 && column.Device() != g.Device() {
			return 0, invalid("sample",
				"the vertices or the output are on another device than the graph")
		}
	}
	if c := g.Host(); c != nil {
		return Sample(ctx, g.Device(), c, vertices.Host(), fanout, out.Host(), opts)
	}
	k, err := sampling.Load(g.Device())
	if err != nil {
		return 0, wrap("sample", err)
	}
	o := sampling.Sample{Offsets: g.Offsets(), Neighbors: g.Targets(), Vertices: vertices, Fanout: fanout, Out: out}
	if opts != nil {
		o.Seed, o.Replace = opts.Seed, opts.Replace
	}
	drawn, bad, err := k.Draw(ctx, s, &o)
	if err == nil && bad >= 0 {
		var v [1]uint32
		if err = vertices.Sub(bad, bad+1).CopyTo(ctx, s, v[:]); err == nil {
			return 0, vertexError(bad, v[0], g.Vertices())
		}
	}
	return drawn, wrap("sample", err)
}

// mustMatchSample panics unless out has fanout elements for each vertex.
func mustMatchSample(vertices, fanout, out int) {
	if fanout < 0 || out != fanout*vertices || vertices > 0 && out/vertices != fanout {
		panic(fmt.Sprintf("algo: sample: %d elements for %d vertices with %d neighbors each", out, vertices, fanout))
	}
}

func vertexError(i int, v uint32, vertices int) error {
	return invalid("sample", "vertex %d of the batch is %d, but there are %d", i, v, vertices)
}

// sampleByKernels runs Sample on a device with kernels.
func sampleByKernels(ctx context.Context, dev device.Device, g *graph.CSR, vertices []uint32, fanout int, out []uint32, opts *SampleOptions) (drawn int, err error) {
	err = onStream(ctx, dev, "sample", func(s *device.Stream) (err error) {
		uploaded, err := g.Upload(s)
		if err != nil {
			return err
		}
		var sample device.Slice[uint32]
		column, err := device.Upload(s, vertices)
		if err == nil {
			sample, err = device.Make[uint32](dev, len(out))
		}
		if err == nil {
			drawn, err = SampleOn(ctx, s, uploaded, column, fanout, sample, opts)
		}
		if err == nil {
			err = sample.CopyTo(ctx, s, out)
		}
		return errors.Join(err, s.Sync(context.Background()), column.Free(), sample.Free(), uploaded.Free())
	})
	return drawn, err
}
