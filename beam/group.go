package beam

import (
	"fmt"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
)

// groupPlan configures the DoFns that group. Beam carries it to workers as JSON.
type groupPlan struct {
	Keys, Values        []string
	AllKeys             bool   // the keys are all columns
	Order               string // "": rows have no ordinals
	Device              string // of bundles; "": the cores
	Aggs                []group.Aggregate
	SkipNulls, WrapSums bool
	Parts               int
	Memory              int64
	TempDir             string
}

// options returns the options of the groups of a DoFn.
func (p *groupPlan) options() *group.Options {
	return &group.Options{SkipNulls: p.SkipNulls, WrapSums: p.WrapSums, Memory: p.Memory,
		TempDir: p.TempDir}
}

// Group returns blocks with a row for each group of the rows of blocks: the key columns, and an
// aggregate of value columns for each of aggs. The Column of an aggregate counts from 0 in values.
// Columns are found by their names, and all blocks must have them with the same types. Aggregates
// get names such as sum:v and min:v, and count without a column for group.Rows. Null, NaN and sums
// are those of package group. Groups come in no order, each once. opts may be nil.
//
// Errors here are weft.ErrOptions: invalid aggregates, First and Last without Options.Order, no
// keys and no values, and collections of other elements or with windows. Columns that blocks lack,
// and sums that do not fit, fail the pipeline.
func Group(
	s sdk.Scope, blocks sdk.PCollection, keys, values []string, aggs []group.Aggregate,
	opts *Options,
) (sdk.PCollection, error) {
	if len(keys) == 0 && len(values) == 0 {
		return sdk.PCollection{}, fmt.Errorf(
			"beam: Group: %w: no keys and no values; Count counts rows", weft.ErrOptions)
	}
	plan := groupPlan{Keys: keys, Values: values, Aggs: aggs}
	out, err := plan.apply(s.Scope("weft.Group"), blocks, opts)
	if err != nil {
		return sdk.PCollection{}, fmt.Errorf("beam: Group: %w", err)
	}
	return out, nil
}

// Distinct returns blocks of the different rows that the key columns of blocks have, by default all
// columns, in no order. opts may be nil. Errors are those of [Group].
func Distinct(
	s sdk.Scope, blocks sdk.PCollection, keys []string, opts *Options,
) (sdk.PCollection, error) {
	plan := groupPlan{Keys: keys, AllKeys: len(keys) == 0}
	out, err := plan.apply(s.Scope("weft.Distinct"), blocks, opts)
	if err != nil {
		return sdk.PCollection{}, fmt.Errorf("beam: Distinct: %w", err)
	}
	return out, nil
}

// apply checks the plan and adds its transforms.
func (p *groupPlan) apply(
	s sdk.Scope, blocks sdk.PCollection, opts *Options,
) (sdk.PCollection, error) {
	none := sdk.PCollection{}
	if opts == nil {
		opts = &Options{}
	}
	if err := p.set(opts); err != nil {
		return none, err
	}
	if err := checkBlocks("blocks", blocks); err != nil {
		return none, err
	}
	pieces, err := sdk.TryParDo(s, &partialGroups{Plan: *p}, blocks)
	if err != nil {
		return none, err
	}
	byPart, err := sdk.TryGroupByKey(s, pieces[0])
	if err != nil {
		return none, err
	}
	merged, err := sdk.TryParDo(s, &mergedGroups{Plan: *p}, byPart)
	if err != nil {
		return none, err
	}
	return merged[0], nil
}

// set stores options, and checks all that can be checked without rows.
func (p *groupPlan) set(opts *Options) (err error) {
	p.SkipNulls, p.WrapSums, p.TempDir = opts.SkipNulls, opts.WrapSums, opts.TempDir
	p.Device = opts.Device
	if p.Parts, p.Memory, err = limits(opts.Parts, opts.Memory); err != nil {
		return err
	}
	for i, a := range p.Aggs {
		if a.Func != group.Rows && (a.Column < 0 || a.Column >= len(p.Values)) {
			return fmt.Errorf("%w: aggregate %d, %v, is of value column %d of %d", weft.ErrOptions,
				i, a.Func, a.Column, len(p.Values))
		}
		if a.Func != group.First && a.Func != group.Last {
			continue
		}
		if p.Order = opts.Order; p.Order == "" {
			return fmt.Errorf("%w: %v of %q needs Options.Order, because blocks have no order",
				weft.ErrOptions, a.Func, p.Values[a.Column])
		}
	}
	// group.New checks the rest, on any device.
	dev, err := cpu.Open(&cpu.Options{Workers: 1})
	if err != nil {
		return err
	}
	defer dev.Close()
	g, err := group.New(dev, p.Aggs, p.options())
	if err != nil {
		return err
	}
	return g.Close()
}
