package main

import (
	"errors"
	"fmt"
	"iter"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/extsort"
	"github.com/weftgo/weft/internal/table"
	"github.com/weftgo/weft/internal/table/flags"
	"github.com/weftgo/weft/join"
)

// joinBy builds a table of the right side and probes it with the left side.
func (o *joinOptions) joinBy(j *tableJob, joiner *join.Join, left, right *side,
	result []joined) (from *side, err error) {
	filter, err := o.filter(right)
	if err != nil {
		return right, err
	}
	rights, err := o.build(j, joiner, filter, right, result)
	if err != nil {
		return right, err
	}
	if len(left.Columns) > 0 && !left.Typed() && left.Rereadable() &&
		(j.json || !o.restarts(j) && left.canWiden()) {
		if err := o.scanTypes(j, left, result); err != nil {
			return left, err
		}
	}
	fields := fieldsOf(result)
	for i, c := range result {
		s := left
		if c.right {
			s = right
			fields[i].Literal = right.Literal(c.column, &rights[c.at])
		}
		fields[i].Type = s.TypeOf(s.Columns[c.at])
	}
	w := &joinWriter{joinOptions: o, job: j}
	if len(o.Sort) > 0 {
		if w.sorter, err = j.sorter(fields); err != nil {
			return nil, err
		}
		defer w.sorter.Close()
	}
	out, err := j.writer(fields)
	if err != nil {
		return nil, err
	}
	w.out = out
	if filter != nil {
		left.Filter(filter, left.at, left.convert)
	}
	if err = o.probe(j, joiner, left, result, w); err == nil {
		err = w.finish()
	}
	if err == nil {
		j.done(left.Table, right.Table)
		err = out.Close(joinSummary{j.tableSummary, w.n})
	}
	if err == nil {
		return nil, j.reportSummary(fmt.Sprintf("%d joined", w.n))
	}
	out.Abandon()
	if w.n > 0 && !o.restarts(j) {
		return nil, err
	}
	return left, err
}

// payload returns the columns of a batch that are in the result, in the order of the result.
func payload(batch []column.Column, result []joined, right bool) (columns []column.Column) {
	for _, c := range result {
		if c.right == right {
			columns = append(columns, batch[c.at])
		}
	}
	return columns
}

// filter returns a filter that drops left rows without a match. It returns nil if the kind of join
// needs these rows.
func (o *joinOptions) filter(right *side) (*join.Filter, error) {
	if o.kind != "inner" && o.kind != "semi" {
		return nil, nil
	}
	return join.NewFilter(right.convert, nil)
}

// build reads the right side. It returns the JSON type of each column.
func (o *joinOptions) build(j *tableJob, joiner *join.Join, filter *join.Filter, right *side,
	result []joined) ([]table.Literals, error) {
	found := make([]table.Literals, len(right.Columns))
	add := func(columns []column.Column) error {
		keys := right.keysOf(columns)
		if filter != nil {
			if err := filter.Add(j.ctx, keys); err != nil {
				return err
			}
		}
		return joiner.Build(j.ctx, keys, payload(columns, result, true))
	}
	// Set the types of columns, even if the side has no rows.
	none := make([]column.Column, len(right.Columns))
	for i, c := range right.Columns {
		none[i] = table.Empty(right.TypeOf(c))
	}
	if err := add(none); err != nil {
		return nil, err
	}
	err := j.read(right.Table, right.Columns, func(b table.Batch) error {
		for i := range result {
			if c := &result[i]; c.right && !right.Typed() {
				found[c.at].Add(b.Columns[c.at])
			}
		}
		err := add(b.Columns)
		j.spilled(joiner.Spilled())
		return err
	})
	return found, err
}

// probe reads the left side and writes the rows of the result.
func (o *joinOptions) probe(j *tableJob, joiner *join.Join, left *side, result []joined,
	w *joinWriter) error {
	write := func(rows iter.Seq2[[]column.Column, error]) error {
		for columns, err := range rows {
			if err == nil {
				err = w.write(inOrder(columns, result))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	err := j.read(left.Table, left.Columns, func(b table.Batch) error {
		err := write(joiner.Probe(j.ctx, left.keysOf(b.Columns), payload(b.Columns, result, false)))
		w.spilled = joiner.Spilled()
		w.note()
		return err
	})
	if err == nil {
		err = write(joiner.Finish(j.ctx))
		w.spilled = joiner.Spilled()
		w.note()
	}
	if errors.Is(err, errRowLimit) {
		return nil
	}
	return err
}

// inOrder reorders the columns of a join, which has all left columns first, to the order of the
// result.
func inOrder(columns []column.Column, result []joined) []column.Column {
	right := 0
	for _, c := range result {
		if !c.right {
			right++
		}
	}
	left, ordered := 0, make([]column.Column, len(result))
	for i, c := range result {
		at := &left
		if c.right {
			at = &right
		}
		ordered[i] = columns[*at]
		*at++
	}
	return ordered
}

// errRowLimit ends a join once --top rows are written.
var errRowLimit = errors.New("enough rows")

// joinWriter writes or sorts the rows of the result.
type joinWriter struct {
	*joinOptions
	out *flags.Rows
	n   int // number of rows

	job     *tableJob
	sorter  *extsort.Sorter // sorter for --sort
	spilled int64           // bytes that the join has spilled
}

// note updates the displayed number of spilled bytes.
func (w *joinWriter) note() {
	n := w.spilled
	if w.sorter != nil {
		n += w.sorter.Spilled()
	}
	w.job.spilled(n)
}

// write writes rows up to the limit of --top. With --sort it passes them to the sorter.
func (w *joinWriter) write(columns []column.Column) error {
	n := columns[0].Len()
	sorted := w.sorter != nil
	if !sorted && w.Top > 0 && n >= w.Top-w.n {
		n = w.Top - w.n
		for i, c := range columns {
			columns[i] = c.Slice(0, n)
		}
	}
	w.n += n
	if sorted {
		return w.hold(columns)
	}
	if err := w.out.Write(columns); err != nil {
		return err
	}
	if w.Top > 0 && w.n == w.Top {
		return errRowLimit
	}
	return nil
}

func (w *joinWriter) hold(columns []column.Column) error {
	err := w.sorter.Add(w.job.ctx, columns)
	w.note()
	return err
}

// finish writes the sorted rows.
func (w *joinWriter) finish() error {
	if w.sorter == nil {
		return nil
	}
	w.n = 0
	for columns, err := range w.sorter.Pages(w.job.ctx) {
		if err == nil {
			w.n += columns[0].Len()
			err = w.out.Write(columns)
		}
		if err != nil {
			return err
		}
	}
	w.note()
	return nil
}
