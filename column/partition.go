package column

import (
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// MaxParts is the maximum number of partitions of a [Partition] call.
const MaxParts = 1 << 16

// Nulls selects how [Partition] treats rows with a null in a key column.
type Nulls uint8

// The treatments of rows with a null in a key column.
const (
	// HashNulls treats null as a value: rows with the same keys and nulls are in the same
	// partition.
	HashNulls Nulls = iota
	// DropNulls leaves out rows with a null. It fits inner joins, where null matches nothing.
	DropNulls
	// DealNulls deals rows with a null to the partitions in turn. It fits outer joins, which return
	// these rows wherever they are. No partition gets all of them.
	DealNulls
)

var nullsNames = enum.Names[Nulls]{
	Type: "column.Nulls", Err: op.ErrOptions, Names: []string{"hash", "drop", "deal"},
}

// String returns the name of the treatment, in lower case.
func (n Nulls) String() string { return nullsNames.String(n) }

// MarshalText returns String, or weft.ErrOptions for an invalid treatment.
func (n Nulls) MarshalText() ([]byte, error) { return nullsNames.Text(n) }

// UnmarshalText reads a name, in upper or lower case, so flag.TextVar accepts a Nulls.
func (n *Nulls) UnmarshalText(text []byte) error { return nullsNames.Read(n, text) }

// PartitionOptions configure [Partition], in this package and in package ondevice.
type PartitionOptions struct {
	// Parts is the number of partitions, 1 to MaxParts.
	Parts int

	// Seed is the seed of [Hash]. To partition the rows of a partition again, use another seed.
	// With the same seed they may stay together.
	Seed uint64

	// Nulls selects the treatment of rows with a null in a key column. Default: HashNulls.
	Nulls Nulls

	// First is the partition of the first row that DealNulls deals. If a table comes in batches,
	// set it to Parts.Next of the batch before, so that partitions stay even.
	First int
}

// Parts holds the rows of each partition.
type Parts struct {
	// Rows holds row numbers. Those of partition p are Rows[Offsets[p]:Offsets[p+1]], ascending.
	Rows []uint32
	// Offsets has one element more than the number of partitions.
	Offsets []uint32
	// Next is the partition for the next row that DealNulls deals.
	Next int
}

// Len returns the number of partitions.
func (p *Parts) Len() int { return max(0, len(p.Offsets)-1) }

// Part returns the rows of partition i.
func (p *Parts) Part(i int) []uint32 {
	return p.Rows[p.Offsets[i]:p.Offsets[i+1]:p.Offsets[i+1]]
}

// Partition distributes rows by the hash of their key columns. Rows with equal keys are in the same
// partition, except rows with nulls under DealNulls. The partition of a row with hash h is the
// upper half of the 128-bit product h * Parts. It thus depends on the top bits of [Hash], and any
// number of partitions is equally even.
//
// All cores of the device work in two passes. The first pass hashes the rows and counts the rows of
// each partition. The second writes the row numbers. [Take] gathers the rows of a column. Besides
// its result, a call needs 2 bytes of memory per row.
//
// Partition panics if columns differ in length. It returns weft.ErrOptions if there are no key
// columns, a column has no type, 32 bits cannot number the rows, or options are outside their
// range.
func Partition(dev device.Host, keys []Column, opts PartitionOptions) (Parts, error) {
	if err := opts.Check(); err != nil {
		return Parts{}, err
	}
	if len(keys) == 0 {
		return Parts{}, fmt.Errorf("column: %w: no key columns", op.ErrOptions)
	}
	n := keys[0].n
	for i, c := range keys {
		if c.n != n {
			panic(fmt.Sprintf("column: key column %d has %d rows and column 0 has %d", i, c.n, n))
		}
		if c.typ == None {
			return Parts{}, fmt.Errorf("column: %w: key column %d has no type; "+
				"an empty column of some type is column.Of([]int64{})", op.ErrOptions, i)
		}
	}
	if n > math.MaxUint32 {
		return Parts{}, fmt.Errorf("column: %w: %d rows; row numbers have 32 bits", op.ErrOptions, n)
	}
	p := newPartitioner(dev, keys, opts)
	defer p.release()
	p.hash()
	offsets, next := p.computeOffsets()
	rows := make([]uint32, offsets[opts.Parts])
	p.write(rows)
	return Parts{Rows: rows, Offsets: offsets, Next: next}, nil
}

// Check returns weft.ErrOptions if a field is outside its range.
func (o *PartitionOptions) Check() error {
	switch {
	case o.Parts < 1 || o.Parts > MaxParts:
		return fmt.Errorf("column: %w: Parts is %d; 1 to %d are possible",
			op.ErrOptions, o.Parts, MaxParts)
	case o.Nulls > DealNulls:
		return fmt.Errorf("column: %w: unknown Nulls %v", op.ErrOptions, o.Nulls)
	case o.First < 0 || o.First >= o.Parts:
		return fmt.Errorf("column: %w: First is %d, but there are %d partitions", op.ErrOptions,
			o.First, o.Parts)
	}
	return nil
}

// partitioner partitions one batch. It cuts the rows into shares. Each share has its own counts.
// The prefix sums of the counts are the positions at which shares write the rows of each partition.
type partitioner struct {
	dev   device.Host
	opts  PartitionOptions
	h     *hasher
	n     int
	valid []Bitmap // bitmaps of the columns with nulls to drop or deal

	share, shares int
	counts        []uint32 // by share and partition
	nulls         []int    // by share: number of rows dropped or dealt
	parts         *[]uint16
}

// minShare is the minimum number of rows per share. sharesPerCore is the number of shares per core.
// With several, no core waits long for another.
const (
	minShare      = 1 << 14
	sharesPerCore = 4
)

// partsMemory pools the memory for the partitions of rows.
var partsMemory = sync.Pool{New: func() any { return new([]uint16) }}

func newPartitioner(dev device.Host, keys []Column, opts PartitionOptions) *partitioner {
	p := &partitioner{dev: dev, opts: opts, h: newHasher(dev, keys, opts.Seed), n: keys[0].n}
	for _, c := range keys {
		if opts.Nulls != HashNulls && c.HasNulls() {
			p.valid = append(p.valid, c.valid)
		}
	}
	shares := sharesPerCore * dev.Properties().Units
	// The counts of a share take time to clear and add up, so a share has at least Parts rows.
	p.share = max((p.n+shares-1)/shares, minShare, opts.Parts)
	p.share = (p.share + hashBlock - 1) / hashBlock * hashBlock
	p.shares = (p.n + p.share - 1) / p.share
	p.counts, p.nulls = make([]uint32, p.shares*opts.Parts), make([]int, p.shares)
	p.parts = partsMemory.Get().(*[]uint16)
	if cap(*p.parts) < p.n {
		*p.parts = make([]uint16, p.n)
	}
	return p
}

func (p *partitioner) release() { partsMemory.Put(p.parts) }

// null returns a mask of the n rows from lo on that have a null to drop or deal. Bit i belongs to
// row lo+i, and n is at most 64.
func (p *partitioner) null(lo, n int) (rows uint64) {
	for _, v := range p.valid {
		rows |= v.zeros(lo, n)
	}
	return rows
}

// hash computes the partition of each row, and counts the rows of each partition.
func (p *partitioner) hash() {
	p.dev.Parallel(p.n, p.share, func(lo, hi int) {
		hashes, words := new([hashBlock]uint64), new([hashBlock]uint64)
		i := lo / p.share
		count := p.counts[i*p.opts.Parts:][:p.opts.Parts]
		for ; lo < hi; lo += hashBlock {
			hashes := hashes[:min(hashBlock, hi-lo)]
			p.h.block(lo, hashes, words)
			part := (*p.parts)[:p.n][lo : lo+len(hashes)]
			for j, h := range hashes {
				to, _ := bits.Mul64(h, uint64(len(count)))
				part[j] = uint16(to)
				count[to]++
			}
			p.nulls[i] += p.uncount(lo, part, count)
		}
	})
}

// uncount removes rows with a null to drop or deal from the counts. It returns their number.
func (p *partitioner) uncount(lo int, part []uint16, count []uint32) (n int) {
	if len(p.valid) == 0 {
		return 0
	}
	for at := 0; at < len(part); at += 64 {
		for z := p.null(lo+at, min(64, len(part)-at)); z != 0; z &= z - 1 {
			count[part[at+bits.TrailingZeros64(z)]]--
			n++
		}
	}
	return n
}

// computeOffsets replaces counts by the offsets at which shares write, and nulls by the partition
// of the first row that a share deals.
func (p *partitioner) computeOffsets() (offsets []uint32, next int) {
	parts := p.opts.Parts
	next = p.opts.First
	if p.opts.Nulls == DealNulls && len(p.valid) > 0 {
		for i, n := range p.nulls {
			count := p.counts[i*parts:][:parts]
			for j := range count {
				count[j] += uint32(n / parts)
			}
			for j := range n % parts {
				count[(next+j)%parts]++
			}
			p.nulls[i], next = next, (next+n)%parts
		}
	}
	offsets = make([]uint32, parts+1)
	at := uint32(0)
	for j := range parts {
		offsets[j] = at
		for i := range p.shares {
			count := &p.counts[i*parts+j]
			*count, at = at, at+*count
		}
	}
	offsets[parts] = at
	return offsets, next
}

// write writes the row numbers to their partitions.
func (p *partitioner) write(rows []uint32) {
	p.dev.Parallel(p.n, p.share, func(lo, hi int) {
		share := lo / p.share
		place := p.counts[share*p.opts.Parts:][:p.opts.Parts]
		part := (*p.parts)[:p.n][lo:hi]
		if len(p.valid) == 0 {
			for i, to := range part {
				at := place[to]
				place[to] = at + 1
				rows[at] = uint32(lo + i)
			}
			return
		}
		next := p.nulls[share]
		for ; len(part) > 0; lo, part = lo+64, part[min(64, len(part)):] {
			null := p.null(lo, min(64, len(part)))
			for i, to := range part[:min(64, len(part))] {
				if null>>i&1 != 0 {
					if p.opts.Nulls == DropNulls {
						continue
					}
					to = uint16(next)
					if next++; next == len(place) {
						next = 0
					}
				}
				at := place[to]
				place[to] = at + 1
				rows[at] = uint32(lo + i)
			}
		}
	})
}
