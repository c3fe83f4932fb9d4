// Package flags defines flags that commands share: how to read files, how much memory to use, which
// aggregates to compute, and where to write results. The commands run on one machine or on several.
package flags

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weftgo/weft/internal/table"
)

// UsageError is an invalid command line.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

// Usage returns a UsageError with a formatted text.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Read holds the flags for reading files.
type Read struct {
	Options table.Options

	format, header, separator, bad string
}

// Add adds the flags to a flag set.
func (f *Read) Add(flags *pflag.FlagSet) {
	flags.StringVar(
		&f.format,
		"format",
		"auto",
		"format of the files: auto, csv, tsv, json, parquet or arrow",
	)
	flags.StringVar(
		&f.header,
		"header",
		"auto",
		"first line of CSV has column names: auto, yes or no",
	)
	flags.StringVar(
		&f.separator,
		"separator",
		"",
		"separator of CSV, one character; default: detected among , ; tab and |",
	)
	flags.StringArrayVar(
		&f.Options.Nulls,
		"null",
		nil,
		"text of null in CSV, without quotes; may be repeated; default: empty fields",
	)
	flags.BoolVar(&f.Options.LazyQuotes, "lazy-quotes", false,
		"accept stray quotes in CSV as text")
	flags.StringSliceVar(
		&f.Options.Text,
		"text",
		nil,
		"columns to read as text",
	)
	flags.StringSliceVar(&f.Options.Number, "number", nil,
		"columns to read as numbers; with fractions, integers are rounded to float64")
	flags.StringVar(
		&f.bad,
		"bad",
		"error",
		"bad rows: error, or skip to skip and count them",
	)
}

// AddLines adds --lines, for commands that read ranges of files.
func (f *Read) AddLines(flags *pflag.FlagSet) {
	flags.BoolVar(
		&f.Options.Lines,
		"lines",
		false,
		"CSV has no line breaks in fields, so a file can be read in parts",
	)
}

// Check checks the flags and sets Options.
func (f *Read) Check() (err error) {
	o := &f.Options
	if o.Format, err = table.ParseFormat(f.format); err != nil {
		return Usage("--format %w", err)
	}
	if o.Header, err = table.ParseHeader(f.header); err != nil {
		return Usage("--header %w", err)
	}
	switch {
	case f.separator == `\t`:
		o.Separator = '\t'
	case len(f.separator) > 1 || strings.ContainsAny(f.separator, "\"\r\n"):
		return Usage("--separator %.40q: want one character", f.separator)
	case f.separator != "":
		o.Separator = f.separator[0]
	}
	switch f.bad {
	case "error":
	case "skip":
		o.SkipBad = true
	default:
		return Usage("--bad %.40q: want error or skip", f.bad)
	}
	if o.Lines && o.LazyQuotes {
		return Usage("--lines and --lazy-quotes exclude each other")
	}
	for _, name := range o.Number {
		if slices.Contains(o.Text, name) {
			return Usage("--text and --number exclude each other, and both have %.40q", name)
		}
	}
	return nil
}

// Bytes is a flag value: a number of bytes.
type Bytes int64

// String implements [pflag.Value].
func (s *Bytes) String() string { return strconv.FormatInt(int64(*s), 10) }

// Type implements [pflag.Value].
func (s *Bytes) Type() string { return "bytes" }

// units maps units to bytes. Units with an i are powers of 1024, and others powers of 1000.
var units = map[string]int64{
	"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// Set implements [pflag.Value]. It parses a number with an optional unit.
func (s *Bytes) Set(text string) error {
	number := strings.TrimRight(text, "kKMGTiB")
	unit, ok := units[text[len(number):]]
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || n < 0 || n > math.MaxInt64/unit {
		return errors.New("want bytes, or a number of MB, GB, MiB, GiB and so on")
	}
	*s = Bytes(n * unit)
	return nil
}
