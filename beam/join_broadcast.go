package beam

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/join"
)

func init() {
	register.DoFn4x1[context.Context, []byte, func(*[]byte) bool, func([]byte), error](
		&broadcastJoin{})
}

// devices caches the devices that auto.Open has opened, by the argument of Open. They stay open.
var devices struct {
	sync.Mutex
	open map[string]device.Device
}

// lookupDevice returns the device for a choice. The empty choice means the cores.
func lookupDevice(choice string) (device.Device, error) {
	if choice == "" {
		return openHost()
	}
	devices.Lock()
	defer devices.Unlock()
	if dev := devices.open[choice]; dev != nil {
		return dev, nil
	}
	dev, reasons, err := auto.Open(choice)
	if err != nil {
		for _, reason := range reasons {
			err = fmt.Errorf("%w; %v", err, reason)
		}
		return nil, fmt.Errorf("device %q: %w", choice, err)
	}
	if devices.open == nil {
		devices.open = map[string]device.Device{}
	}
	devices.open[choice] = dev
	return dev, nil
}

// broadcastJoin is the DoFn that joins left blocks with the right side, which is a side input. It
// indexes the right side once and keeps the index for all bundles.
type broadcastJoin struct {
	Plan joinPlan

	index   *join.Index     // nil before it is built, and if the right side has no block
	empty   bool            // the right side has no block
	columns []column.Column // right columns; for Left joins, a null follows the last row
	fields  []goarrow.Field
}

// ProcessElement joins the rows of a left block.
func (f *broadcastJoin) ProcessElement(
	ctx context.Context, block []byte, right func(*[]byte) bool, emit func([]byte),
) error {
	if f.index == nil && !f.empty {
		if err := f.build(ctx, right); err != nil {
			return fmt.Errorf("beam: broadcast the right side: %w", err)
		}
	}
	if f.empty {
		if f.Plan.Kind == join.Left {
			if rec, err := Decode(block); err != nil || rec.NumRows() == 0 {
				return err
			}
		}
		left := func(b *[]byte) bool {
			*b, block = block, nil
			return *b != nil
		}
		return f.Plan.joinEmptyRight(left, emit)
	}
	side, err := decodeSide(block, f.Plan.Left, false)
	if err != nil {
		return err
	}
	out := &joinWriter{kind: f.Plan.Kind, right: f.fields, emit: emit}
	if err = out.open(side); err == nil {
		err = out.write(f.joined(ctx, side))
	}
	if err != nil {
		return fmt.Errorf("beam: join a block of the left side: %w", err)
	}
	return nil
}

func (f *broadcastJoin) build(ctx context.Context, next func(*[]byte) bool) error {
	var keys, columns [][]column.Column // indexed by column, then by block
	var schema *goarrow.Schema
	var size int64
	var b []byte
	for next(&b) {
		side, err := decodeSide(b, f.Plan.Right, true)
		if err != nil {
			return err
		}
		if schema == nil {
			schema, f.fields = side.schema, side.fields
			keys, columns = make([][]column.Column, len(side.keys)), make([][]column.Column,
				len(side.columns))
		}
		if !schema.Equal(side.schema) {
			return differ(schema, side.schema)
		}
		for i, c := range side.keys {
			keys[i] = append(keys[i], c)
		}
		for i, c := range side.columns {
			columns[i] = append(columns[i], c)
		}
		if size += sizeOf(side.columns) + sizeOf(side.keys); size > f.Plan.Memory {
			return f.tooLarge(size)
		}
	}
	if f.empty = schema == nil; f.empty {
		return nil
	}
	if f.Plan.Kind == join.Left {
		for i := range columns {
			columns[i] = append(columns[i], nullOf(columns[i][0].Type()))
		}
	}
	keyColumns, err := concatAll(keys)
	if err != nil {
		return err
	}
	if f.columns, err = concatAll(columns); err != nil {
		return err
	}
	dev, err := lookupDevice(f.Plan.Device)
	if err != nil {
		return err
	}
	ix, err := join.New(ctx, dev, keyColumns, &join.Options{NullsMatch: f.Plan.NullsMatch})
	if err != nil {
		return err
	}
	if size += int64(ix.Bytes()); size > f.Plan.Memory {
		return errors.Join(f.tooLarge(size), ix.Close())
	}
	f.index = ix
	return nil
}

func (f *broadcastJoin) tooLarge(size int64) error {
	return fmt.Errorf("%w: it takes %d bytes or more, and JoinOptions.Memory is %d: leave "+
		"Broadcast out, or set Memory higher", weft.ErrFull, size, f.Plan.Memory)
}

func concatAll(batches [][]column.Column) ([]column.Column, error) {
	all := make([]column.Column, len(batches))
	for i, b := range batches {
		var err error
		if all[i], err = column.Concat(b...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func nullOf(t column.Type) column.Column {
	c := column.OfStrings([]string{""})
	if t != column.Bytes {
		var err error
		if c, err = column.OfRaw(t, make([]byte, t.Size())); err != nil {
			panic(err)
		}
	}
	return c.WithValid(column.OfBools([]bool{false}))
}

// joined yields the joined rows of a left block.
func (f *broadcastJoin) joined(
	ctx context.Context, left *joinSide,
) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		dev, err := openHost()
		if err != nil {
			yield(nil, err)
			return
		}
		var pairs iter.Seq2[join.Pairs, error]
		switch f.Plan.Kind {
		case join.Inner:
			pairs = f.index.Inner(ctx, left.keys)
		case join.Left:
			pairs = f.index.Left(ctx, left.keys)
		default:
			yield(f.matchLeft(ctx, dev, left))
			return
		}
		for p, err := range pairs {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(f.take(dev, left, p), nil) {
				return
			}
		}
	}
}

// matchLeft returns the rows of a left block that a Semi or Anti join selects.
func (f *broadcastJoin) matchLeft(
	ctx context.Context, dev device.Host, left *joinSide,
) ([]column.Column, error) {
	find := f.index.Semi
	if f.Plan.Kind == join.Anti {
		find = f.index.Anti
	}
	rows, err := find(ctx, left.keys, nil)
	if err != nil {
		return nil, err
	}
	return f.take(dev, left, join.Pairs{Left: rows}), nil
}

// take returns the result columns for pairs of rows.
func (f *broadcastJoin) take(
	dev device.Host, left *joinSide, pairs join.Pairs,
) (columns []column.Column) {
	for _, c := range left.columns {
		columns = append(columns, column.Take(dev, c, pairs.Left))
	}
	if f.Plan.Kind == join.Semi || f.Plan.Kind == join.Anti {
		return columns
	}
	for i, r := range pairs.Right { // the index overwrites this memory later anyway
		pairs.Right[i] = min(r, uint32(f.index.Len())) // NoRow becomes the index of the null
	}
	for _, c := range f.columns {
		columns = append(columns, column.Take(dev, c, pairs.Right))
	}
	return columns
}

// Teardown closes the index.
func (f *broadcastJoin) Teardown() error {
	if f.index == nil {
		return nil
	}
	return f.index.Close()
}
