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

// An arc is a key of 64 bits to the core and to whoever resolves duplicates: where it begins above, where it leads below.
// What a slot stores of it is where it leads: the bucket says the rest.
func arcOf(from, to uint32) uint64 { return uint64(from)<<32 | uint64(to) }

// vertex is an entry of a [dictionary]: the handle of a hash table (twin: weft::slab::Vertex).
type vertex struct {
	_      structs.HostLayout
	first  uint32 // base slab; there are none without edges
	slabs  uint32 // base slabs
	degree uint32
	coming uint32 // insertions of the batch that room is being made for; 0 otherwise
}

const vertexBytes = 16

var _ [vertexBytes]byte = [unsafe.Sizeof(vertex{})]byte{}

// maxGraphVertices keeps vertices below the sentinels: what is stored needs no other name.
const maxGraphVertices = 1 << 31

// nobody owns base slabs that no vertex has.
const nobody = ^uint32(0)

// dictionary is what makes a generation that of a graph: the thesis' vertex dictionary, and of each base slab
// whose it is. Base slabs are handed out from the first on; those of a vertex whose table has moved are not used again
// before all is moved to a new generation.
type dictionary struct {
	dev      device.Device
	vertices device.Buffer
	owners   device.Buffer
	n        int    // vertices
	next     uint32 // base slab that is handed out next
	kept     uint32 // of those handed out, that vertices still have
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

// entries are the vertices in memory of the host.
func (d *dictionary) entries() []vertex { return batch.View[vertex](d.vertices.Host)[:d.n] }

// allocateGraph makes the memory of a graph, as allocate does.
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

// locate is the bucket of a key by its name: of an arc, first[u] + reduce(hash(v), slabs[u]), and the extra bucket, which is
// empty, if there are no such vertices; of any other key bucketOf. Only names of arcs are longer than what slots store.
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

// sizing says how many base slabs tables of vertices have.
type sizing struct {
	wanted16 uint32 // pairs of a base slab, in sixteenths
}

// rehashTimes as many pairs as wanted are where a table is rehashed: each pair is moved a constant number of times.
const rehashTimes = 2

// most is more pairs than a table should have.
const mostWanted = 1 << 16

func sizingFor(load float64, slotBytes int) (sizing, error) {
	s := sizing{uint32(load * float64(16*slotsIn(slotBytes)))}
	if s.wanted16 < 16 || s.wanted16 > mostWanted {
		return s, fmt.Errorf("%w: slabs of %d slots have no MaxLoad of %v", op.ErrOptions, slotsIn(slotBytes), load)
	}
	return s, nil
}

// slabsFor is the number of base slabs for so many neighbors.
func (s sizing) slabsFor(degree uint32) uint32 {
	return uint32((uint64(degree)*16 + uint64(s.wanted16) - 1) / uint64(s.wanted16))
}

// limit is the degree from which on a table with so many base slabs is rehashed.
func (s sizing) limit(slabs uint32) uint64 {
	return uint64(slabs) * rehashTimes * uint64(s.wanted16) / 16
}

// longest is how many slabs a chain has at most before its table is counted: those of as many pairs as a bucket has on average when
// it is rehashed.
func (s sizing) longest(slots int) uint32 {
	return uint32(ceilDiv(rehashTimes*int(s.wanted16), 16*slots))
}

// lines is the number of base slabs of a generation in which vertices have so many.
func (s sizing) lines(slabs uint64) (uint32, error) {
	n := slabs + slabs/4 + spareUnits // for tables that grow
	if n > maxBuckets {
		return 0, fmt.Errorf("%w: %d base slabs, more than %d", op.ErrFull, slabs, maxBuckets)
	}
	return uint32(n), nil
}

// graphWidths are those of the table of arcs with weights of so many bytes.
func graphWidths(weight int) batch.Widths {
	return batch.Widths{Key: 8, Val: weight, Slot: 4 + weight}
}

// invalidArc is the error of an arc that begins or ends at what can be no vertex.
func invalidArc(i int, u, v uint32, most int) error {
	return core.Invalid("edge %d from %d to %d: vertices are 0 to %d; MaxVertices allows more", i, u, v, most-1)
}
