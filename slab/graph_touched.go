package slab

import (
	"fmt"

	"github.com/weftgo/weft/device"
	graphs "github.com/weftgo/weft/graph"
	"github.com/weftgo/weft/internal/touched"
)

// EndpointsOn writes the ends of edges to a slice in device memory, in ascending order without
// duplicates. See EndpointsOn of [graphs.Graph] for the details.
func (g *graph) EndpointsOn(s *device.Stream, list graphs.DeviceEdges, to device.Slice[uint32], count device.Slice[uint64]) error {
	err := list.Check(g.core.Device)
	if err == nil {
		err = g.ends.List(s, touched.Edges{From: list.From, To: list.To, Done: list.Done, Vertices: list.Vertices}, to, count)
	}
	if err != nil {
		return fmt.Errorf("%s: EndpointsOn: %w", g.core.Name, err)
	}
	return nil
}
