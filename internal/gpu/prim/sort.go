package prim

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 sort32.cu
//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -type HistogramParams=.histogramParams -type PassParams=.passParams sort64.cu

// Constants compiled into the kernels.
const (
	digitBits        = 8
	bins             = 1 << digitBits
	histogramThreads = 512
	histogramRows    = 64 // bytes of keys that a thread reads at a time
	histogramBlocks  = 4  // per multiprocessor
)

// shape is the number of threads of a block, and the number of items per thread.
type shape struct{ threads, items int }

func (s shape) tile() int { return s.threads * s.items }

// shapes holds the shape for each pair of widths, as tuning.cuh has it.
var shapes = map[Widths]shape{
	{4, 0}: {512, 17}, {4, 4}: {512, 16}, {4, 8}: {512, 11},
	{8, 0}: {512, 11}, {8, 4}: {512, 11}, {8, 8}: {512, 11},
}

// Widths holds the size in bytes of a key, 4 or 8, and of a value, 0, 4 or 8. Val 0 means no
// values.
type Widths struct{ Key, Val int }

// Rows is a column of keys and a column of values in device memory. In the input of a sort, Vals 0
// stands for the row numbers 0 to N-1.
type Rows struct{ Keys, Vals device.Ptr }

// Sort describes a stable sort of rows by bits Lo to Hi-1 of their keys. Keys are unsigned numbers,
// or signed numbers if Signed is set, which requires that Hi is the width of a key. The sort moves
// rows from From to To. The two may be equal, but must not overlap otherwise.
type Sort struct {
	Widths
	N        int
	Lo, Hi   int
	Signed   bool
	From, To Rows
}

func (o *Sort) passes() int { return tiles(o.Hi-o.Lo, digitBits) }

// sortScratch locates the arrays in the scratch memory of a sort.
type sortScratch struct {
	next, counts, status device.Ptr // zero at first
	rows                 Rows       // target of every other pass
	cleared              int        // number of bytes to zero
}

// scratch divides the scratch memory at an address, and returns its end.
func (o *Sort) scratch(at device.Ptr) (l sortScratch, end device.Ptr) {
	c := Carve(at)
	l.next = c.Alloc(4 * o.passes())
	l.counts = c.Alloc(4 * bins * o.passes())
	l.status = c.Alloc(8 * bins * tiles(o.N, shapes[o.Widths].tile()))
	l.cleared = int(device.Ptr(c) - at)
	if o.passes() > 1 || o.From.Keys == o.To.Keys {
		l.rows.Keys = c.Alloc(o.N * o.Key)
		l.rows.Vals = c.Alloc(o.N * o.Val)
	}
	return l, device.Ptr(c)
}

// ScratchBytes returns the size of the scratch memory that the sort needs, or 0 if the sort is
// invalid. The memory is 1/100 to 1/4 of the size of the rows. It also holds a copy of the rows if
// the sort takes several 8-bit digits or sorts in place.
func (o *Sort) ScratchBytes() int {
	if o.valid() != nil {
		return 0
	}
	_, end := o.scratch(0)
	return int(end)
}

func (o *Sort) valid() error {
	if shapes[o.Widths] == (shape{}) {
		return invalid("sort of keys of %d bytes with %d; keys have 4 or 8 bytes, with 0, 4 or 8", o.Key, o.Val)
	}
	if o.Lo < 0 || o.Hi <= o.Lo || o.Hi > 8*o.Key || o.Signed && o.Hi != 8*o.Key {
		return invalid("sort by bits %d to %d of keys of %d bits, signed: %v", o.Lo, o.Hi, 8*o.Key, o.Signed)
	}
	return check("sort", o.N, 0, device.Buffer{})
}

// Sort submits a sort. It returns ErrInvalid if widths, bits or columns are invalid, or if the
// scratch memory is too small.
func (k *Kernels) Sort(s *device.Stream, o *Sort, scratch device.Buffer) error {
	return k.sort(s, o, 0, scratch)
}

