package beam

import (
	"fmt"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
)

// groupPlan configures the DoFns of Group. Beam sends it to workers as JSON.
type groupPlan struct {
	Keys, Values        []string
	AllKeys             bool   // all columns are keys
	Order               string // order column; empty if rows have no ordinals
	Device              string // device that groups bundles; empty: the cores
	Aggs                []group.Aggregate
	SkipNulls, WrapSums bool
	Parts               int
	Memory              int64
	TempDir             string
}

func (p *groupPlan) options() *group.Options {
	return &group.Options{SkipNulls: p.SkipNulls, WrapSums: p.WrapSums, Memory: p.Memory,
		TempDir: p.TempDir}
}

// Group returns blocks with a row for each group of input rows. A row has the key columns and a
// column for each aggregate. The Column of an aggregate is an index into values. Columns are found
// by name, and all blocks must have them with the same types. Aggregates get names such as sum:v
// and min:v, and group.Rows gets the name count. Package group defines the treatment of nulls, NaN
// and sums. Each group occurs once, in no order. opts may be nil.
//
// Group returns weft.ErrOptions for invalid aggregates, and for First and Last without
// Options.Order. It does so for no keys and no values, too, and for collections that have windows
// or elements other than blocks. Missing columns and overflowing sums fail the pipeline.
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

// Distinct returns blocks of the distinct rows of the key columns, in no order. Without keys, all
// columns are keys. opts may be nil. See [Group] for the errors.
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

// apply checks the plan and adds its transforms to the pipeline.
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

// set stores options and checks everything that does not depend on rows.
func (p *groupPlan) set(opts *Options) (err error) {
	p.SkipNulls, p.WrapSums, p.TempDir = opts.SkipNulls, opts.WrapSums, opts.TempDir
	p.Device = opts.Device
	if p.Parts, p.Memory, err = limits(opts.Parts, opts.Memory); err != nil {
		return err
	}
	for i, a := range p.Aggs {
		if a.Func != group.Rows && (a.Column < 0 || a.Column >= len(p.Values)) {
			return fmt.Errorf("%w: aggregate %d, %v, has value column %d, but there are %d", weft.ErrOptions,
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
	// group.New checks the remaining options.
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
