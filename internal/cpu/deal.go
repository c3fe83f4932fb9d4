package cpu

import "github.com/weftgo/weft/device"

// A batch is shared out among the cores by where in a structure its operations
// work: each core gets a range of places and, in batch order, the operations that
// begin there. So cores change a structure side by side without atomic
// operations, and operations on one key, which have one place, keep their order.

// SharesPerCore is the number of parts that a structure is cut in per core:
// more parts even out the work.
const SharesPerCore = 4

// Share is a range of places [Lo,Hi) that one core may touch, and the
// operations that begin there, ascending.
type Share struct {
	Lo, Hi uint32
	Ops    []uint32
}

// Dealer deals operations out to shares. It keeps its memory from batch to
// batch; what it returns is good until it deals again.
type Dealer struct {
	places []uint32
	ops    []uint32
	shares []Share
	counts [][]uint32 // by range of the batch, by share: then where they go
}

// All is operations 0…n-1, undealt.
func (d *Dealer) All(n int) []uint32 {
	d.resize(n, 0, 0)
	for i := range d.ops {
		d.ops[i] = uint32(i)
	}
	return d.ops
}

// Out sorts operations 0…n-1 into shares of the places 0…last, keeping their
// order. place computes the places of operations [lo,hi).
func (d *Dealer) Out(dev device.Host, last uint32, n int, place func(lo, hi int, places []uint32)) []Share {
	cores := dev.Properties().Units
	// A power of two of places per share turns the division into a shift.
	shift := 0
	for last>>shift > uint32(cores*SharesPerCore) {
		shift++
	}
	shares := int(last>>shift) + 1
	d.resize(n, shares, cores)
	for i := range d.shares {
		d.shares[i] = Share{Lo: uint32(i) << shift, Hi: uint32(i+1) << shift}
	}
	d.shares[shares-1].Hi = last + 1

	slice := (n + cores - 1) / cores
	for _, c := range d.counts { // with many cores, not all get a slice
		clear(c)
	}
	dev.Parallel(n, slice, func(lo, hi int) {
		place(lo, hi, d.places[lo:hi])
		c := d.counts[lo/slice]
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
	dev.Parallel(n, slice, func(lo, hi int) {
		c := d.counts[lo/slice]
		for i, p := range d.places[lo:hi] {
			s := p >> shift
			d.ops[c[s]] = uint32(lo + i)
			c[s]++
		}
	})
	return d.shares
}

func (d *Dealer) resize(n, shares, cores int) {
	if cap(d.ops) < n {
		d.ops, d.places = make([]uint32, n), make([]uint32, n)
	}
	d.ops, d.places = d.ops[:n], d.places[:n]
	if len(d.shares) != shares || len(d.counts) != cores {
		d.shares = make([]Share, shares)
		d.counts = make([][]uint32, cores)
		for i := range d.counts {
			d.counts[i] = make([]uint32, shares)
		}
	}
}
