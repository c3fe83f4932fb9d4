package main

import (
	"errors"

	"github.com/weftgo/weft/internal/outfile"
	"github.com/weftgo/weft/internal/table"
	"github.com/weftgo/weft/internal/table/flags"
)

// plan returns a plan for the output files of a run that reads inputs. Every verb that reads files
// calls it before reading, because its standard output may be one of the inputs.
func (a *app) plan(inputs ...string) (*outfile.Plan, error) {
	w := a.stdout
	if checked, ok := w.(*output); ok {
		w = checked.w
	}
	return outfile.New(inputs, a.stdin, w)
}

// parquetKind describes the Parquet files that verbs may replace.
var parquetKind = outfile.Kind{Name: "a Parquet file that weft has written", Is: table.WrittenByWeft}

// refusedUsage reports whether an error is a usage error.
func refusedUsage(err error) bool {
	return errors.As(err, new(flags.UsageError)) || errors.As(err, new(*outfile.Refused))
}
