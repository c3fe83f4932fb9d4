package beam

import (
	"bytes"
	"context"
	"fmt"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

func init() {
	register.DoFn3x1[context.Context, []byte, func(int, []byte), error](&dealtRows{})
	register.DoFn3x1[context.Context, []byte, func([]byte), error](&blockSchemas{})
	register.Function2x2(sameSchema)
}

// dealtRows is the DoFn that distributes the rows of one side, as blocks, to partitions of the
// keys.
type dealtRows struct {
	Side  string
	Keys  names
	Parts int
	Nulls column.Nulls

	schema *goarrow.Schema
	next   int // partition of the next row that DealNulls distributes
	parts  []dealtPart
}

// dealtPart holds rows of one partition until they fill a block.
type dealtPart struct {
	batches [][]column.Column
	size    int64
}

// StartBundle drops the state of a failed bundle.
func (f *dealtRows) StartBundle(context.Context, func(int, []byte)) error {
	f.schema, f.next, f.parts = nil, 0, make([]dealtPart, f.Parts)
	return nil
}

// ProcessElement distributes the rows of a block.
func (f *dealtRows) ProcessElement(_ context.Context, block []byte, emit func(int, []byte)) error {
	rec, err := Decode(block)
	if err != nil {
		return err
	}
	if err := f.deal(rec, emit); err != nil {
		return fmt.Errorf("beam: a block of the %s side: %w", f.Side, err)
	}
	return nil
}

func (f *dealtRows) deal(rec goarrow.RecordBatch, emit func(int, []byte)) error {
	dev, err := openHost()
	if err != nil {
		return err
	}
	schema := withoutDictionaries(rec.Schema())
	if f.schema == nil {
		f.schema = schema
	}
	if !schema.Equal(f.schema) {
		return differ(f.schema, schema)
	}
	columns, err := arrow.Columns(rec)
	if err != nil {
		return err
	}
	keys, err := columnsOf(rec.Schema(), columns, f.Keys)
	if err != nil || rec.NumRows() == 0 {
		return err
	}
	rows, err := column.Partition(dev, keys,
		column.PartitionOptions{Parts: f.Parts, Nulls: f.Nulls, First: f.next})
	if err != nil {
		return err
	}
	f.next = rows.Next
	for p := range f.Parts {
		if err := f.add(dev, p, columns, rows.Part(p), emit); err != nil {
			return err
		}
	}
	return nil
}

func columnsOf(
	schema *goarrow.Schema, columns []column.Column, names []string,
) ([]column.Column, error) {
	at, err := find(schema, names)
	if err != nil {
		return nil, err
	}
	selected := make([]column.Column, len(at))
	for i, j := range at {
		selected[i] = columns[j]
	}
	return selected, nil
}

// add adds rows to a partition. If they would overfill a block, it first emits the earlier rows.
func (f *dealtRows) add(
	dev device.Host, part int, columns []column.Column, rows []uint32, emit func(int, []byte),
) error {
	if len(rows) == 0 {
		return nil
	}
	selected := make([]column.Column, len(columns))
	for i, c := range columns {
		selected[i] = column.Take(dev, c, rows)
	}
	p := &f.parts[part]
	size := sizeOf(selected)
	if p.size > 0 && p.size+size > MaxBlock-MaxBlock/16 {
		if err := f.flush(part, emit); err != nil {
			return err
		}
	}
	p.batches, p.size = append(p.batches, selected), p.size+size
	return nil
}

func (f *dealtRows) flush(part int, emit func(int, []byte)) error {
	p := &f.parts[part]
	if len(p.batches) == 0 {
		return nil
	}
	all := make([]column.Column, len(p.batches[0]))
	selected := make([]column.Column, len(p.batches))
	for i := range all {
		for j, b := range p.batches {
			selected[j] = b[i]
		}
		var err error
		if all[i], err = column.Concat(selected...); err != nil {
			return err
		}
	}
	*p = dealtPart{}
	blocks, err := encodeColumns(all, f.schema)
	for _, b := range blocks {
		emit(part, b)
	}
	return err
}

// FinishBundle emits the rows of all partitions.
func (f *dealtRows) FinishBundle(_ context.Context, emit func(int, []byte)) error {
	for p := range f.parts {
		if err := f.flush(p, emit); err != nil {
			return fmt.Errorf("beam: deal out the %s side: %w", f.Side, err)
		}
	}
	f.parts = nil
	return nil
}

// blockSchemas is the DoFn that emits one schema per bundle of blocks.
type blockSchemas struct{ schema []byte }

// StartBundle drops the schema of the previous bundle.
func (f *blockSchemas) StartBundle(context.Context, func([]byte)) error {
	f.schema = nil
	return nil
}

// ProcessElement emits the schema of the first block. Later blocks must have the same schema.
func (f *blockSchemas) ProcessElement(_ context.Context, block []byte, emit func([]byte)) error {
	rec, err := Decode(block)
	if err != nil {
		return err
	}
	b, err := encodeSchema(withoutDictionaries(rec.Schema()))
	if err != nil {
		return err
	}
	if f.schema == nil {
		f.schema = b
		emit(b)
		return nil
	}
	_, err = sameSchema(f.schema, b)
	return err
}

// sameSchema returns a, or an error if the schemas differ.
func sameSchema(a, b []byte) ([]byte, error) {
	if !bytes.Equal(a, b) {
		return nil, fmt.Errorf("beam: the right side: %w", schemasDiffer(a, b))
	}
	return a, nil
}
