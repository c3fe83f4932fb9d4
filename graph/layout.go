package graph

import (
	"math/bits"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// A vertex of a [Graph] has a record of 32 bytes. It stores the degree and the class of the block.
// If the class is 0, the neighbors follow. Otherwise the record stores the position of the block
// and the epoch in which the block was written. Neighbors ascend, in records and in blocks.
// graph_table.cuh defines the same words.
const (
	recordWords = 8
	recordBytes = 4 * recordWords

	recordDegree = 0
	recordClass  = 1
	recordInline = 2 // neighbors of class 0, followed by their weights
	recordBlock  = 2 // number of the first unit of the block
	recordBorn   = 3 // epoch in which the block was written
)

const (
	unitEntries = 8 // entries per unit; a block consists of units
	// number of block classes: class 0 means no block, the largest holds 2^32 entries
	classes = 113
)

// shape describes the size of row entries.
type shape struct {
	weight int // size of a weight in bytes: 0, 4 or 8
}

// inline returns the number of entries that fit into a record.
func (s shape) inline() int { return (recordBytes - 4*recordInline) / (4 + s.weight) }

// inlineWeights returns the offset of the weights in a record, in bytes.
func (s shape) inlineWeights() int { return 4 * (recordInline + s.inline()) }

// unit returns the size of a unit in bytes.
func (s shape) unit() int { return unitEntries * (4 + s.weight) }

// classOf returns the smallest block class for a degree. Up to eight units, each number of units is
// a class. Beyond that each doubling has four classes, so at most a quarter of a block is unused.
func (s shape) classOf(degree int) uint32 {
	if degree <= s.inline() {
		return 0
	}
	units := (degree + unitEntries - 1) / unitEntries
	if units <= 8 {
		return uint32(units)
	}
	b := bits.Len(uint(units - 1))
	quarter := (units + 1<<(b-3) - 1) >> (b - 3) // 5 to 8
	return uint32(8 + (b-4)*4 + quarter - 4)
}

// unitsOf returns the number of units of a block of a class.
func unitsOf(class uint32) int {
	if class <= 8 {
		return int(class)
	}
	c := class - 9
	return int(5+c%4) << (c/4 + 1)
}

// view is the state of a graph that readers see: the current state or that of a snapshot.
type view struct {
	shape
	records, alive, pool device.Buffer
	vertices             int // number of records
}

// row holds the neighbors of a vertex in host memory.
type row struct {
	ids     []uint32
	weights weights
}

// row returns the neighbors of a vertex, or an empty row if the vertex has no record.
func (v *view) row(u uint32) row {
	if int(u) >= v.vertices {
		return row{}
	}
	record := v.records.Host[int(u)*recordBytes : (int(u)+1)*recordBytes]
	words := batch.View[uint32](record)
	degree := int(words[recordDegree])
	if words[recordClass] == 0 {
		return row{words[recordInline : recordInline+degree], weights{v.weight, record[v.inlineWeights():]}}
	}
	return v.block(words[recordBlock], words[recordClass]).cut(degree)
}

// block returns a block as a row of its full capacity.
func (v *view) block(unit, class uint32) row {
	first, entries := int(unit)*v.unit(), unitsOf(class)*unitEntries
	bytes := v.pool.Host[first : first+entries*(4+v.weight)]
	return row{batch.View[uint32](bytes[:4*entries]), weights{v.weight, bytes[4*entries:]}}
}

func (r row) cut(degree int) row { return row{r.ids[:degree], r.weights} }

func (v *view) degree(u uint32) int {
	if int(u) >= v.vertices {
		return 0
	}
	return int(v.words(u)[recordDegree])
}

func (v *view) words(u uint32) []uint32 {
	return batch.View[uint32](v.records.Host[int(u)*recordBytes : (int(u)+1)*recordBytes])
}

func (v *view) hasVertex(u uint32) bool {
	return int(u) < v.vertices && batch.View[uint32](v.alive.Host)[u/32]>>(u%32)&1 != 0
}

// bitmapBytes returns the size of a bitmap with a bit per vertex.
func bitmapBytes(vertices int) int { return (vertices + 31) / 32 * 4 }

// weights is a column of weights. Each takes width bytes; width is 0 without weights.
type weights struct {
	width int
	bytes []byte
}

// set sets weight k of w to weight i of the other column.
func (w weights) set(k int, from weights, i int) {
	switch w.width {
	case 4:
		batch.View[uint32](w.bytes)[k] = batch.View[uint32](from.bytes)[i]
	case 8:
		batch.View[uint64](w.bytes)[k] = batch.View[uint64](from.bytes)[i]
	}
}

// copy copies n weights of the other column, beginning with weight i, to w, beginning at index k.
func (w weights) copy(k int, from weights, i, n int) {
	copy(w.bytes[k*w.width:], from.bytes[i*w.width:(i+n)*w.width])
}
