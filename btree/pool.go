package btree

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
)

// tree is a generation: the memory of the nodes of a map, which grows in place.
type tree struct {
	shape
	dev      device.Device
	mem      device.Range  // nil if the system has no address ranges
	reserved int           // size of the address range of mem in bytes
	buf      device.Buffer // the part of mem that has memory
	freed    device.Buffer // numbers of the nodes that were free after the last reclaim
	tally    core.Tally    // counters when last read
	maxUsed  int           // upper bound on the number of allocated nodes

	order order // leaves in key order, on a GPU
	past  *past // versions of leaves, on a GPU
}

// newTree allocates memory for the given number of nodes. Their content is undefined. It reserves
// addresses for as many nodes as the device's memory can hold.
func newTree(dev device.Device, s shape, nodes int) (*tree, error) {
	t := &tree{shape: s, dev: dev}
	free, err := dev.Memory()
	if err == nil {
		t.reserved = int(min(free.Total, uint64(t.bytesFor(maxNodes))))
		t.mem, err = dev.Reserve(t.reserved)
	}
	if err != nil && !errors.Is(err, device.ErrUnsupported) {
		return nil, err
	}
	if err := t.grow(nodes); err != nil {
		return nil, errors.Join(err, t.Free())
	}
	return t, nil
}

func (s shape) bytesFor(nodes int) int { return controlBytes + nodes*s.node }

// capacity returns the number of nodes for which memory is allocated.
func (t *tree) capacity() int { return max(0, t.buf.Size-controlBytes) / t.node }

// grow allocates memory for at least the given number of nodes. On a host without address ranges,
// it copies the nodes to a larger buffer. No reader may be running then.
func (t *tree) grow(nodes int) error {
	size := t.bytesFor(nodes)
	if size <= t.buf.Size {
		return t.growPast()
	}
	if nodes > maxNodes {
		return fmt.Errorf("%d nodes of a tree, which has %d at most: %w", nodes, maxNodes, device.ErrMemory)
	}
	if t.mem == nil {
		return t.copyTo(size)
	}
	if size > t.reserved {
		return fmt.Errorf("%d nodes of %d bytes on a device with %d: %w", nodes, t.node, t.reserved, device.ErrMemory)
	}
	// Allocate an eighth more, so that a map that grows step by step rarely calls the driver.
	extra := t.buf.Size / 8
	err := t.mem.Resize(size + extra)
	if err != nil && extra > 0 {
		err = t.mem.Resize(size)
	}
	if err != nil {
		return fmt.Errorf("%d nodes of %d bytes: %w", nodes, t.node, err)
	}
	t.buf = t.mem.Buffer()
	return t.growPast()
}

func (t *tree) growPast() error {
	if t.past == nil || t.past.dormant {
		return nil
	}
	return t.past.grow(t.capacity())
}

func (t *tree) copyTo(size int) error {
	host, ok := t.dev.(device.Host)
	if !ok {
		return fmt.Errorf("btree needs address ranges on a GPU: %w", device.ErrUnsupported)
	}
	buf, err := host.Alloc(max(size, 2*t.buf.Size))
	if err != nil {
		return fmt.Errorf("%d bytes of nodes: %w", size, err)
	}
	copy(buf.Host, t.buf.Host)
	old := t.buf
	t.buf = buf
	if old.Size == 0 {
		return nil
	}
	return host.Free(old)
}

// Tally returns the counters of pairs.
func (t *tree) Tally() *core.Tally { return &t.tally }

// Free implements core.Parts.
func (t *tree) Free() (err error) {
	if t.mem != nil {
		err = t.mem.Free()
	} else if t.buf.Size > 0 {
		err = t.dev.Free(t.buf)
	}
	if t.freed.Size > 0 {
		err = errors.Join(err, t.dev.Free(t.freed))
	}
	return errors.Join(err, t.past.free(t.dev), t.order.free(t.dev))
}

// emptyImage returns the initial bytes of an empty tree: control, the root and a leaf.
func (s shape) emptyImage() []byte {
	mem := make([]byte, s.bytesFor(newNodes))
	*controlOf(mem) = control{top: newNodes}
	root := headerOf(mem, s, rootNode)
	*root = header{link: noNode, state: stateOf(1, 1)}
	for i := range s.slots { // the value, which is the child's number, comes before the key
		*(*uint32)(unsafe.Add(unsafe.Pointer(root), headerBytes+i*s.slot)) = leafNode
	}
	*headerOf(mem, s, leafNode) = header{link: noNode, state: stateOf(0, 0)}
	return mem
}

func controlOf(mem []byte) *control { return (*control)(unsafe.Pointer(&mem[0])) }

func headerOf(mem []byte, s shape, id uint32) *header {
	return (*header)(unsafe.Pointer(&mem[controlBytes+int(id)*s.node]))
}

// nAllocated returns the number of nodes that have ever been allocated.
func (c *control) nAllocated() int {
	return int(c.top) + int(max(c.taken, c.free)-c.free)
}

// nFree returns the number of nodes in freed that are still free.
func (c *control) nFree() int { return int(c.free - min(c.taken, c.free)) }

// nodesFor returns the maximum number of nodes that a bulk load needs if it uses fill slots per
// node.
func nodesFor(pairs, fill int) int {
	n, level := newNodes, pairs
	for level > 1 {
		level = (level + fill - 1) / fill
		n += level
	}
	return n
}
