package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/extsort"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table"
	"github.com/weftgo/weft/internal/table/flags"
)

// print prints the result in the order that is asked for.
func (j *job) print(ctx context.Context, r *result) (err error) {
	if j.count {
		return j.printCount(ctx, r)
	}
	var ordered *extsort.Sorter
	defer func() {
		if ordered != nil {
			ordered.Close()
		}
	}()
	pages := func(yield func([]column.Column, error) bool) {
		for columns, err := range r.pages(ctx) {
			if j.ordered && err == nil {
				if ordered == nil {
					ordered = j.orderSorter(columns)
				}
				err = ordered.Add(ctx, columns)
				columns = columns[:len(columns)-1]
			}
			if !yield(columns, err) {
				return
			}
		}
	}
	n, sorted, err := j.gr.Look(ctx, j.table, pages, true, func() (*extsort.Sorter, error) {
		if len(j.Sort) == 0 {
			return nil, nil
		}
		return j.Sorter(j.dev, j.gr.Fields, int64(j.Limit)/flags.SortShare, j.TempDir)
	})
	if sorted != nil {
		defer sorted.Close()
	}
	if err != nil {
		return err
	}
	j.sum.Groups = int64(n)
	rows := pages
	switch {
	case sorted != nil:
		rows = sorted.Pages(ctx)
	case ordered != nil:
		rows = withoutLast(ordered.Pages(ctx))
	}
	return j.write(ctx, rows)
}

// orderSorter sorts rows by their last column, the order of groups.
func (j *job) orderSorter(columns []column.Column) *extsort.Sorter {
	types := make([]column.Type, len(columns))
	for i, c := range columns {
		types[i] = c.Type()
	}
	keys := table.Keys(types, []table.Sort{{Column: len(columns) - 1}})
	return extsort.New(j.dev, extsort.Options{Keys: keys, Top: j.Top,
		Memory: int64(j.Limit) / flags.SortShare, TempDir: j.TempDir})
}

func withoutLast(pages iter.Seq2[[]column.Column, error]) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		for columns, err := range pages {
			if err == nil {
				columns = columns[:len(columns)-1]
			}
			if !yield(columns, err) {
				return
			}
		}
	}
}

// write writes rows.
func (j *job) write(ctx context.Context, rows iter.Seq2[[]column.Column, error]) error {
	for i, c := range j.gr.Columns {
		for f, from := range j.gr.From {
			if from == c.Column && j.strings[strconv.Itoa(i)] {
				j.gr.Fields[f].Literal = ""
			}
		}
	}
	out, err := j.Begin(ctx, j.app.stdout, j.gr.Fields, int64(j.Limit)/flags.WriterShare)
	if err != nil {
		return err
	}
	j.sum.Columns, j.sum.Seconds = flags.Columns(j.gr.Fields), time.Since(j.start).Seconds()
	if err = j.Copy(out, rows); err == nil {
		err = out.Close(j.sum)
	}
	if err != nil {
		out.Abandon()
		return err
	}
	did := ", " + progress.Counted(j.sum.Groups, "group")
	if j.verb == "distinct" {
		did = fmt.Sprintf(", %d distinct", j.sum.Groups)
	}
	return j.say(did)
}

// printCount prints the number of groups.
func (j *job) printCount(ctx context.Context, r *result) (err error) {
	for columns, err := range r.pages(ctx) {
		if err != nil {
			return err
		}
		j.sum.Groups += column.Values[int64](columns[0])[0]
	}
	j.sum.Seconds = time.Since(j.start).Seconds()
	if j.app.json {
		err = json.NewEncoder(j.app.stdout).Encode(j.sum)
	} else {
		_, err = fmt.Fprintln(j.app.stdout, j.sum.Groups)
	}
	if err != nil {
		return fmt.Errorf("write results: %w", flags.Reason(err))
	}
	return j.say(fmt.Sprintf(", %d distinct", j.sum.Groups))
}
