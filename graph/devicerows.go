package graph

import (
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// NewDeviceCSR makes a graph from rows in device memory and takes ownership of them, so that Free
// frees them. See [NewCSR] for the form of the rows. The neighbors of each vertex must also ascend.
// NewDeviceCSR verifies neither the order nor that neighbors are vertices. To verify both, use
// [DeviceCSR.Download] and NewCSR.
//
// opts describes the rows: without Multi the rows have no parallel edges, and without SelfLoops no
// self loops. SelfLoops requires Directed, since the number of self loops is unknown. MaxVertices
// is not used. For invalid options or rows NewDeviceCSR returns weft.ErrOptions, and the caller
// still owns the rows.
func NewDeviceCSR(offsets device.Slice[uint64], neighbors device.Slice[uint32], opts *Options) (*DeviceCSR, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	var err error
	switch {
	case offsets.Len() == 0:
		err = fmt.Errorf("%w: the offsets are empty; a graph without vertices has one offset, 0",
			weft.ErrOptions)
	case offsets.Len()-1 > maxVertices:
		err = fmt.Errorf("%w: %d vertices, more than %d", weft.ErrOptions, offsets.Len()-1, maxVertices)
	case neighbors.Len() > 0 && neighbors.Device() != offsets.Device():
		err = fmt.Errorf("%w: offsets and neighbors lie on different devices", weft.ErrOptions)
	case o.SelfLoops && !o.Directed:
		err = fmt.Errorf("%w: SelfLoops needs Directed: the self loops of an undirected graph have not been counted", weft.ErrOptions)
	}
	if err != nil {
		return nil, wrap("NewDeviceCSR", err)
	}
	return &DeviceCSR{offsets: offsets, neighbors: neighbors, host: CSR{
		offsets: offsets.Host(), neighbors: neighbors.Host(), directed: o.Directed, sorted: true, simple: !o.SelfLoops && !o.Multi,
	}}, nil
}

// NewDeviceWeighted adds weights to a graph and takes ownership of both. weights has the weight of
// each arc, in the order of Targets. NewDeviceWeighted panics if the numbers of weights and arcs
// differ.
func NewDeviceWeighted[W Weight](d *DeviceCSR, weights device.Slice[W]) *DeviceWeighted[W] {
	if weights.Len() != d.Arcs() {
		panic(fmt.Sprintf("graph: %d weights of %d arcs", weights.Len(), d.Arcs()))
	}
	return &DeviceWeighted[W]{d, weights}
}
