package graph

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// DeviceEdges is a list of edges in device memory. See [Edges]. The caller owns the slices.
type DeviceEdges struct {
	// Vertices is the number of vertices. See [Edges.Vertices].
	Vertices int
	From, To device.Slice[uint32]
	// Done selects the edges for which it is true. It may be the result of [Graph.InsertOn] or
	// [Graph.DeleteOn], to select edges that changed a graph. If empty, Done selects all edges.
	Done device.Slice[bool]
}

// Check returns device.ErrInvalid if a slice lies on another device than dev. It panics if the
// slices differ in length.
func (e *DeviceEdges) Check(dev device.Device) error {
	n := e.From.Len()
	if e.To.Len() != n || e.Done.Len() != n && e.Done.Len() != 0 {
		panic(fmt.Sprintf("graph: edges: %d edges have a first vertex, %d have a second one, and %d have a flag in Done", n, e.To.Len(), e.Done.Len()))
	}
	for _, d := range []device.Device{e.From.Device(), e.To.Device()} {
		if n > 0 && d != dev {
			return fmt.Errorf("%w: the edges lie on another device than the graph", device.ErrInvalid)
		}
	}
	if e.Done.Len() > 0 && e.Done.Device() != dev {
		return fmt.Errorf("%w: Done is on another device than the graph", device.ErrInvalid)
	}
	return nil
}

// Host returns the selected edges if they lie on a device.Host, and no edges otherwise. If Done is
// empty, the result shares the memory of the list.
func (e *DeviceEdges) Host() Edges {
	list := Edges{Vertices: e.Vertices, From: e.From.Host(), To: e.To.Host()}
	if done := e.Done.Host(); len(done) > 0 {
		return list.Filter(done)
	}
	return list
}