// Partition submits a sort by one digit of at most 8 bits. It also writes 257 offsets (uint32): the
// rows with digit d are rows offsets[d] to offsets[d+1]-1 of To. It returns the errors of
// [Kernels.Sort].
func (k *Kernels) Partition(s *device.Stream, o *Sort, offsets device.Ptr, scratch device.Buffer) error {
	if o.Hi-o.Lo > digitBits {
		return invalid("partition by %d bits; %d are possible", o.Hi-o.Lo, digitBits)
	}
	if err := check("partition", o.N, 0, device.Buffer{}, column{"offsets", offsets, 4}); err != nil {
		return err
	}
	if o.N == 0 {
		return s.Fill(offsets, 0, bins+1)
	}
	return k.sort(s, o, offsets, scratch)
}

func (k *Kernels) sort(s *device.Stream, o *Sort, offsets device.Ptr, scratch device.Buffer) error {
	if err := o.valid(); err != nil || o.N == 0 {
		return err
	}
	columns := []column{{"keys", o.From.Keys, o.Key}, {"sorted keys", o.To.Keys, o.Key}}
	if o.Val > 0 {
		columns = append(columns, column{"sorted values", o.To.Vals, o.Val})
	}
	if o.Val > 0 && o.From.Vals != 0 {
		columns = append(columns, column{"values", o.From.Vals, o.Val})
	}
	if err := check("sort", o.N, o.ScratchBytes(), scratch, columns...); err != nil {
		return err
	}
	if o.Val > 0 && o.From.Vals != 0 && (o.From.Vals == o.To.Vals) != (o.From.Keys == o.To.Keys) {
		return invalid("sort of keys or values in place, but not of both")
	}
	l, _ := o.scratch(scratch.Ptr)
	if err := s.Fill(l.next, 0, l.cleared/4); err != nil {
		return err
	}
	img, stem := &sort32Image, "sort32"
	if o.Key == 8 {
		img, stem = &sort64Image, "sort64"
	}
	h := histogramParams{keys: o.From.Keys, counts: l.counts, n: uint32(o.N), lo: uint32(o.Lo), hi: uint32(o.Hi)}
	if o.Signed {
		h.flip = 1 << ((o.Hi - o.Lo - 1) % digitBits)
	}
	blocks := k.resident(histogramBlocks, tiles(o.N*o.Key, histogramThreads*histogramRows))
	if err := launch(k, s, img, stem+"_histogram", blocks, histogramThreads, &h); err != nil {
		return err
	}
	return k.runPasses(s, o, l, offsets, img, fmt.Sprintf("%s_pass_%d", stem, 8*o.Val), h.flip)
}

// runPasses launches a pass per digit, starting with the least significant digit. The last pass
// writes the rows to their target.
func (k *Kernels) runPasses(s *device.Stream, o *Sort, l sortScratch, offsets device.Ptr, img *device.Image, name string, flip uint32) error {
	from, to, alt := o.From, o.To, l.rows
	if o.passes()%2 == 0 {
		to, alt = alt, to
	} else if o.From.Keys == o.To.Keys {
		if err := s.Copy(alt.Keys, from.Keys, o.N*o.Key); err != nil {
			return err
		}
		from.Keys = alt.Keys
		if o.Val > 0 && from.Vals != 0 {
			if err := s.Copy(alt.Vals, from.Vals, o.N*o.Val); err != nil {
				return err
			}
			from.Vals = alt.Vals
		}
	}
	block := shapes[o.Widths]
	for i := range o.passes() {
		p := passParams{
			keys: from.Keys, vals: from.Vals, keysOut: to.Keys, valsOut: to.Vals,
			counts: l.counts + device.Ptr(4*bins*i), status: l.status, next: l.next + device.Ptr(4*i), offsets: offsets,
			n: uint32(o.N), shift: uint32(o.Lo + digitBits*i), mask: bins - 1, epoch: uint32(i + 1),
		}
		if i == o.passes()-1 {
			p.mask, p.flip = 1<<(o.Hi-int(p.shift))-1, flip
		}
		if err := launch(k, s, img, name, tiles(o.N, block.tile()), block.threads, &p); err != nil {
			return err
		}
		from, to, alt = to, alt, to
	}
	return nil
}
