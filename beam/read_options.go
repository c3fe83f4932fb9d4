package beam

import (
	"fmt"
	"strings"

	"github.com/weftgo/weft"
	tables "github.com/weftgo/weft/internal/table"
)

// Form is the interpretation of values in text files. Columns of Parquet and Arrow files keep their
// types.
type Form uint8

const (
	// Written reads a column as int64 or bool if all of its values are written as values of that
	// type are. Otherwise it reads the values as text.
	Written Form = iota
	// Key reads like Written, but ignores a minus before zero and the spelling of NaN.
	Key
	// Text reads values as text.
	Text
	// Number reads a column as int64, uint64 or float64, whichever holds all integers exactly. A
	// value that is not a number makes its row bad.
	Number
	// Extreme reads like Number, or like Written if no value is a number. A mixture is an error.
	Extreme
	// Truth reads a column of bool: true, True, TRUE, false and so on. Another value makes its row
	// bad.
	Truth
	// Present reads a column of bool, which only shows which values are null. Its values have no
	// meaning.
	Present
)

// forms maps forms to those of package table.
var forms = [...]tables.Form{Written: tables.Written, Key: tables.Key, Text: tables.Text,
	Number: tables.Number, Extreme: tables.Extreme, Truth: tables.Truth, Present: tables.Present}

// ReadColumn is a column to read.
type ReadColumn struct {
	// Name is the name of the column in the files. If no column has this name, it is the number of
	// a column, counted from 1.
	Name string
	// As is the name of the column in blocks. No other column may have it. Default: the name in the
	// files.
	As string
	// Form is the interpretation of text values.
	Form Form
}

// ReadOptions configure [Read]. The zero value and nil are good defaults.
type ReadOptions struct {
	// Columns lists the columns to read. Default: all columns, each as [Written].
	Columns []ReadColumn

	// All asserts that Columns lists all columns. Any other member of a JSON object is then an
	// error, as it is if Columns is empty.
	All bool

	// Ordinals names a column of uint64 that Read adds. Its distinct values order rows by file,
	// then by row. The column can be the Order in the Options of Group.
	Ordinals string

	// Format is csv, tsv, json (an object on each line, or in arrays), parquet or arrow. Default:
	// determined by file names and first bytes.
	Format string

	// Lines asserts that no field of CSV contains a line break, so that several workers can read
	// one file. A field with a line break is an error. Lines excludes LazyQuotes.
	Lines bool

	Header     string   // first row of CSV has names: yes, no or auto; default: auto
	Separator  byte     // separator of CSV fields; 0: determined by the first rows
	Nulls      []string // unquoted CSV fields that mean null; default: the empty field
	Text       []string // columns to read as text, whatever their values
	Number     []string // columns to read as numbers, even if float64 rounds integers
	SkipBad    bool     // omit bad rows and count their lines: see Read
	LazyQuotes bool     // accept quotes within CSV fields, and quotes that are not doubled, as text

	// RangeBytes is the size in bytes of the ranges into which text files are split. Default: 64
	// MiB.
	RangeBytes int64

	// TempDir is the directory of temporary files on workers. Default: as in group.Options.
	TempDir string
}

// defaultRange is the default of RangeBytes. The command weft-mpi has the same.
const defaultRange = 64 << 20

// check sets defaults and checks everything that does not depend on files.
func (o *ReadOptions) check() error {
	if o.RangeBytes == 0 {
		o.RangeBytes = defaultRange
	}
	if o.RangeBytes < 0 {
		return fmt.Errorf("%w: RangeBytes %d is negative", weft.ErrOptions, o.RangeBytes)
	}
	if o.Lines && o.LazyQuotes {
		return fmt.Errorf("%w: Lines and LazyQuotes exclude each other", weft.ErrOptions)
	}
	if strings.IndexByte("\"\r\n", o.Separator) >= 0 {
		return fmt.Errorf("%w: Separator %q: want another character", weft.ErrOptions, o.Separator)
	}
	for _, c := range o.Columns {
		if int(c.Form) >= len(forms) {
			return fmt.Errorf("%w: column %q: unknown form %d", weft.ErrOptions, c.Name, c.Form)
		}
	}
	_, err := o.table()
	return err
}

// table returns the options for package table, without Text and Number.
func (o *ReadOptions) table() (opts *tables.Options, err error) {
	opts = &tables.Options{Separator: o.Separator, Nulls: o.Nulls, SkipBad: o.SkipBad,
		LazyQuotes: o.LazyQuotes, Lines: o.Lines, Files: files(o.TempDir), TempDir: o.TempDir,
		BlockSize: MaxBlock} // a block of text makes about one block of rows
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
