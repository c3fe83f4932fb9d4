package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weftgo/weft/beam"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/table"
)

func init() {
	register.DoFn2x1[[]byte, func([]byte), error](&renamed{})
	register.Function2x1(countBlock)
	register.Emitter1[[]byte]()
}

// order is the name of the column that orders rows. All other columns have numbers as names.
const order = "order"

// forms maps forms of package table to forms of package beam. ReadOptions.Number also lists the
// columns of form Forced.
var forms = map[table.Form]beam.Form{table.Key: beam.Key, table.Written: beam.Written,
	table.Text: beam.Text, table.Number: beam.Number, table.Forced: beam.Number,
	table.Extreme: beam.Extreme, table.Truth: beam.Truth, table.Present: beam.Present}

// execute builds and runs the pipeline, and reads its metrics. The result goes to r. If r is nil,
// it goes to the files of --parquet.
func (j *job) execute(ctx context.Context, r *result) error {
	p, s := sdk.NewPipelineWithRoot()
	read, err := j.reads(ctx)
	if err != nil {
		return err
	}
	rows, err := beam.Read(s, j.names, read)
	if err != nil {
		return err
	}
	groups, err := j.groups(s, rows)
	if err != nil {
		return err
	}
	switch {
	case r == nil:
		names := make([][]byte, len(j.gr.Fields))
		for i, f := range j.gr.Fields {
			names[i] = []byte(f.Name)
		}
		groups = sdk.ParDo(s, &renamed{Names: names}, groups)
		err = beam.WriteParquet(s, j.Parquet, j.shards, groups)
	case j.count:
		var n sdk.PCollection
		if n, err = beam.Count(s, groups); err == nil {
			r.write(s, sdk.ParDo(s, countBlock, n))
		}
	default:
		r.write(s, groups)
	}
	if err != nil {
		return err
	}
	done, err := sdk.Run(ctx, j.runner, p)
	if err != nil {
		return err
	}
	j.measure(done.Metrics())
	return nil
}

func (j *job) measure(m metrics.Results) {
	j.strings = map[string]bool{}
	for _, c := range m.AllMetrics().Counters() {
		if c.Namespace() != "weft" {
			continue
		}
		switch name := c.Name(); {
		case name == "rows_read":
			j.sum.RowsRead += c.Result()
		case name == "bad_lines":
			j.sum.Skipped += c.Result()
		case c.Result() > 0:
			if of, ok := strings.CutPrefix(name, "strings:"); ok {
				j.strings[of] = true
			}
		}
	}
}

// reads returns options that read the columns of the grouping. Column i is named i in blocks.
func (j *job) reads(ctx context.Context) (*beam.ReadOptions, error) {
	o := &j.Options
	headers := []string{table.HeaderAuto: "auto", table.HeaderYes: "yes", table.HeaderNo: "no"}
	read := &beam.ReadOptions{Format: o.Format.String(), Lines: o.Lines, Header: headers[o.Header],
		Separator: o.Separator, Nulls: o.Nulls, Text: o.Text, Number: o.Number, SkipBad: o.SkipBad,
		LazyQuotes: o.LazyQuotes, TempDir: j.TempDir, All: len(j.By) == 0}
	if j.ordered || j.ordinal() {
		read.Ordinals = order
	}
	fields := j.table.Fields()
	for i, c := range j.gr.Columns {
		name := fields[c.Column].Name
		if at, err := j.table.Find(ctx, name); err != nil || at != c.Column {
			name = strconv.Itoa(c.Column + 1) // several columns have this name
		}
		read.Columns = append(read.Columns, beam.ReadColumn{Name: name, As: strconv.Itoa(i),
			Form: forms[c.Form]})
	}
	return read, nil
}

// ordinal reports whether an aggregate depends on the order of rows.
func (j *job) ordinal() bool {
	return slices.ContainsFunc(j.gr.Aggs, func(a group.Aggregate) bool {
		return a.Func == group.First || a.Func == group.Last
	})
}

// groups adds the transform that groups rows to the pipeline. An ordered result has the smallest
// ordinal of each group as its last column.
func (j *job) groups(s sdk.Scope, rows sdk.PCollection) (sdk.PCollection, error) {
	keys, values := j.columns()
	aggs := slices.Clone(j.gr.Aggs)
	if j.ordered {
		aggs = append(aggs, group.Aggregate{Func: group.Min, Column: len(values)})
		values = append(values, order)
	}
	opts := &beam.Options{SkipNulls: j.SkipNulls, TempDir: j.TempDir, Device: j.device}
	if j.ordinal() {
		opts.Order = order
	}
	if j.memorySet {
		opts.Memory = int64(j.Limit)
	}
	return beam.Group(s, rows, keys, values, aggs, opts)
}

// columns returns the names that the key and value columns have in blocks.
func (j *job) columns() (keys, values []string) {
	all := make([]column.Column, len(j.gr.Columns))
	for i := range all {
		all[i] = column.Of([]int64{int64(i)})
	}
	names := func(columns []column.Column) (names []string) {
		for _, c := range columns {
			names = append(names, strconv.Itoa(int(column.Values[int64](c)[0])))
		}
		return names
	}
	k, v := j.gr.Split(all)
	return names(k), names(v)
}

// renamed is the DoFn that renames the columns of blocks.
type renamed struct{ Names [][]byte } // JSON changes strings that are not UTF-8

// ProcessElement emits a block with renamed columns.
func (f *renamed) ProcessElement(block []byte, emit func([]byte)) error {
	rec, err := beam.Decode(block)
	if err != nil {
		return err
	}
	defer rec.Release()
	fields := slices.Clone(rec.Schema().Fields())
	if len(fields) != len(f.Names) {
		return fmt.Errorf("a result of %d columns, want %q", len(fields), f.Names)
	}
	for i, name := range f.Names {
		fields[i].Name = string(name)
	}
	named := array.NewRecordBatch(goarrow.NewSchema(fields, nil), rec.Columns(), rec.NumRows())
	defer named.Release()
	blocks, err := beam.Encode(named)
	for _, b := range blocks {
		emit(b)
	}
	return err
}

func countBlock(n int64, emit func([]byte)) error {
	blocks, err := beam.EncodeColumns([]string{"count"}, []column.Column{column.Of([]int64{n})})
	for _, b := range blocks {
		emit(b)
	}
	return err
}
