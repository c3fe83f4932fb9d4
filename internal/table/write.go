package table

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	pretty "github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/progress"
)

// Writer writes rows. Close completes the output. JSON output includes summary, which json.Marshal
// must encode as an object. Other formats ignore summary.
type Writer interface {
	Write(columns []column.Column) error
	Close(summary any) error
}

type cells struct {
	c       column.Column
	literal bool               // text that is a JSON literal is written as one
	strings func(i int) string // formats values of types such as dates; nil if values are plain
}

func cellsOf(c column.Column, f Field) (cells, error) {
	if f.Arrow == nil || plain(f) {
		return cells{c: c, literal: f.Literal != ""}, nil
	}
	arr, err := arrow.Array(c, f.Arrow)
	if err != nil {
		return cells{}, fmt.Errorf("column %s: %w", f.Name, err)
	}
	return cells{c: c, strings: arr.ValueStr}, nil
}

// plain reports whether columns hold the values of a field themselves.
func plain(f Field) bool {
	switch f.Type {
	case column.Bytes:
		id := f.Arrow.ID()
		return id == goarrow.STRING || id == goarrow.LARGE_STRING || id == goarrow.STRING_VIEW || id == goarrow.BINARY ||
			id == goarrow.LARGE_BINARY ||
			id == goarrow.BINARY_VIEW ||
			id == goarrow.DICTIONARY
	case column.Bool:
		return true
	}
	return arrow.Numeric(f.Arrow) == nil
}

// append appends the value of a row, which must not be null.
func (c *cells) append(b []byte, i int) []byte {
	switch {
	case c.strings != nil:
		return append(b, c.strings(i)...)
	case c.c.Type() == column.Bytes:
		return append(b, c.c.Bytes(i)...)
	case c.c.Type() == column.Int64:
		return strconv.AppendInt(b, column.Values[int64](c.c)[i], 10)
	}
	switch v := c.c.Any(i).(type) {
	case float64:
		return appendFloat(b, v, 64)
	case float32:
		return appendFloat(b, float64(v), 32)
	default:
		return fmt.Append(b, v)
	}
}

// appendFloat appends a float with the fewest digits that preserve its value.
func appendFloat(b []byte, v float64, size int) []byte {
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, size)
}

