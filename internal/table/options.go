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

// The formats. Auto means that the name and the first bytes of a file determine its format.
const (
	Auto Format = iota
	CSV
	TSV
	JSON // objects, usually one per line
	Parquet
	Arrow // Arrow files and streams
)

var formats = []string{"auto", "csv", "tsv", "json", "parquet", "arrow"}

func (f Format) String() string { return formats[f] }

// ParseFormat returns the format with the given name.
func ParseFormat(name string) (Format, error) {
	if i := slices.Index(formats, name); i >= 0 {
		return Format(i), nil
	}
	return 0, fmt.Errorf("%.40q: want %s or %s", name, strings.Join(formats[:5], ", "), formats[5])
}

// Header chooses whether the first line of CSV and TSV names the columns.
type Header uint8

// HeaderAuto examines the rows in the first MiB. The first line is a header if some column has text
// there, and only numbers or booleans in all other rows. It is also a header if it contains neither
// numbers nor booleans. An empty name is replaced by the column's number, counted from 1.
const (
	HeaderAuto Header = iota
	HeaderYes
	HeaderNo
)

var headers = []string{"auto", "yes", "no"}

// ParseHeader parses auto, yes or no.
func ParseHeader(name string) (Header, error) {
	if i := slices.Index(headers, name); i >= 0 {
		return Header(i), nil
	}
	return 0, fmt.Errorf("%.40q: want %s or %s", name, strings.Join(headers[:2], ", "), headers[2])
}

// Options configure how files are read. The zero value has the defaults.
type Options struct {
	Format    Format
	Header    Header
	Separator byte     // separator of CSV fields; 0: determined by the first rows
	Nulls     []string // unquoted fields of CSV and TSV that mean null; default: the empty field
	Text      []string // columns to read as text, whatever their values
	Number    []string // columns to read as numbers, compared by value
	SkipBad   bool     // skip bad rows and count their lines

	// LazyQuotes accepts quotes within fields, and quotes that are not doubled, as text, like the
	// option of encoding/csv.
	LazyQuotes bool
	// Lines asserts that no CSV field contains a line break, so that [Table.Ranges] can split
	// files. A field with a line break makes a bad row. Lines excludes LazyQuotes.
	Lines bool
	// Files opens files by name. nil: local files.
	Files Files
	// Note, if not nil, receives hints for the user, one line each.
	Note func(line string)

	// MaxBytes bounds input that is held in memory as a whole, such as Parquet from a stream. It
	// also bounds the copy of a text stream if the copy cannot be on a disk. 0: 4 GiB.
	MaxBytes int64
	// TempDir is the directory for the copy of a stream; see spill.Create.
	TempDir string
	// Memory is an approximate bound on the memory for reading a Parquet file, in bytes. 0: no
	// bound.
	Memory int64
	// Workers is the number of goroutines that parse text. Default: GOMAXPROCS, but at most 16.
	Workers int
	// BlockSize is the number of bytes that a worker parses at a time. Default: 8 MiB.
	BlockSize int

	first  int // size of the first block, which determines types
	maxRow int // bound on the bytes of a row
}

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
	// Arrow is the type in a file that states types. It is nil for text.
	Arrow arrow.DataType
	// Text reports that the column has type text, or is forced to it. Its values are then ordered
	// by bytes, even if they look like numbers.
	Text bool
	// Literal is the JSON type of values that are stored as text; see [Table.Literal].
	Literal string

	err error // reason why columns cannot hold the values
}

// Err returns the reason why columns cannot hold the field's values, or nil if they can.
func (f Field) Err() error { return f.err }

// Batch holds the requested columns of consecutive rows.
type Batch struct {
	Columns []column.Column
	// At orders the rows of all files. If no filter omits rows, row i has the ordinal At+i. It does
	// not depend on the process or the range that reads the row.
	At      uint64
	Rows    int // number of rows read, including rows that a filter omits
	Skipped int // number of lines of skipped bad rows
	Bytes   int // number of file bytes read since the previous batch

	members *members // result of a memberParser
	looks   []kinds  // kinds of the values that do not fit their column's type
}

// RowError is an error in a row.
type RowError struct {
	File string
	Line int // number of the row's first line, from 1
	Err  error
}

func (e *RowError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *RowError) Unwrap() error { return e.Err }

// Widening reports a value that does not fit the type found so far for its column. The table must
// be read again with another type.
type Widening struct {
	File     string
	Line     int
	Column   int // index in the table
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

// UnknownMember reports a JSON member that first occurs after the columns were determined. The
// table must be read again with another column.
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

func streamHint(isStream bool) string {
	if isStream {
		return "; or write the stream to a file first, which weft can read again"
	}
	return ""
}
