package main

import (
	"context"
	"encoding/json"
	"errors"
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

var errNoResult = errors.New(
	"the result is missing: workers have written none to --temp-location")

// print prints the result in the requested order. Rows that are equal in that order are printed in
// the order in which their groups first occurred, which the last column contains.
func (j *job) print(ctx context.Context, r *result) (err error) {
	if j.count {
		return j.printCount(ctx, r)
	}
	keys, err := j.Sorts(j.gr.Fields)
	if err != nil {
		return err
	}
	keys = append(keys, table.Sort{Column: len(j.gr.Fields)})
	var sorter *extsort.Sorter
	defer func() {
		if sorter != nil {
			sorter.Close()
		}
	}()
	pages := func(yield func([]column.Column, error) bool) {
		for columns, err := range r.pages(ctx) {
			if err == nil {
				if sorter == nil {
					sorter = j.newSorter(keys, columns)
				}
				err = sorter.Add(ctx, columns)
			}
			if !yield(columns[:max(len(columns)-1, 0)], err) {
				return
			}
		}
	}
	n, _, err := j.gr.Look(ctx, j.table, pages, true,
		func() (*extsort.Sorter, error) { return nil, nil })
	if err != nil {
		return err
	}
	if sorter == nil {
		return errNoResult
	}
	j.sum.Groups = int64(n)
	return j.write(ctx, dropLastColumn(sorter.Pages(ctx)))
}

// newSorter returns a sorter for rows with the column types of page.
func (j *job) newSorter(keys []table.Sort, page []column.Column) *extsort.Sorter {
	types := make([]column.Type, len(page))
	for i, c := range page {
		types[i] = c.Type()
	}
	return extsort.New(j.dev, extsort.Options{Keys: table.Keys(types, keys), Top: j.Top,
		Memory: int64(j.Limit) / flags.SortShare, TempDir: j.TempDir})
}

func dropLastColumn(pages iter.Seq2[[]column.Column, error]) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		for columns, err := range pages {
			if !yield(columns[:max(len(columns)-1, 0)], err) {
				return
			}
		}
	}
}

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
	return j.reportSummary(did)
}

func (j *job) printCount(ctx context.Context, r *result) (err error) {
	found := false
	for columns, err := range r.pages(ctx) {
		if err != nil {
			return err
		}
		found = true
		j.sum.Groups += column.Values[int64](columns[0])[0]
	}
	if !found {
		return errNoResult
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
	return j.reportSummary(fmt.Sprintf(", %d distinct", j.sum.Groups))
}
