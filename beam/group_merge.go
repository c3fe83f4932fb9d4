package beam

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// mergedGroups is the DoFn that merges the pieces of a partition, and emits its groups as blocks.
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
	r := &pieceReader{next: next}
	some, err := r.open()
	if err != nil {
		return err
	}
	schema, err := decodeSchema(r.schema)
	if err != nil {
		return err
	}
	send := func(columns []column.Column) error {
		blocks, err := encodeColumns(columns, schema)
		for _, b := range blocks {
			emit(b)
		}
		return err
	}
	if !some {
		return send(make([]column.Column, schema.NumFields()))
	}
	dev, err := host()
	if err != nil {
		return err
	}
	g, err := group.Load(ctx, dev, r, f.Plan.options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	for page, err := range g.Pages(ctx) {
		if err != nil {
			return err
		}
		if err := send(append(page.Keys, page.Values...)); err != nil {
			return err
		}
	}
	return nil
}
