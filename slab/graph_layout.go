package slab

import (
	"errors"
	"fmt"
	"structs"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/op"
)

// arcOf returns an arc: its source in the upper half, its target in the lower half. The core and
// the resolution of duplicates use arcs as 64-bit keys. A slot stores only the target, since the
// bucket determines the source.
func arcOf(from, to uint32) uint64 { return uint64(from)<<32 | uint64(to) }

// vertex is an entry of a [dictionary]. It describes the hash table of a vertex. In CUDA it is
// weft::slab::Vertex.
type vertex struct {
	_        structs.HostLayout
	first    uint32 // first base slab, if slabs is not 0
	slabs    uint32 // number of base slabs
	degree   uint32
	incoming uint32 // insertions of a batch while memory is reserved for it; otherwise 0
}

const vertexBytes = 16

var _ [vertexBytes]byte = [unsafe.Sizeof(vertex{})]byte{}

// maxGraphVertices keeps vertices below the sentinels, so that slots store them unchanged.
const maxGraphVertices = 1 << 31

// noOwner is the owner of a base slab without a vertex.
const noOwner = ^uint32(0)

// dictionary holds the thesis' vertex dictionary of a graph, and the owner of each base slab. Base
// slabs are assigned in order. When a table moves, its old base slabs stay unused until all tables
// move to a new generation.
type dictionary struct {
	dev        device.Device
	vertices   device.Buffer
	owners     device.Buffer
	n          int    // number of vertices
	nextSlab   uint32 // next base slab to assign
	ownedSlabs uint32 // number of base slabs that vertices own
}

func newDictionary(dev device.Device, n int, slabs uint32) (*dictionary, error) {
	d := &dictionary{dev: dev, n: n}
	var err error
	if d.vertices, err = dev.Alloc(max(n, 1) * vertexBytes); err != nil {
		return nil, fmt.Errorf("a dictionary of %d vertices: %w", n, err)
	}
	if d.owners, err = dev.Alloc(4 * int(slabs+1)); err != nil {
		return nil, errors.Join(fmt.Errorf("owners of %d base slabs: %w", slabs, err), dev.Free(d.vertices))
	}
	return d, nil
}

func (d *dictionary) bytes() int { return d.vertices.Size + d.owners.Size }

func (d *dictionary) free() error {
	return errors.Join(d.dev.Free(d.vertices), d.dev.Free(d.owners))
}

// entries returns the entries, which must be in host memory.
func (d *dictionary) entries() []vertex { return batch.View[vertex](d.vertices.Host)[:d.n] }

// allocateGraph makes the memory of a graph. See allocate.
func allocateGraph(dev device.Device, g geometry, vertices, units int) (*generation, error) {
	gen, err := allocate(dev, g, units, false)
	if err != nil {
		return nil, err
	}
	if gen.dict, err = newDictionary(dev, vertices, g.buckets); err != nil {
		return nil, errors.Join(err, gen.Free())
	}
	return gen, nil
}

// locate returns the bucket of a key. For an arc it is first[u] + reduce(hash(v), slabs[u]), or the
// empty extra bucket if u has no table. For any other key it is bucketOf. Only arcs are wider than
// the keys in slots.
func locate[N, K cpu.Key, V cpu.Val](t *cpuTable[K, V], name N) uint32 {
	var stored K
	if unsafe.Sizeof(name) <= unsafe.Sizeof(stored) {
		return bucketOf(t.geometry, K(name))
	}
	u := uint64(name) >> 32
	if u >= uint64(len(t.vertices)) || t.vertices[u].slabs == 0 || isSentinel(uint32(name)) {
		return t.buckets
	}
	return t.vertices[u].first + hash.Reduce32(hash.Uint32(uint32(name), t.seed), t.vertices[u].slabs)
}

// sizing determines the number of base slabs in the table of a vertex.
type sizing struct {
	load16 uint32 // pairs per base slab, in sixteenths
}

// A table is rehashed when it has rehashTimes as many pairs as its base slabs are intended for.
// Since the table doubles, each pair is moved a constant number of times.
const rehashTimes = 2

// maxLoad16 is the maximum of load16.
const maxLoad16 = 1 << 16

func sizingFor(load float64, slotBytes int) (sizing, error) {
	s := sizing{uint32(load * float64(16*slotsIn(slotBytes)))}
	if s.load16 < 16 || s.load16 > maxLoad16 {
		return s, fmt.Errorf("%w: slabs of %d slots cannot have a MaxLoad of %v", op.ErrOptions,
			slotsIn(slotBytes), load)
	}
	return s, nil
}

// slabsFor returns the number of base slabs for a degree.
func (s sizing) slabsFor(degree uint32) uint32 {
	return uint32((uint64(degree)*16 + uint64(s.load16) - 1) / uint64(s.load16))
}

// maxDegree returns the degree above which a table with the given number of base slabs is rehashed.
func (s sizing) maxDegree(slabs uint32) uint64 {
	return uint64(slabs) * rehashTimes * uint64(s.load16) / 16
}

// maxChain returns the maximum length to which an attempt may extend a chain. It is the number of
// slabs for the mean number of pairs per bucket at a rehash.
func (s sizing) maxChain(slots int) uint32 {
	return uint32(ceilDiv(rehashTimes*int(s.load16), 16*slots))
}

// baseSlabs returns the number of base slabs to allocate for a generation with tables that use the
// given number. The rest is a reserve.
func (s sizing) baseSlabs(slabs uint64) (uint32, error) {
	n := slabs + slabs/4 + spareUnits // the reserve is for tables that grow
	if n > maxBuckets {
		return 0, fmt.Errorf("%w: %d base slabs, more than %d", op.ErrFull, slabs, maxBuckets)
	}
	return uint32(n), nil
}

// graphWidths returns the widths of a table of arcs. weight is the size of a weight in bytes.
func graphWidths(weight int) batch.Widths {
	return batch.Widths{Key: 8, Val: weight, Slot: 4 + weight}
}

func rangeError(i int, u, v uint32, maxVertices int) error {
	return core.Invalid("edge %d from %d to %d: vertices are 0 to %d; MaxVertices allows more", i, u, v, maxVertices-1)
}
