package group

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/feed"
	"github.com/weftgo/weft/internal/gpu/groups"
	"github.com/weftgo/weft/internal/gpu/parts"
)

// fullError reports that device memory cannot hold the groups of the first rows of host columns.
type fullError struct {
	rows int
	err  error
}

func (e *fullError) Unwrap() error { return e.err }

func (e *fullError) Error() string {
	return fmt.Sprintf("groups of %d rows, which ByOn takes in partitions: %v", e.rows, e.err)
}

// addHost adds rows of host columns piece by piece.
func (g *gpuGroups) addHost(ctx context.Context, keys, values []column.Column, n int) error {
	if g.feed == nil {
		if err := g.openFeed(); err != nil {
			return err
		}
	}
	columns := slices.Clone(keys)
	for i, c := range values {
		if !g.reads(i) {
			c = column.Column{}
		}
		columns = append(columns, c)
	}
	return g.feed.Run(ctx, columns, n, func(p *feed.Piece) error {
		err := g.addPiece(ctx, p)
		if errors.Is(err, device.ErrMemory) {
			err = &fullError{p.First + p.N, err}
		}
		return err
	})
}

func (g *gpuGroups) openFeed() (err error) {
	if g.work == nil {
		if g.work, err = g.dev.NewStream(); err != nil {
			return err
		}
	}
	g.feed, err = feed.New(g.work, g.piece)
	return err
}

// addPiece adds the rows of a piece. If the groups are those of a partition, it adds only rows of
// that partition.
func (g *gpuGroups) addPiece(ctx context.Context, p *feed.Piece) (err error) {
	n, columns := p.N, p.Columns
	if g.part != nil {
		if n, columns, err = g.part.selectRows(ctx, g.work, p, len(g.l.keys)); err != nil || n == 0 {
			return err
		}
	}
	converted := make([]groups.Column, len(columns))
	for i, c := range columns {
		converted[i] = groups.Column{
			Type: kernelTypes[c.Type], Values: c.Values, Valid: c.Valid, Offset: c.Offset,
		}
	}
	keys, values := converted[:len(g.l.keys)], converted[len(g.l.keys):]
	return g.addColumns(g.work, groups.Rows{N: n, Keys: keys, Values: values})
}

// partitionFilter selects the rows of a piece that belong to a partition, by the hash of their
// keys.
type partitionFilter struct {
	number, count int
	seed          uint64
	dev           device.Device

	rows     parts.Result        // row numbers of a piece; kernels read them until the next piece
	selected device.Slice[uint8] // copies of the selected rows, as columns
}

// selectRows returns the rows of a piece that belong to the partition. They last until the next
// call.
func (p *partitionFilter) selectRows(
	ctx context.Context, s *device.Stream, src *feed.Piece, keys int,
) (n int, columns []feed.Column, err error) {
	work := parts.Partition{Keys: parts.Keys{N: src.N, Seed: p.seed}, Parts: p.count}
	for _, c := range src.Columns[:keys] {
		work.Columns = append(work.Columns, partsColumn(c))
	}
	rows, err := work.Run(ctx, s) // waits for all uses of the earlier p.rows
	if err != nil {
		return 0, nil, err
	}
	err = p.freeRows()
	p.rows = rows
	var bounds [2]uint32
	if err == nil {
		err = rows.Offsets.Sub(p.number, p.number+2).CopyTo(ctx, s, bounds[:])
	}
	if n = int(bounds[1] - bounds[0]); err != nil || n == 0 {
		return 0, nil, err
	}
	if columns, err = p.allocateColumns(src.Columns, n); err != nil {
		return 0, nil, err
	}
	at := rows.Rows.Ptr() + device.Ptr(4*bounds[0])
	for i, to := range columns {
		if to.Type == column.None {
			continue
		}
		c := partsColumn(src.Columns[i])
		if err := parts.Take(s, c, src.N, at, n, to.Values, to.Valid); err != nil {
			return 0, nil, err
		}
	}
	return n, columns, nil
}

// allocateColumns allocates columns of n rows, with types and bitmaps like the template. It reuses
// the memory of earlier columns, which must not be in use.
func (p *partitionFilter) allocateColumns(template []feed.Column, n int) (columns []feed.Column, err error) {
	const unit = 256 // the alignment of device memory
	size := 0
	add := func(bytes int) (at device.Ptr) {
		at = device.Ptr(size)
		size += (bytes + unit - 1) / unit * unit
		return at
	}
	for _, c := range template {
		to := feed.Column{Type: c.Type, Values: add(n * c.Type.Size())}
		if c.Valid != 0 {
			to.Valid = add((n + 31) / 32 * 4)
		}
		columns = append(columns, to)
	}
	if p.selected.Len() < size {
		if err := p.selected.Free(); err != nil {
			return nil, err
		}
		if p.selected, err = device.Make[uint8](p.dev, size+size/4); err != nil {
			return nil, err
		}
	}
	for i := range columns {
		columns[i].Values += p.selected.Ptr()
		if template[i].Valid != 0 {
			columns[i].Valid += p.selected.Ptr()
		}
	}
	return columns, nil
}

func partsColumn(c feed.Column) parts.Column {
	return parts.Column{Type: uint8(c.Type), Values: c.Values, Valid: c.Valid, Offset: c.Offset}
}

func (p *partitionFilter) freeRows() error {
	return errors.Join(p.rows.Rows.Free(), p.rows.Offsets.Free())
}

// free frees the memory, which must not be in use.
func (p *partitionFilter) free() error { return errors.Join(p.freeRows(), p.selected.Free()) }
