package beam

import (
	"fmt"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/join"
)

// JoinOptions configure [Join]. The zero value and nil are good defaults.
type JoinOptions struct {
	// Kind selects the rows of the result. Default: join.Inner.
	Kind join.Kind

	// NullsMatch lets null keys match each other, as in join.Options.
	NullsMatch bool

	// Broadcast sends all right rows to each worker, which indexes them. Left rows stay on their
	// workers. If right rows and their index exceed Memory, the pipeline fails.
	Broadcast bool

	// Device is the device for lookups of a Broadcast, in the syntax of auto.Open. "auto" selects a
	// GPU if the worker has one. Default: the cores of the worker. Beam's flag --resource_hints
	// requests workers with a GPU: accelerator=type:nvidia-tesla-t4;count:1.
	Device string

	// Parts is the number of partitions of the keys, and the maximum number of workers that join at
	// the same time. A worker buffers up to MaxBlock bytes per partition. Default: DefaultParts.
	Parts int

	// Memory bounds, in bytes, the right rows and their index in one DoFn. Partitions that exceed
	// it go to a temporary file. At least join.MinMemory. Default: DefaultMemory.
	Memory int64

	// TempDir is the directory of temporary files on workers. Default: as in join.Options.
	TempDir string
}

// joinPlan configures the DoFns of Join. Beam sends it to workers as JSON.
type joinPlan struct {
	Left, Right []string // key columns
	Kind        join.Kind
	NullsMatch  bool
	Device      string
	Parts       int
	Memory      int64
	TempDir     string
}

// Join joins the rows of two collections of blocks that have equal keys. The result has all left
// columns. For Inner and Left, the right columns that are not keys follow. A right column with the
// name of a left one gets the suffix _right. Null matches nothing, unless JoinOptions.NullsMatch is
// set. Rows have no order. opts may be nil.
//
// By default a hash of the keys distributes the rows of both sides to partitions, which a
// CoGroupByKey collects. All blocks of a side must have the same columns. A Left join with left
// rows but no right block fails the pipeline, because the right columns are then unknown. [Encode]
// makes a block without rows.
//
// Join returns weft.ErrOptions for no keys, different numbers of keys, options out of range, and
// collections that have windows or elements other than blocks. Missing columns and keys of
// different types fail the pipeline.
func Join(
	s sdk.Scope, left, right sdk.PCollection, leftKeys, rightKeys []string, opts *JoinOptions,
) (sdk.PCollection, error) {
	out, err := planJoin(s.Scope("weft.Join"), left, right, leftKeys, rightKeys, opts)
	if err != nil {
		return sdk.PCollection{}, fmt.Errorf("beam: Join: %w", err)
	}
	return out, nil
}

func planJoin(
	s sdk.Scope, left, right sdk.PCollection, leftKeys, rightKeys []string, opts *JoinOptions,
) (out sdk.PCollection, err error) {
	if opts == nil {
		opts = &JoinOptions{}
	}
	p := joinPlan{Left: leftKeys, Right: rightKeys, Kind: opts.Kind, NullsMatch: opts.NullsMatch,
		Device: opts.Device, TempDir: opts.TempDir}
	if len(leftKeys) != len(rightKeys) || len(leftKeys) == 0 {
		return out, fmt.Errorf("%w: %d left and %d right key columns", weft.ErrOptions,
			len(leftKeys),
			len(rightKeys))
	}
	if p.Parts, p.Memory, err = limits(opts.Parts, opts.Memory); err != nil {
		return out, err
	}
	if p.Device != "" && !opts.Broadcast {
		return out, fmt.Errorf("%w: Device needs Broadcast; partitions are joined by cores",
			weft.ErrOptions)
	}
	if err := checkBlocks("left", left); err != nil {
		return out, err
	}
	if err := checkBlocks("right", right); err != nil {
		return out, err
	}
	dev, err := openHost()
	if err != nil {
		return out, err
	}
	j, err := join.NewJoin(dev, p.Kind, p.options()) // checks the options
	if err != nil {
		return out, err
	}
	if err := j.Close(); err != nil {
		return out, err
	}
	if opts.Broadcast {
		return one(sdk.TryParDo(s, &broadcastJoin{Plan: p}, left, sdk.SideInput{Input: right}))
	}
	return p.partitioned(s, left, right)
}

func one(outs []sdk.PCollection, err error) (sdk.PCollection, error) {
	if err != nil {
		return sdk.PCollection{}, err
	}
	return outs[0], nil
}

func (p *joinPlan) options() *join.Options {
	return &join.Options{NullsMatch: p.NullsMatch, Memory: p.Memory, TempDir: p.TempDir}
}

// nulls returns how each side treats rows with a null key. Such rows match nothing, unless
// NullsMatch is set. They are distributed evenly if the result contains them, and dropped
// otherwise.
func (p *joinPlan) nulls() (left, right column.Nulls) {
	switch {
	case p.NullsMatch:
		return column.HashNulls, column.HashNulls
	case p.Kind == join.Left || p.Kind == join.Anti:
		return column.DealNulls, column.DropNulls
	}
	return column.DropNulls, column.DropNulls
}

// partitioned adds the transforms of a join without Broadcast.
func (p *joinPlan) partitioned(
	s sdk.Scope, left, right sdk.PCollection,
) (out sdk.PCollection, err error) {
	leftNulls, rightNulls := p.nulls()
	l, err := one(sdk.TryParDo(s, &dealtRows{Side: "left", Keys: p.Left, Parts: p.Parts,
		Nulls: leftNulls}, left))
	if err != nil {
		return out, err
	}
	r, err := one(sdk.TryParDo(s, &dealtRows{Side: "right", Keys: p.Right, Parts: p.Parts,
		Nulls: rightNulls}, right))
	if err != nil {
		return out, err
	}
	schemas, err := one(sdk.TryParDo(s, &blockSchemas{}, right))
	if err != nil {
		return out, err
	}
	schema, err := sdk.TryCombine(s, sameSchema, schemas)
	if err != nil {
		return out, err
	}
	grouped, err := sdk.TryCoGroupByKey(s, l, r)
	if err != nil {
		return out, err
	}
	return one(sdk.TryParDo(s, &joinedParts{Plan: *p}, grouped, sdk.SideInput{Input: schema}))
}
