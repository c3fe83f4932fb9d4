package prim

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// Group finds the segments of equal keys in a column of N sorted keys, each of Key bytes (4 or 8).
// It writes the first row of each segment to Offsets (uint32), and then N. Offsets must hold N+1
// numbers. Count receives the number of segments (uint32). Unless Distinct is 0, it receives the
// key of each segment.
//
// To group the rows of a batch by key, first sort the keys with the row numbers 0 to N-1 as values.
// Rows with equal keys are then adjacent and in batch order. If v are the sorted row numbers, the
// first row of segment i is v[Offsets[i]] and its last row is v[Offsets[i+1]-1]. [Reduce] accepts
// Offsets and Count as Group writes them.
type Group struct {
	N, Key                         int
	Keys, Offsets, Count, Distinct device.Ptr
}

func (o *Group) tiles() int { return tiles(max(o.N, 0), headTiles[o.Key]) }

// ScratchBytes returns the size of the scratch memory that the operation needs, or 0 if the
// operation is invalid.
func (o *Group) ScratchBytes() int {
	if o.valid() != nil {
		return 0
	}
	_, _, end := scanScratch(0, o.tiles())
	return int(end)
}

func (o *Group) valid() error {
	if headTiles[o.Key] == 0 {
		return invalid("group of keys of %d bytes, not 4 or 8", o.Key)
	}
	return check("group", o.N, 0, device.Buffer{})
}

// Group submits the operation. It returns ErrInvalid if the width or a column is invalid, or if the
// scratch memory is too small.
func (k *Kernels) Group(s *device.Stream, o *Group, scratch device.Buffer) error {
	if err := o.valid(); err != nil {
		return err
	}
	columns := []column{{"offsets", o.Offsets, 4}, {"count", o.Count, 4}}
	if o.N > 0 {
		columns = append(columns, column{"keys", o.Keys, o.Key})
	}
	if o.Distinct != 0 {
		columns = append(columns, column{"distinct keys", o.Distinct, o.Key})
	}
	if err := check("group", o.N, o.ScratchBytes(), scratch, columns...); err != nil {
		return err
	}
	if o.N == 0 {
		if err := s.Fill(o.Count, 0, 1); err != nil {
			return err
		}
		return s.Fill(o.Offsets, 0, 1)
	}
	next, status, err := startScan(s, scratch, o.tiles())
	if err != nil {
		return err
	}
	return launch(k, s, &scanImage, fmt.Sprintf("scan_heads_%d", 8*o.Key), o.tiles(), scanThreads, &headsParams{
		keys: o.Keys, distinct: o.Distinct, offsets: o.Offsets, count: o.Count, status: status, next: next, n: uint32(o.N),
	})
}
