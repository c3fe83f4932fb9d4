package cpu

import (
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
)

// A batch is divided among the cores by the places in a structure at which its operations begin.
// Each core gets a range of places and, in batch order, the operations that begin there. So cores
// change a structure concurrently without atomic operations. Operations on one key have the same
// place, so they keep their order.

// SharesPerCore is the minimum number of shares per core. More shares balance the work better.
const SharesPerCore = 4

// rangesPerCore is the number of ranges per core into which a batch is divided for sorting.
const rangesPerCore = 4

// Share is a range of places [Lo,Hi) that one core may access, with the operations that begin
// there, ascending.
type Share struct {
	Lo, Hi uint32
	Ops    []uint32

	Bounded   bool // Remaining limits the additions; further additions overflow
	Remaining Remaining
}

// Remaining is the remaining capacity of a table with fixed size: the pairs that may be added, and
// the empty slots that may be filled.
type Remaining struct{ Pairs, Slots int }

// CanAdd reports whether the share may add another pair. r is its result so far.
func (s *Share) CanAdd(r *Result) bool {
	return !s.Bounded || r.Live < int64(s.Remaining.Pairs) && r.Used < int64(s.Remaining.Slots)
}

// Partitioner divides operations into shares. It reuses its memory, so that results are valid until
// the next call.
type Partitioner struct {
	places []uint32 // place of each operation; after partition, its index in share order
	ops    []uint32
	shares []Share
	counts [][]uint32 // counts[range][share]: operations, later their target index
	moved  [2][]byte  // keys and values of a batch's rows in share order
}

// AllOps returns the operations 0 to n-1, undivided.
func (d *Partitioner) AllOps(n int) []uint32 {
	d.resize(n, 0, 0)
	for i := range d.ops {
		d.ops[i] = uint32(i)
	}
	return d.ops
}

// PartitionOps divides the operations 0 to n-1, which begin at places from 0 to last, into shares.
// It keeps their order within a share. locate computes the places of operations [lo,hi).
func (d *Partitioner) PartitionOps(dev device.Host, last uint32, n int, locate func(lo, hi int, places []uint32)) []Share {
	cores := dev.Properties().Units
	shares := d.partition(dev, last, n, cores, cores*SharesPerCore, locate)
	d.forRanges(dev, n, func(lo, hi int) {
		for i, to := range d.places[lo:hi] {
			d.ops[to] = uint32(lo + i)
		}
	})
	return shares
}

// PartitionRows divides the rows of b into shares and returns a batch of the keys and values in
// share order. The number of shares is as given or slightly less. It should be so large that the
// places of a share fit in a core's cache. See PartitionOps for last and locate.
func (d *Partitioner) PartitionRows(dev device.Host, last uint32, b *batch.Batch, shares int, locate func(lo, hi int, places []uint32)) (*batch.Batch, []Share) {
	sorted := *b
	// With more ranges than cores, a single slow core delays the others less.
	all := d.partition(dev, last, b.N, rangesPerCore*dev.Properties().Units, shares, locate)
	for i, r := range []batch.Role{batch.Keys, batch.Vals} {
		c := &sorted.Columns[r]
		if len(d.moved[i]) < len(c.Host) {
			d.moved[i] = make([]byte, len(c.Host))
		}
		from, to := c.Host, d.moved[i][:len(c.Host)]
		c.Host = to
		d.forRanges(dev, b.N, func(lo, hi int) {
			if c.Width == 4 {
				scatter(batch.View[uint32](from), batch.View[uint32](to), d.places, lo, hi)
			} else {
				scatter(batch.View[uint64](from), batch.View[uint64](to), d.places, lo, hi)
			}
		})
	}
	for i := range d.ops {
		d.ops[i] = uint32(i)
	}
	return &sorted, all
}

func scatter[T any](from, to []T, places []uint32, lo, hi int) {
	for i, p := range places[lo:hi] {
		to[p] = from[lo+i]
	}
}

// ToOriginals replaces row indexes in a batch from PartitionRows by the indexes in the original
// batch.
func (d *Partitioner) ToOriginals(rows []uint32) {
	if len(rows) == 0 {
		return
	}
	original := make([]uint32, len(d.places))
	for i, to := range d.places {
		original[to] = uint32(i)
	}
	for i, row := range rows {
		rows[i] = original[row]
	}
}

// forRanges runs body in parallel on the ranges for which partition counts operations.
func (d *Partitioner) forRanges(dev device.Host, n int, body func(lo, hi int)) {
	dev.Parallel(n, d.rangeSize(n), body)
}

func (d *Partitioner) rangeSize(n int) int { return (n + len(d.counts) - 1) / len(d.counts) }

// partition computes the index of each operation in share order. It counts the operations of the
// batch in the given number of ranges. The number of shares is limit or slightly less.
func (d *Partitioner) partition(dev device.Host, last uint32, n, ranges, limit int, locate func(lo, hi int, places []uint32)) []Share {
	// The number of places per share is a power of two, so that a shift replaces the division.
	shift := 0
	for last>>shift > uint32(limit) {
		shift++
	}
	shares := int(last>>shift) + 1
	d.resize(n, shares, ranges)
	for i := range d.shares {
		d.shares[i] = Share{Lo: uint32(i) << shift, Hi: uint32(i+1) << shift}
	}
	d.shares[shares-1].Hi = last + 1

	size := d.rangeSize(n)
	for _, c := range d.counts { // with many cores, some counts belong to no range
		clear(c)
	}
	d.forRanges(dev, n, func(lo, hi int) {
		locate(lo, hi, d.places[lo:hi])
		c := d.counts[lo/size]
		for _, p := range d.places[lo:hi] {
			c[p>>shift]++
		}
	})
	at := uint32(0)
	for s := range shares {
		first := at
		for r := range d.counts {
			at, d.counts[r][s] = at+d.counts[r][s], at
		}
		d.shares[s].Ops = d.ops[first:at]
	}
	d.forRanges(dev, n, func(lo, hi int) {
		c := d.counts[lo/size]
		for i, p := range d.places[lo:hi] {
			s := p >> shift
			d.places[lo+i] = c[s]
			c[s]++
		}
	})
	return d.shares
}

func (d *Partitioner) resize(n, shares, ranges int) {
	if cap(d.ops) < n {
		d.ops, d.places = make([]uint32, n), make([]uint32, n)
	}
	d.ops, d.places = d.ops[:n], d.places[:n]
	if len(d.shares) != shares || len(d.counts) != ranges {
		d.shares = make([]Share, shares)
		d.counts = make([][]uint32, ranges)
		for i := range d.counts {
			d.counts[i] = make([]uint32, shares)
		}
	}
}
