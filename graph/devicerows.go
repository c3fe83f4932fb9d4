package graph

import (
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// NewDeviceCSR makes a graph of rows that lie on a device already, and takes them over: Free frees them. They are as [NewCSR] has them, and the
// neighbors of each vertex ascend, which nobody verifies, nor that neighbors are vertices: that would take a [DeviceCSR.Download] and NewCSR.
// Options say what else rows may have: without Multi no vertex twice, and without SelfLoops none its own; with these, whose number would
// have to be known, the graph must be directed. MaxVertices is not read. Options and rows that make no sense are weft.ErrOptions, and the
// rows are the caller's still.
func NewDeviceCSR(offsets device.Slice[uint64], neighbors device.Slice[uint32], opts *Options) (*DeviceCSR, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	var err error
	switch {
	case offsets.Len() == 0:
		err = fmt.Errorf("%w: there are no offsets; a graph without vertices has one, 0", weft.ErrOptions)
	case offsets.Len()-1 > maxVertices:
		err = fmt.Errorf("%w: %d vertices, more than %d", weft.ErrOptions, offsets.Len()-1, maxVertices)
	case neighbors.Len() > 0 && neighbors.Device() != offsets.Device():
		err = fmt.Errorf("%w: offsets and neighbors lie on different devices", weft.ErrOptions)
	case o.SelfLoops && !o.Directed:
		err = fmt.Errorf("%w: nobody has counted the self loops of an undirected graph", weft.ErrOptions)
	}
	if err != nil {
		return nil, wrap("NewDeviceCSR", err)
	}
	return &DeviceCSR{offsets: offsets, neighbors: neighbors, of: CSR{
		offsets: offsets.Host(), neighbors: neighbors.Host(), directed: o.Directed, sorted: true, simple: !o.SelfLoops && !o.Multi,
	}}, nil
}

// NewDeviceWeighted gives a graph the weights of its arcs, in the order of Targets, and takes them over. It panics if there are not as many as arcs.
func NewDeviceWeighted[W Weight](d *DeviceCSR, weights device.Slice[W]) *DeviceWeighted[W] {
	if weights.Len() != d.Arcs() {
		panic(fmt.Sprintf("graph: %d weights of %d arcs", weights.Len(), d.Arcs()))
	}
	return &DeviceWeighted[W]{d, weights}
}
