package graph

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// DeviceEdges is a list of edges in device memory: edge i leads from From[i] to To[i], or lies
// between them. The caller owns the slices.
type DeviceEdges struct {
	// Vertices is the number of vertices, as in [Edges].
	Vertices int
	From, To device.Slice[uint32]
	// Done marks the edges of the list that count: those that changed a graph, as written by
	// [Graph.InsertOn] and [Graph.DeleteOn]. If empty, all edges count.
	Done device.Slice[bool]
}

// Check returns device.ErrInvalid if the list does not lie on the given device. It panics if
// lengths differ.
func (e *DeviceEdges) Check(dev device.Device) error {
	n := e.From.Len()
	if e.To.Len() != n || e.Done.Len() != n && e.Done.Len() != 0 {
		panic(fmt.Sprintf("graph: edges: %d come from vertices, %d lead to some, and of %d it is said whether they were done", n, e.To.Len(), e.Done.Len()))
	}
	for _, d := range []device.Device{e.From.Device(), e.To.Device()} {
		if n > 0 && d != dev {
			return fmt.Errorf("%w: the edges lie on another device than the graph", device.ErrInvalid)
		}
	}
	if e.Done.Len() > 0 && e.Done.Device() != dev {
		return fmt.Errorf("%w: which edges were done lies on another device than the graph", device.ErrInvalid)
	}
	return nil
}

// Host returns the edges that count, on a device.Host; it is empty on other devices. Without Done
// it is the same memory.
func (e *DeviceEdges) Host() Edges {
	list := Edges{Vertices: e.Vertices, From: e.From.Host(), To: e.To.Host()}
	if done := e.Done.Host(); len(done) > 0 {
		return list.Filter(done)
	}
	return list
}
