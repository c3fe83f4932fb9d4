package algo

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/gpu/traversal"
)

// DeviceConnected maintains connected components in device memory. See [Connected]. It processes
// batches of edges in device memory, and the host waits once per batch. Until Free it takes 4 bytes
// a vertex, and up to half as much again if batches add vertices. After an error of the device,
// only [DeviceConnected.Reset] is possible. A DeviceConnected is not safe for concurrent use.
type DeviceConnected struct {
	dev     device.Device
	host    *Connected // not nil on a CPU
	k       *traversal.DynamicKernels
	parents device.Slice[uint32] // length n, or more if batches have added vertices
	words   device.Slice[uint64] // results of the kernels for a batch
	n       int
	count   int
	failed  error // error of the device, after which the components are unknown
	freed   bool
}

// NewConnectedOn finds the components of a graph on a device, and waits for them.
func NewConnectedOn(ctx context.Context, s *device.Stream, g *graph.DeviceCSR) (*DeviceConnected, error) {
	if err := checkReadable("connected", s, g); err != nil {
		return nil, err
	}
	c := &DeviceConnected{dev: g.Device()}
	if isHost(c.dev) {
		c.host = &Connected{host: c.dev.(device.Host)}
	} else {
		var err error
		if c.k, err = traversal.LoadDynamic(c.dev); err == nil {
			c.words, err = device.Make[uint64](c.dev, traversal.UniteWords)
		}
		if err != nil {
			return nil, wrap("connected", err)
		}
	}
	if err := c.Reset(ctx, s, g); err != nil {
		return nil, errors.Join(err, c.Free())
	}
	return c, nil
}

// checkUsable returns an error after Free, or if the stream belongs to another device.
func (c *DeviceConnected) checkUsable(s *device.Stream) error {
	switch {
	case c.freed:
		return &failure{"connected", fmt.Errorf("%w: it has been freed", device.ErrClosed)}
	case s == nil || s.Device() != c.dev:
		return invalid("connected", "the stream is on another device than the components")
	}
	return nil
}

// Reset replaces the components by the components of a graph on the device. See [Connected.Reset].
func (c *DeviceConnected) Reset(ctx context.Context, s *device.Stream, g *graph.DeviceCSR) error {
	if err := errors.Join(c.checkUsable(s), checkReadable("connected", s, g)); err != nil {
		return err
	}
	if c.host != nil {
		if err := s.Sync(ctx); err != nil {
			return wrap("connected", err)
		}
		return c.host.Reset(ctx, g.Host())
	}
	labels, err := device.Make[uint32](c.dev, g.Vertices())
	if err != nil {
		return wrap("connected", err)
	}
	count, err := ComponentsOn(ctx, s, g, labels)
	if err != nil {
		return errors.Join(err, labels.Free())
	}
	old := c.parents
	c.parents, c.n, c.count, c.failed = labels, g.Vertices(), count, nil
	return wrap("connected", old.Free())
}

// Insert unites the ends of the edges that edges.Done selects, and waits for that. See
// [Connected.Insert].
func (c *DeviceConnected) Insert(ctx context.Context, s *device.Stream, edges graph.DeviceEdges) error {
	if err := edges.Check(c.dev); err != nil {
		return wrap("connected", err)
	}
	if err := errors.Join(c.checkUsable(s), c.failed, ctx.Err()); err != nil {
		return err
	}
	if c.host != nil {
		if err := s.Sync(ctx); err != nil {
			return wrap("connected", err)
		}
		return c.host.Insert(ctx, edges.Host())
	}
	return wrap("connected", c.insert(context.WithoutCancel(ctx), s, edges))
}

func (c *DeviceConnected) insert(ctx context.Context, s *device.Stream, edges graph.DeviceEdges) error {
	n, err := verticesWith("connected", c.n, graph.Edges{Vertices: edges.Vertices})
	if err != nil {
		return err
	}
	limit := max(n, maxVertices)
	if err := c.grow(ctx, s, n); err != nil || edges.From.Len() == 0 {
		return err
	}
	for {
		united, check, err := c.k.Unite(ctx, s, c.words.Ptr(), c.parents.Ptr(), c.n, edgesOf(edges), limit)
		c.count -= united
		switch {
		case err != nil:
			c.failed = wrap("connected", err)
			return err
		case check.Bad >= 0:
			return rangeErrorOn(ctx, s, "connected", edges, check.Bad, limit)
		case check.Vertices <= c.n:
			return nil
		}
		if err := c.grow(ctx, s, check.Vertices); err != nil {
			return err
		}
	}
}

// grow adds vertices until there are n. It does nothing if there are more.
func (c *DeviceConnected) grow(ctx context.Context, s *device.Stream, n int) error {
	if n > c.parents.Len() {
		parents, err := device.Make[uint32](c.dev, max(n, c.n+c.n/2))
		if err != nil {
			return err
		}
		if c.n > 0 {
			err = errors.Join(s.Copy(parents.Ptr(), c.parents.Ptr(), 4*c.n), s.Sync(ctx))
		}
		if err != nil {
			return errors.Join(err, parents.Free())
		}
		old := c.parents
		c.parents = parents
		if err := old.Free(); err != nil {
			return err
		}
	}
	if n <= c.n {
		return nil
	}
	if err := c.k.AddVertices(ctx, s, c.parents.Ptr(), c.n, n); err != nil {
		return err
	}
	c.count += n - c.n
	c.n = n
	return nil
}

// Vertices returns the number of vertices, including those without edges.
func (c *DeviceConnected) Vertices() int {
	if c.host != nil {
		return c.host.Vertices()
	}
	return c.n
}

// Count returns the number of components.
func (c *DeviceConnected) Count() int {
	if c.host != nil {
		return c.host.Count()
	}
	return c.count
}

// Labels sets labels[v] to the smallest vertex in the component of v, for each vertex v, and waits
// for the result. It panics if the numbers of labels and vertices differ.
func (c *DeviceConnected) Labels(ctx context.Context, s *device.Stream, labels device.Slice[uint32]) error {
	if err := errors.Join(c.checkUsable(s), c.failed); err != nil {
		return err
	}
	n := c.Vertices()
	if labels.Len() != n {
		panic(fmt.Sprintf("algo: connected: %d labels of %d vertices", labels.Len(), n))
	}
	if n > 0 && labels.Device() != c.dev {
		return invalid("connected", "labels lie on another device than the components")
	}
	if c.host != nil {
		c.host.Labels(labels.Host())
		return ctx.Err()
	}
	if n == 0 {
		return ctx.Err()
	}
	if err := c.k.Flatten(ctx, s, c.parents.Ptr(), n); err != nil {
		return wrap("connected", err)
	}
	return wrap("connected", errors.Join(s.Copy(labels.Ptr(), c.parents.Ptr(), 4*n), s.Sync(ctx)))
}

// Free frees the memory. Later calls return device.ErrClosed. Free is idempotent.
func (c *DeviceConnected) Free() error {
	c.freed, c.n, c.count = true, 0, 0
	if c.host != nil {
		c.host.parents, c.host.count = nil, 0
	}
	return errors.Join(c.parents.Free(), c.words.Free())
}
