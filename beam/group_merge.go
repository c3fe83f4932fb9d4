package beam

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	goarrow "github.com/apache/arrow-go/v18/arrow"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// mergedGroups is the DoFn that merges the pieces of a partition and emits the groups as blocks.
type mergedGroups struct{ Plan groupPlan }

// ProcessElement merges the pieces of a partition.
func (f *mergedGroups) ProcessElement(
	ctx context.Context, part int, next func(*[]byte) bool, emit func([]byte),
) error {
	if err := f.merge(ctx, next, emit); err != nil {
		return fmt.Errorf("beam: merge the groups of partition %d: %w", part, err)
	}
	return nil
}

func (f *mergedGroups) merge(
	ctx context.Context, next func(*[]byte) bool, emit func([]byte),
) (err error) {
	dev, err := openHost()
	if err != nil {
		return err
	}
	g, err := group.New(dev, f.Plan.Aggs, f.Plan.options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	schema, err := mergePieces(ctx, g, next)
	if err != nil {
		return err
	}
	emitted := false
	send := func(columns []column.Column) error {
		blocks, err := encodeColumns(columns, schema)
		for _, b := range blocks {
			emit(b)
			emitted = true
		}
		return err
	}
	for page, err := range g.Pages(ctx) {
		if err != nil {
			return err
		}
		if err := send(append(page.Keys, page.Values...)); err != nil {
			return err
		}
	}
	if !emitted {
		return send(make([]column.Column, schema.NumFields()))
	}
	return nil
}

// mergePieces merges pieces into g and returns the schema of the result.
func mergePieces(
	ctx context.Context, g *group.Groups, next func(*[]byte) bool,
) (*goarrow.Schema, error) {
	var first, piece []byte
	for next(&piece) {
		schema, groups, err := cutPiece(piece)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = schema
		}
		if !bytes.Equal(schema, first) {
			return nil, schemasDiffer(first, schema)
		}
		r := bytes.NewReader(groups)
		if err := g.MergeFrom(ctx, r); err != nil {
			return nil, err
		}
		if r.Len() > 0 {
			return nil, fmt.Errorf("%w: %d bytes after a piece of groups", weft.ErrFormat, r.Len())
		}
	}
	return decodeSchema(first)
}
