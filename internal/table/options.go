package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/weftgo/weft/column"
)

// Format is the format of a file.
type Format uint8

// The formats. Auto is determined by the name of a file and its first bytes.
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

// ParseFormat returns the format of a name.
func ParseFormat(name string) (Format, error) {
	if i := slices.Index(formats, name); i >= 0 {
		return Format(i), nil
	}
	return 0, fmt.Errorf("%.40q: want %s or %s", name, strings.Join(formats[:5], ", "), formats[5])
}

// Header chooses whether the first line of CSV and TSV names the columns.
type Header uint8

// HeaderAuto: the first line is a header if in some column it has text while the rows of the first
// MiB have numbers, or true and false. Otherwise it is a header if it has neither numbers nor true
// or false. A column with an empty name is named by its number, from 1 on.
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

// Options configure reading of files. The zero value is the default.
type Options struct {
	Format    Format
	Header    Header
	Separator byte     // between the fields of CSV; 0: determined by the first rows
	Nulls     []string // texts for null in CSV and TSV, without quotes; none: the empty field
	Text      []string // columns that are text, for any values
	Number    []string // columns that are numbers, compared by value
	SkipBad   bool     // leave bad rows out and count their lines

	// LazyQuotes treats quotes in fields that do not begin with one, and quotes in quotes that are
	// not doubled, as text, as the option of encoding/csv does.
	LazyQuotes bool
	// Lines promises that no field of CSV has a line break, so that files can be cut anywhere: see
	// [Table.Ranges]. A field with one makes a bad row. It excludes LazyQuotes.
	Lines bool
	// Files opens files by name. nil: those of this machine.
	Files Files
	// Note, if not nil, receives hints for the user, a line each.
	Note func(line string)

	// MaxBytes bounds the memory of input that is read as a whole, which is Parquet from a stream.
	// It also bounds the copy of a text stream for a second reading, if no directory on a disk can
	// hold it. 0: 4 GiB.
	MaxBytes int64
	// TempDir is the directory of the copy of a stream; see spill.Create.
	TempDir string
	// Memory is an approximate bound on the memory for reading a Parquet file, in bytes. 0: no
	// bound.
	Memory int64
	// Workers is the number of goroutines that parse text; default GOMAXPROCS, at most 16.
	Workers int
	// BlockSize is the number of bytes that each parses at a time; default 8 MiB.
	BlockSize int

	first  int // size of the first block, which determines types
	maxRow int // bound on the text of a row in memory
}

// nulls returns the texts for null.
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
	// Arrow is the type of the column in a file with types; nil for text.
	Arrow arrow.DataType
	// Text says that values are ordered by their bytes, also if they are numbers: the column has
	// type text, or is forced to it.
	Text bool
	// Literal is the form in JSON of values that are held as text: see [Table.Literal].
	Literal string

	err error // the reason why columns cannot hold the values
}

// Err returns the reason why columns cannot hold the values of a field, nil if they can.
func (f Field) Err() error { return f.err }

// Batch is some rows of the requested columns.
type Batch struct {
	Columns []column.Column
	// At orders rows: row i, if no filter leaves rows out, has the ordinal At+i, independent of
	// where and in which ranges the files are read.
	At      uint64
	Rows    int // rows read; more than the columns have if a filter leaves some out
	Skipped int // lines of bad rows that are left out
	Bytes   int // bytes of files read since the batch before

	members *members // of a memberParser
	looks   []kinds  // kinds of values in columns that do not fit their types
}

// RowError is an error in a row.
type RowError struct {
	File string
	Line int // from 1 on, of the row's first line
	Err  error
}

func (e *RowError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *RowError) Unwrap() error { return e.Err }

// Widening is a value that does not fit the type found so far for its column. The table must be
// read again with a type that has the value.
type Widening struct {
	File     string
	Line     int
	Column   int // of the table
	Name     string
	Value    string
	To       column.Type
	From     column.Type
	IsStream bool // the file is a stream that cannot be read again

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
		streamHint(e.IsStream),
	)
}

// UnknownMember is a member of JSON objects that first appears after the known ones. The table must
// be read again, with one more column.
type UnknownMember struct {
	File     string
	Line     int
	Name     string
	IsStream bool // the file is a stream that cannot be read again
}

func (e *UnknownMember) Error() string {
	return fmt.Sprintf(
		"%s:%d: member %.40q comes here first, after rows without it; name the columns%s",
		e.File,
		e.Line,
		e.Name,
		streamHint(e.IsStream),
	)
}

// streamHint returns advice for a stream that cannot be read again.
func streamHint(isStream bool) string {
	if isStream {
		return "; or write the stream to a file first, which weft can read again"
	}
	return ""
}
