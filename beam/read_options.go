package beam

import (
	"fmt"
	"strings"

	"github.com/weftgo/weft"
	tables "github.com/weftgo/weft/internal/table"
)

// Form is the interpretation of values of text files. Columns of Parquet and Arrow files keep their
// types.
type Form uint8

const (
	// Written reads integers as int64, true and false as bool, if all values of the column are
	// written like values of these types, and otherwise values as text.
	Written Form = iota
	// Key is Written, but a minus before zero and the spelling of NaN make no difference.
	Key
	// Text reads values as text.
	Text
	// Number reads int64, uint64 or float64, if the type holds all integers exactly. Other text
	// makes a bad row.
	Number
	// Extreme is Number, or Written if no value is a number. A mixture is an error.
	Extreme
	// Present reads a column of bool that only shows which values are null.
	Present
)

// forms maps forms to those of package table.
var forms = [...]tables.Form{Written: tables.Written, Key: tables.Key, Text: tables.Text,
	Number: tables.Number, Extreme: tables.Extreme, Present: tables.Present}

// ReadColumn is a column to read.
type ReadColumn struct {
	// Name is the name of the column in the files, or its number from 1 on if that is no name
	// there.
	Name string
	// As is the name of the column in blocks, which no other column may have. Default: the name in
	// the files.
	As string
	// Form is the interpretation of text.
	Form Form
}

// ReadOptions configure [Read]. The zero value and nil are good defaults.
type ReadOptions struct {
	// Columns lists the columns to read. Default: all, as [Written].
	Columns []ReadColumn

	// All declares Columns complete. Another member of objects of JSON is an error then, as it is
	// without Columns.
	All bool

	// Ordinals names a column of uint64 that Read adds: the order of rows, by file, then by row.
	// No two rows have the same, so it can be Options.Order of Group.
	Ordinals string

	// Format is csv, tsv, json (an object on each line, or in arrays), parquet or arrow. Default:
	// determined by the names of files and their first bytes.
	Format string

	// Lines promises that no field of CSV has a line break, so that files are read in parts. A
	// field with one is an error. It excludes LazyQuotes.
	Lines bool

	Header     string   // of CSV: yes, no or auto, the default
	Separator  byte     // between the fields of CSV; 0: determined by the first rows
	Nulls      []string // texts for null in CSV, without quotes; none: the empty field
	Text       []string // columns that are text, for any values
	Number     []string // columns that are numbers, also if integers have to be rounded to float64
	SkipBad    bool     // leave bad rows out and count their lines: see Read
	LazyQuotes bool     // take quotes inside fields, and those not doubled in quotes, as text

	// RangeBytes is the size in bytes that text is cut to. Default: 64 MiB.
	RangeBytes int64

	// TempDir is the directory of temporary files on workers. Default: as of group.Options.
	TempDir string
}

// defaultRange is the default of RangeBytes, as of the command weft-mpi.
const defaultRange = 64 << 20

// check sets defaults and checks what can be checked without files.
func (o *ReadOptions) check() error {
	if o.RangeBytes == 0 {
		o.RangeBytes = defaultRange
	}
	if o.RangeBytes < 0 {
		return fmt.Errorf("%w: RangeBytes %d", weft.ErrOptions, o.RangeBytes)
	}
	if o.Lines && o.LazyQuotes {
		return fmt.Errorf("%w: Lines and LazyQuotes exclude each other", weft.ErrOptions)
	}
	if strings.IndexByte("\"\r\n", o.Separator) >= 0 {
		return fmt.Errorf("%w: Separator %q: want another character", weft.ErrOptions, o.Separator)
	}
	for _, c := range o.Columns {
		if int(c.Form) >= len(forms) {
			return fmt.Errorf("%w: column %q: form %d", weft.ErrOptions, c.Name, c.Form)
		}
	}
	_, err := o.table()
	return err
}

// table returns the options of package table, without the columns that have a form.
func (o *ReadOptions) table() (opts *tables.Options, err error) {
	opts = &tables.Options{Separator: o.Separator, Nulls: o.Nulls, SkipBad: o.SkipBad,
		LazyQuotes: o.LazyQuotes, Lines: o.Lines, Files: files(o.TempDir), TempDir: o.TempDir,
		BlockSize: MaxBlock} // a block of text is about one of rows
	if o.Format != "" {
		opts.Format, err = tables.ParseFormat(o.Format)
	}
	if err == nil && o.Header != "" {
		opts.Header, err = tables.ParseHeader(o.Header)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", weft.ErrOptions, err)
	}
	return opts, nil
}
