package beam

import (
	"context"
	"errors"
	"fmt"
	"slices"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/group"
)

func init() {
	register.DoFn3x1[context.Context, []byte, func(int, []byte), error](&partialGroups{})
	register.DoFn4x1[context.Context, int, func(*[]byte) bool, func([]byte), error](&mergedGroups{})
	register.Emitter1[[]byte]()
	register.Emitter2[int, []byte]()
	register.Iter1[[]byte]()
}

// partialGroups is the DoFn that groups the rows of a bundle. It emits the groups in pieces, each
// for one partition of the keys.
type partialGroups struct {
	Plan groupPlan

	groups   *group.Groups
	on       *group.GroupsOn // groups of the latest rows, on the device; nil if none
	onRows   int
	schema   *goarrow.Schema // schema of the result
	ordinals []uint64
}

// StartBundle drops the state of a failed bundle.
func (f *partialGroups) StartBundle(context.Context, func(int, []byte)) error {
	return f.Teardown()
}

// ProcessElement adds the rows of a block to the groups.
func (f *partialGroups) ProcessElement(
	ctx context.Context, block []byte, emit func(int, []byte),
) error {
	rec, err := Decode(block)
	if err != nil {
		return err
	}
	if err := f.add(ctx, rec); err != nil {
		return fmt.Errorf("beam: group a block: %w", err)
	}
	if f.groups.Spilled() > 0 { // other pieces of the partition need the memory, too
		return f.flush(ctx, emit)
	}
	return nil
}

func (f *partialGroups) add(ctx context.Context, rec goarrow.RecordBatch) error {
	p := &f.Plan
	names := p.Keys
	if p.AllKeys {
		names = nil
		for _, field := range rec.Schema().Fields() {
			names = append(names, field.Name)
		}
	}
	keys, err := find(rec.Schema(), names)
	if err != nil {
		return err
	}
	values, err := find(rec.Schema(), p.Values)
	if err != nil {
		return err
	}
	if err := f.open(rec.Schema(), keys, values); err != nil {
		return err
	}
	keyColumns, err := pick(rec, keys)
	if err != nil {
		return err
	}
	valueColumns, err := pick(rec, values)
	if err != nil {
		return err
	}
	if dev, err := f.device(keyColumns, valueColumns); err != nil {
		return err
	} else if dev != nil {
		return f.addOn(ctx, dev, keyColumns, valueColumns, int(rec.NumRows()))
	}
	if err := f.merge(ctx); err != nil {
		return err
	}
	if p.Order == "" {
		return f.groups.Add(ctx, keyColumns, valueColumns)
	}
	ordinals, err := f.order(rec)
	if err != nil {
		return err
	}
	return f.groups.AddAt(ctx, ordinals, keyColumns, valueColumns)
}

// device returns the GPU that groups the columns, or nil if the cores group them.
func (f *partialGroups) device(keys, values []column.Column) (device.Device, error) {
	noKernel := func(a group.Aggregate) bool { return a.Func == group.Var || a.Func == group.StdDev }
	if f.Plan.Device == "" || f.Plan.Order != "" || slices.ContainsFunc(f.Plan.Aggs, noKernel) ||
		!fixed(keys) || !fixed(values) {
		return nil, nil
	}
	dev, err := lookupDevice(f.Plan.Device)
	if _, host := dev.(device.Host); host { // grouping there has no memory limit
		return nil, err
	}
	return dev, err
}

// fixed reports whether all columns have types of fixed size, which devices require.
func fixed(columns []column.Column) bool {
	return !slices.ContainsFunc(columns, func(c column.Column) bool {
		return c.Type() == column.Bytes
	})
}

// maxRowsOn bounds the rows, and thereby the groups, that a device holds.
const maxRowsOn = 1 << 24

func (f *partialGroups) addOn(
	ctx context.Context, dev device.Device, keys, values []column.Column, rows int,
) (err error) {
	if f.on == nil {
		opts := &group.Options{SkipNulls: f.Plan.SkipNulls, WrapSums: f.Plan.WrapSums}
		if f.on, err = group.NewOn(dev, f.Plan.Aggs, opts); err != nil {
			return err
		}
	}
	if err := f.on.Add(ctx, keys, values); err != nil {
		return err
	}
	if f.onRows += rows; f.onRows < maxRowsOn {
		return nil
	}
	return f.merge(ctx)
}