func allCells(columns []column.Column, fields []Field) ([]cells, error) {
	all := make([]cells, len(columns))
	for i, c := range columns {
		var err error
		if all[i], err = cellsOf(c, fields[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// csvWriter writes CSV. Null is an empty field, and empty text is two quotes.
type csvWriter struct {
	out    *bufio.Writer
	fields []Field
	row    []byte
}

// NewCSV returns a writer of CSV. The first line has the column names.
func NewCSV(w io.Writer, fields []Field) Writer {
	c := &csvWriter{out: bufio.NewWriterSize(w, 1<<16), fields: fields}
	for i, f := range fields {
		if i > 0 {
			c.row = append(c.row, ',')
		}
		c.row = appendQuoted(c.row, []byte(f.Name))
	}
	c.row = append(c.row, '\n')
	return c
}

func (c *csvWriter) Write(columns []column.Column) (err error) {
	defer caught(&err) // damaged metadata of types
	all, err := allCells(columns, c.fields)
	if err != nil || len(columns) == 0 {
		return err
	}
	var value []byte
	for i := range columns[0].Len() {
		for j := range all {
			if j > 0 {
				c.row = append(c.row, ',')
			}
			if !columns[j].Null(i) {
				value = all[j].append(value[:0], i)
				c.row = appendQuoted(c.row, value)
			}
		}
		c.row = append(c.row, '\n')
		if _, err := c.out.Write(c.row); err != nil {
			return err
		}
		c.row = c.row[:0]
	}
	return nil
}

func (c *csvWriter) Close(any) error {
	if _, err := c.out.Write(c.row); err != nil { // the names if no rows were written
		return err
	}
	return c.out.Flush()
}

// appendQuoted appends a field, with quotes if needed. An empty field needs quotes, because without
// them it means null.
func appendQuoted(b, field []byte) []byte {
	quote := len(field) == 0
	for _, c := range field {
		quote = quote || c == ',' || c == '"' || c == '\n' || c == '\r'
	}
	if !quote {
		return append(b, field...)
	}
	b = append(b, '"')
	for _, c := range field {
		if c == '"' {
			b = append(b, '"')
		}
		b = append(b, c)
	}
	return append(b, '"')
}

type jsonWriter struct {
	out    *bufio.Writer
	fields []Field
	names  [][]byte
	row    []byte
	begun  bool
}

// NewJSON returns a writer of one JSON object. Its member "rows" is a list with an object per row.
// The members of the summary follow.
func NewJSON(w io.Writer, fields []Field) Writer {
	j := &jsonWriter{out: bufio.NewWriterSize(w, 1<<16), fields: fields}
	for _, f := range fields {
		j.names = append(
			j.names,
			append(appendString(nil, []byte(strings.ToValidUTF8(f.Name, "\ufffd"))), ':'),
		)
	}
	j.row = []byte(`{"rows":[`)
	return j
}

func (j *jsonWriter) Write(columns []column.Column) (err error) {
	defer caught(&err) // damaged metadata of types
	all, err := allCells(columns, j.fields)
	if err != nil || len(columns) == 0 {
		return err
	}
	for i := range columns[0].Len() {
		if j.begun {
			j.row = append(j.row, ',')
		}
		j.begun = true
		j.row = append(j.row, '\n', '{')
		for k := range all {
			if k > 0 {
				j.row = append(j.row, ',')
			}
			j.row = append(j.row, j.names[k]...)
			j.row = all[k].appendJSON(j.row, i)
		}
		j.row = append(j.row, '}')
		if _, err := j.out.Write(j.row); err != nil {
			return err
		}
		j.row = j.row[:0]
	}
	return nil
}

func (j *jsonWriter) Close(summary any) error {
	rest, err := json.Marshal(summary)
	if err != nil {
		return err
	}
	j.row = append(j.row, "\n],"...)
	j.row = append(append(j.row, rest[1:]...), '\n')
	if _, err := j.out.Write(j.row); err != nil {
		return err
	}
	return j.out.Flush()
}

// appendJSON appends a value as JSON. Values that are not JSON numbers are strings. Bytes that are
// not UTF-8 are an object.
func (c *cells) appendJSON(b []byte, i int) []byte {
	switch {
	case c.c.Null(i):
		return append(b, "null"...)
	case c.strings != nil:
		return appendString(b, []byte(c.strings(i)))
	case c.c.Type() == column.Bytes:
		v := c.c.Bytes(i)
		if c.literal && isLiteral(v) {
			return append(b, v...)
		}
		if utf8.Valid(v) {
			return appendString(b, v)
		}
		b = append(b, `{"base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, v)
		return append(b, `"}`...)
	case c.c.Type().Float():
		v, ok := c.c.Any(i).(float64)
		if !ok {
			v = float64(c.c.Any(i).(float32))
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return append(c.append(append(b, '"'), i), '"')
		}
	}
	return c.append(b, i)
}

func isLiteral(b []byte) bool {
	return isNumber(b) || string(b) == "true" || string(b) == "false"
}

func isNumber(b []byte) bool {
	if len(b) == 0 || b[0] != '-' && b[0]-'0' > 9 {
		return false
	}
	s := jsonScanner{b: b}
	return s.number() == nil && s.at == len(b)
}

// Literals determines the JSON type of a text column for [Table.Literal].
type Literals struct {
	of   string // "number", "bool", or "" so far
	text bool   // some value is neither
}

// Add examines more values of the column.
func (l *Literals) Add(c column.Column) {
	if c.Type() != column.Bytes {
		l.text = true
	}
	for i := 0; i < c.Len() && !l.text; i++ {
		if c.Null(i) {
			continue
		}
		v, of := c.Bytes(i), ""
		if isNumber(v) {
			of = "number"
		} else if isLiteral(v) {
			of = "bool"
		} else if _, word := parseWord(v); !word {
			l.text = true
		}
		l.text = l.text || of != "" && l.of != "" && of != l.of
		l.of = cmp.Or(l.of, of)
	}
}

// Unique makes field names unique. The second field with a name becomes NAME_2, unless another
// field has that name, and so on.
func Unique(fields []Field) {
	used := make(map[string]bool, len(fields))
	for _, f := range fields {
		used[f.Name] = true
	}
	last := map[string]int{} // last number appended to each name
	for i := range fields {
		name := fields[i].Name
		n := last[name] + 1
		if n > 1 {
			for used[fmt.Sprintf("%s_%d", name, n)] {
				n++
			}
			fields[i].Name = fmt.Sprintf("%s_%d", name, n)
			used[fields[i].Name] = true
		}
		last[name] = n
	}
}

// appendString appends valid UTF-8 as a JSON string.
func appendString(b, s []byte) []byte {
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// maxAligned bounds the rows of an aligned table. Its column widths depend on all rows, so all must
// be held in memory.
const maxAligned = 1000

type alignedWriter struct {
	out    io.Writer
	fields []Field
	table  pretty.Writer
	rows   int
}

// NewAligned returns a writer of an aligned table. It prints the first thousand rows, and the
// number of further rows.
func NewAligned(w io.Writer, fields []Field) Writer {
	a := &alignedWriter{out: w, fields: fields, table: pretty.NewWriter()}
	a.table.SetStyle(pretty.StyleLight)
	a.table.Style().Options = pretty.OptionsNoBordersAndSeparators
	a.table.Style().Format.Header = text.FormatDefault
	var head pretty.Row
	var configs []pretty.ColumnConfig
	for i, f := range fields {
		head = append(head, progress.Printable(f.Name))
		if f.Type.Integer() || f.Type.Float() || f.Literal == "number" {
			configs = append(
				configs,
				pretty.ColumnConfig{
					Number:      i + 1,
					Align:       text.AlignRight,
					AlignHeader: text.AlignRight,
				},
			)
		}
	}
	a.table.SetColumnConfigs(configs)
	a.table.AppendHeader(head)
	return a
}

func (a *alignedWriter) Write(columns []column.Column) (err error) {
	defer caught(&err) // damaged metadata of types
	all, err := allCells(columns, a.fields)
	if err != nil || len(columns) == 0 {
		return err
	}
	n := columns[0].Len()
	for i := range min(n, max(0, maxAligned-a.rows)) {
		var row pretty.Row
		for j := range all {
			value := "null"
			if !columns[j].Null(i) {
				value = progress.Printable(string(all[j].append(nil, i)))
			}
			row = append(row, value)
		}
		a.table.AppendRow(row)
	}
	a.rows += n
	return nil
}

func (a *alignedWriter) Close(any) error {
	end := "\n"
	if more := a.rows - maxAligned; more > 0 {
		end = fmt.Sprintf(
			"\n… and %d more rows: --csv, --json and --parquet write all, --top the first\n",
			more,
		)
	}
	// Remove trailing spaces, which would disturb programs.
	lines := strings.Split(a.table.Render(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	_, err := io.WriteString(a.out, strings.Join(lines, "\n")+end)
	return err
}

// typeOf returns the Arrow type of a column in files.
func typeOf(t column.Type) goarrow.DataType {
	return map[column.Type]goarrow.DataType{
		column.Int8: goarrow.PrimitiveTypes.Int8, column.Int16: goarrow.PrimitiveTypes.Int16, column.Int32: goarrow.PrimitiveTypes.Int32,
		column.Int64: goarrow.PrimitiveTypes.Int64, column.Uint8: goarrow.PrimitiveTypes.Uint8, column.Uint16: goarrow.PrimitiveTypes.Uint16,
		column.Uint32: goarrow.PrimitiveTypes.Uint32, column.Uint64: goarrow.PrimitiveTypes.Uint64, column.Float32: goarrow.PrimitiveTypes.Float32,
		column.Float64: goarrow.PrimitiveTypes.Float64, column.Bool: goarrow.FixedWidthTypes.Boolean, column.Bytes: goarrow.BinaryTypes.String,
	}[t]
}
