package prim

import (
	"github.com/weftgo/weft/device"
)

// As compiled in (bins.cuh).
const (
	binThreads = 256
	binRows    = 2048
)

// FewRows is up to how many rows a [Few] takes less time than a [Sort]; more are as possible.
const FewRows = 1 << 17

// Few is a [Sort] in fewer launches: by the leading eight bits, and then a block
// sorts the rows that have the same ones, up to 2048. Where more have, it adds to
// Crowded, a number of 32 bits, and what is in To is of no use. Keys have 8
// bytes, with 4 or none.
type Few struct {
	Sort
	Crowded device.Ptr
}

// fewScratch is what it needs besides its columns.
type fewScratch struct {
	lead    Sort // to rows between
	offsets device.Ptr
	passes  device.Buffer
}

func (o *Few) scratch(at device.Ptr) (l fewScratch, end device.Ptr) {
	c := Carve(at)
	l.lead = o.Sort
	l.lead.Lo = max(o.Lo, o.Hi-digitBits)
	l.lead.To = Rows{Keys: c.Take(8 * o.N), Vals: c.Take(o.Val * o.N)}
	l.offsets = c.Take(4 * (bins + 1))
	l.passes.Size = l.lead.ScratchBytes()
	l.passes.Ptr = c.Take(l.passes.Size)
	return l, device.Ptr(c)
}

// ScratchBytes is the size of the scratch memory that it needs; 0 if it is not valid.
func (o *Few) ScratchBytes() int {
	if o.valid() != nil {
		return 0
	}
	_, end := o.scratch(scratchAlign) // not from 0, where no rows are
	return int(end - scratchAlign)
}

func (o *Few) valid() error {
	if err := o.Sort.valid(); err != nil {
		return err
	}
	if o.Key != 8 || o.Val > 4 || o.From.Keys == o.To.Keys {
		return invalid("sort of few rows, keys of %d bytes with %d, from %#x to %#x; keys have 8, with 0 or 4, and move", o.Key, o.Val, uint64(o.From.Keys), uint64(o.To.Keys))
	}
	return nil
}

// Few submits a sort of few rows. ErrInvalid as for Sort.
func (k *Kernels) Few(s *device.Stream, o *Few, scratch device.Buffer) error {
	if err := o.valid(); err != nil || o.N == 0 {
		return err
	}
	columns := []column{{"sorted keys", o.To.Keys, 8}, {"crowded", o.Crowded, 4}}
	if o.Val > 0 {
		columns = append(columns, column{"sorted values", o.To.Vals, 4})
	}
	if err := check("sort", o.N, o.ScratchBytes(), scratch, columns...); err != nil {
		return err
	}
	l, _ := o.scratch(scratch.Ptr)
	if err := k.Partition(s, &l.lead, l.offsets, l.passes); err != nil {
		return err
	}
	p := binsParams{
		keys: l.lead.To.Keys, keysOut: o.To.Keys, offsets: l.offsets, crowded: o.Crowded,
		lo: uint32(o.Lo), bits: uint32(l.lead.Lo - o.Lo),
	}
	if o.Val > 0 {
		p.vals, p.valsOut = l.lead.To.Vals, o.To.Vals
	}
	return launch(k, s, &sort64Image, "sort64_bins", bins, binThreads, &p)
}
