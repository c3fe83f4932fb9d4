package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/weftgo/weft/column"
)

// Format is that of a file.
type Format uint8

// The formats. Auto is found by the name of a file and its first bytes.
const (
	Auto Format = iota
	CSV
	TSV
	JSON // an object on each line
	Parquet
	Arrow // files and streams
)

var formats = []string{"auto", "csv", "tsv", "json", "parquet", "arrow"}

func (f Format) String() string { return formats[f] }

// ParseFormat is the format of a name.
func ParseFormat(name string) (Format, error) {
	if i := slices.Index(formats, name); i >= 0 {
		return Format(i), nil
	}
	return 0, fmt.Errorf("%.40q: want %s or %s", name, strings.Join(formats[:5], ", "), formats[5])
}

// Header says whether the first line of CSV and TSV names the columns.
type Header uint8

// HeaderAuto: the first line is a header if in some column it has text where the rows of the first
// MiB have numbers, or true and false. Else it is none if it has a number, true or false, and one
// if it has not.
// A column whose name is empty has its number for a name, from 1 on.
const (
	HeaderAuto Header = iota
	HeaderYes
	HeaderNo
)

var headers = []string{"auto", "yes", "no"}

// ParseHeader reads auto, yes or no.
func ParseHeader(name string) (Header, error) {
	if i := slices.Index(headers, name); i >= 0 {
		return Header(i), nil
	}
	return 0, fmt.Errorf("%.40q: want %s or %s", name, strings.Join(headers[:2], ", "), headers[2])
}

// Options say how files are read. The zero value is the default.
type Options struct {
	Format    Format
	Header    Header
	Separator byte     // between the fields of CSV; 0: found in the first rows
	Nulls     []string // what stands for null in CSV and TSV, without quotes; none: the empty field
	Text      []string // columns that are text, whatever their values look like
	Number    []string // columns that are numbers, compared by value
	SkipBad   bool     // leave bad rows out and count their lines

	// LazyQuotes takes quotes in fields that do not begin with one, and quotes in quotes that are
	// not doubled, as text, as the option of encoding/csv does.
	LazyQuotes bool
	// Lines says that no field of CSV has a line break, so that files can be cut anywhere: see
	// [Table.Ranges]. One that has is a bad row. It excludes LazyQuotes.
	Lines bool
	// Files opens files by name. nil: those of this machine.
	Files Files
	// Note, if not nil, gets what a user may want to know, a line each.
	Note func(line string)

	// MaxBytes bounds what has to be read as a whole, Parquet from a stream, and what is kept of a
	// stream of text so that it can be read again, if no directory on a disk takes that. 0: 4 GiB.
	MaxBytes int64
	// TempDir is the directory of the file that keeps a stream; see spill.Create.
	TempDir string
	// Memory bounds what a Parquet file is read in, about, in bytes. 0: no bound.
	Memory int64
	// Workers is the number of goroutines that take text apart; default GOMAXPROCS, 16 at most.
	Workers int
	// BlockSize is what each takes at a time, in bytes; default 8 MiB.
	BlockSize int

	first  int // size of the first block, in which types are found
	maxRow int // bound on the text of a row, where memory has to hold it
}

// nulls are what stands for null.
func (o *Options) nulls() []string {
	if len(o.Nulls) == 0 {
		return []string{""}
	}
	return o.Nulls
}

func (o *Options) note(format string, args ...any) {
	if o.Note != nil {
		o.Note(fmt.Sprintf(format, args...))
	}
}

// Field is a column of a table.
type Field struct {
	Name string
	Type column.Type
	// Arrow is the type of a file that has types; nil for text.
	Arrow arrow.DataType
	// Text says that text is ordered by its bytes, also where it is numbers: it has that type, or
	// is to have it.
	Text bool
	// Literal is how JSON has values that are held as text: see [Table.Literal].
	Literal string

	err error // why columns cannot hold the values
}

// Err returns why columns cannot hold the values of a field, nil if they can.
func (f Field) Err() error { return f.err }

// Batch is some rows of the columns that were asked for.
type Batch struct {
	Columns []column.Column
	// At orders rows: row i, if no filter leaves rows out, has the ordinal At+i, wherever the files
	// are read and whatever ranges of them.
	At      uint64
	Rows    int // that have been read; more than the columns have if a filter leaves some out
	Skipped int // lines of bad rows that are left out
	Bytes   int // of files, that have been read since the batch before

	members *members // of a memberParser
	looks   []kinds  // what values of columns look like that types do not have
}

// RowError is what is wrong with a row.
type RowError struct {
	File string
	Line int // from 1 on, of the row's first line
	Err  error
}

func (e *RowError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *RowError) Unwrap() error { return e.Err }

// Widening is a value that the type of its column, found so far, does not have: the table has to be
// read again, with a type that has it.
type Widening struct {
	File   string
	Line   int
	Column int // of the table
	Name   string
	Value  string
	To     column.Type
	From   column.Type
	Once   bool // the file is a stream that cannot be read again

	of kind
}

func (e *Widening) Error() string {
	return fmt.Sprintf(
		"%s:%d: column %s was %v so far, and here is %.40q; --text %s reads it as text%s",
		e.File,
		e.Line,
		e.Name,
		e.From,
		e.Value,
		quoteFlag(e.Name),
		onceHint(e.Once),
	)
}

// LateMember is a member of JSON objects that comes first after those that are known: the table has
// to be read again, with a column more.
type LateMember struct {
	File string
	Line int
	Name string
	Once bool // the file is a stream that cannot be read again
}

func (e *LateMember) Error() string {
	return fmt.Sprintf(
		"%s:%d: member %.40q comes here first, after rows without it; name the columns%s",
		e.File,
		e.Line,
		e.Name,
		onceHint(e.Once),
	)
}

// onceHint is what helps with a stream that cannot be read again.
func onceHint(once bool) string {
	if once {
		return "; or write the stream to a file first, which weft can read again"
	}
	return ""
}