// merge moves the groups on the device to f.groups.
func (f *partialGroups) merge(ctx context.Context) error {
	if f.on == nil {
		return nil
	}
	on := f.on
	f.on, f.onRows = nil, 0
	return errors.Join(f.groups.MergeOn(ctx, on), on.Close())
}

// open creates the groups for the first block of a bundle. For later blocks, it checks that they
// have the same types.
func (f *partialGroups) open(block *goarrow.Schema, keys, values []int) error {
	schema, err := f.Plan.resultSchema(block, keys, values)
	if err != nil {
		return err
	}
	if f.groups != nil {
		if !schema.Equal(f.schema) {
			return differ(f.schema, schema)
		}
		return nil
	}
	dev, err := openHost()
	if err != nil {
		return err
	}
	f.schema = schema
	f.groups, err = group.New(dev, f.Plan.Aggs, f.Plan.options())
	return err
}

// order returns the values of the order column as uint64 ordinals that sort like the values.
func (f *partialGroups) order(rec goarrow.RecordBatch) ([]uint64, error) {
	at, err := find(rec.Schema(), []string{f.Plan.Order})
	if err != nil {
		return nil, err
	}
	columns, err := pick(rec, at)
	if err != nil {
		return nil, err
	}
	c := columns[0]
	if !c.Type().Integer() || c.Nulls() > 0 {
		return nil, fmt.Errorf("%w: the order column %q has %v and %d nulls; want integers "+
			"without nulls",
			weft.ErrOptions, f.Plan.Order, rec.Schema().Field(at[0]).Type, c.Nulls())
	}
	switch c.Type() {
	case column.Int8:
		return ordinalsOf[int8](f, c), nil
	case column.Int16:
		return ordinalsOf[int16](f, c), nil
	case column.Int32:
		return ordinalsOf[int32](f, c), nil
	case column.Int64:
		return ordinalsOf[int64](f, c), nil
	case column.Uint8:
		return ordinalsOf[uint8](f, c), nil
	case column.Uint16:
		return ordinalsOf[uint16](f, c), nil
	case column.Uint32:
		return ordinalsOf[uint32](f, c), nil
	}
	return column.Values[uint64](c), nil
}

// ordinalsOf adds 2^63 to integers, so that negative ones sort first.
func ordinalsOf[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32](
	f *partialGroups, c column.Column,
) []uint64 {
	f.ordinals = f.ordinals[:0]
	for _, v := range column.Values[T](c) {
		f.ordinals = append(f.ordinals, uint64(v)^1<<63)
	}
	return f.ordinals
}

// FinishBundle emits the groups of the bundle.
func (f *partialGroups) FinishBundle(ctx context.Context, emit func(int, []byte)) error {
	return f.flush(ctx, emit)
}

// flush emits all groups so far and drops them.
func (f *partialGroups) flush(ctx context.Context, emit func(int, []byte)) error {
	if f.groups == nil {
		return nil
	}
	if err := f.merge(ctx); err != nil {
		return fmt.Errorf("beam: %w", err)
	}
	schema, err := encodeSchema(f.schema)
	if err != nil {
		return err
	}
	schema = withLength(schema)
	var emptyPiece []byte // piece for partition 0 without groups
	emitted := false
	err = f.groups.SaveParts(ctx, f.Plan.Parts, 0, max(MaxBlock-len(schema), 1),
		func(part, groups int, saved []byte) error {
			piece := slices.Concat(schema, saved)
			switch {
			case groups > 0:
				emit(part, piece)
				emitted = true
			case part == 0:
				emptyPiece = piece
			}
			return nil
		})
	if err != nil {
		return fmt.Errorf("beam: %w", err)
	}
	if !emitted { // the result needs a schema even without groups
		emit(0, emptyPiece)
	}
	return f.Teardown()
}

// Teardown frees the groups.
func (f *partialGroups) Teardown() error {
	if f.groups == nil {
		return nil
	}
	g, on := f.groups, f.on
	f.groups, f.on, f.onRows, f.schema = nil, nil, 0, nil
	if on == nil {
		return g.Close()
	}
	return errors.Join(on.Close(), g.Close())
}
