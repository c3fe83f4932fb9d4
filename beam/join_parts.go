package beam

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/join"
)

func init() {
	register.DoFn6x1[context.Context, int, func(*[]byte) bool, func(*[]byte) bool,
		func(*[]byte) bool, func([]byte), error](&joinedParts{})
}

// joinedParts is the DoFn that joins the left and right rows of a partition.
type joinedParts struct{ Plan joinPlan }

// ProcessElement joins a partition. The side input schema is the right side's schema. It is empty
// if the right side has no block.
func (f *joinedParts) ProcessElement(
	ctx context.Context, part int, left, right, schema func(*[]byte) bool, emit func([]byte),
) error {
	var b []byte
	var err error
	if schema(&b) {
		err = f.Plan.join(ctx, left, right, b, emit)
	} else {
		err = f.Plan.joinEmptyRight(left, emit)
	}
	if err != nil {
		return fmt.Errorf("beam: join partition %d: %w", part, err)
	}
	return nil
}

// joinEmptyRight joins left rows if the right side has no block.
func (p *joinPlan) joinEmptyRight(left func(*[]byte) bool, emit func([]byte)) error {
	var b []byte
	switch p.Kind {
	case join.Left:
		if left(&b) {
			return fmt.Errorf("%w: the right side has no block, so its columns are not known; "+
				"add a block without rows", weft.ErrOptions)
		}
	case join.Anti:
		for left(&b) {
			emit(b)
		}
	}
	return nil
}

func (p *joinPlan) join(
	ctx context.Context, left, right func(*[]byte) bool, schema []byte, emit func([]byte),
) (err error) {
	dev, err := openHost()
	if err != nil {
		return err
	}
	j, err := join.NewJoin(dev, p.Kind, p.options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	var rightFields []goarrow.Field
	for b, more := schema, true; more; more = right(&b) {
		side, err := decodeSide(b, p.Right, true)
		if err == nil {
			err = j.Build(ctx, side.keys, side.columns)
		}
		if err != nil {
			return fmt.Errorf("a block of the right side: %w", err)
		}
		rightFields = side.fields
	}
	out := &joinWriter{kind: p.Kind, right: rightFields, emit: emit}
	var b []byte
	for left(&b) {
		side, err := decodeSide(b, p.Left, false)
		if err == nil {
			err = out.open(side)
		}
		if err == nil {
			err = out.write(j.Probe(ctx, side.keys, side.columns))
		}
		if err != nil {
			return fmt.Errorf("a block of the left side: %w", err)
		}
	}
	if out.schema == nil { // no left rows
		return nil
	}
	return out.write(j.Finish(ctx))
}

type joinSide struct {
	schema  *goarrow.Schema
	keys    []column.Column
	columns []column.Column // columns of the result
	fields  []goarrow.Field // fields of columns
}

// decodeSide decodes a block. If omitKeys is set, its columns exclude the keys.
func decodeSide(block []byte, keys []string, omitKeys bool) (*joinSide, error) {
	rec, err := Decode(block)
	if err != nil {
		return nil, err
	}
	s := &joinSide{schema: withoutDictionaries(rec.Schema())}
	columns, err := arrow.Columns(rec)
	if err != nil {
		return nil, err
	}
	if s.keys, err = columnsOf(s.schema, columns, keys); err != nil {
		return nil, err
	}
	for i, f := range s.schema.Fields() {
		if !omitKeys || !slices.Contains(keys, f.Name) {
			s.columns, s.fields = append(s.columns, columns[i]), append(s.fields, f)
		}
	}
	return s, nil
}

type joinWriter struct {
	kind   join.Kind
	right  []goarrow.Field
	emit   func([]byte)
	left   *goarrow.Schema
	schema *goarrow.Schema // schema of joined rows
}

// open sets the schema on the first left block. Later blocks must have the same columns.
func (w *joinWriter) open(side *joinSide) error {
	if w.left != nil {
		if !w.left.Equal(side.schema) {
			return differ(w.left, side.schema)
		}
		return nil
	}
	right := w.right
	if w.kind == join.Semi || w.kind == join.Anti {
		right = nil
	}
	schema, err := joinSchema(side.schema, right)
	w.left, w.schema = side.schema, schema
	return err
}

func (w *joinWriter) write(batches iter.Seq2[[]column.Column, error]) error {
	for columns, err := range batches {
		if err != nil {
			return err
		}
		blocks, err := encodeColumns(columns, w.schema)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			w.emit(b)
		}
	}
	return nil
}
