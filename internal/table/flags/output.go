package flags

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/atomicfile"
	"github.com/weftgo/weft/internal/extsort"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table"
)

// Output holds the flags for the destination and the order of result rows.
type Output struct {
	CSV     bool
	Parquet string
	Sort    []string
	Top     int

	json bool
}

// Add adds the flags to a flag set.
func (f *Output) Add(set *pflag.FlagSet) {
	set.BoolVar(&f.CSV, "csv", false, "print CSV")
	set.Var(
		Name(&f.Parquet),
		"parquet",
		"write Parquet to `FILE` (an existing file is replaced if weft wrote it)",
	)
	set.StringSliceVar(
		&f.Sort,
		"sort",
		nil,
		"columns of the result to sort by; COLUMN:desc puts the largest first",
	)
	set.IntVar(&f.Top, "top", 0, "print only the first N rows; 0: all")
}

// Check returns an error for flags that exclude each other. json is the value of --json.
func (f *Output) Check(json bool) error {
	f.json = json
	if f.Top < 0 {
		return Usage("--top %d: must not be negative", f.Top)
	}
	outputs := 0
	for _, is := range []bool{f.CSV, json, f.Parquet != ""} {
		if is {
			outputs++
		}
	}
	if outputs > 1 {
		return Usage("--csv, --json and --parquet exclude each other")
	}
	return nil
}

// Sorting takes 1/SortShare of --memory, and writing Parquet 1/WriterShare.
const SortShare, WriterShare = 4, 4

// StateMemory returns the part of --memory for groups or joined rows. Reading, sorting and writing
// take the rest.
func (f *Output) StateMemory(m Memory) int64 {
	if m.Limit == 0 {
		return 0
	}
	remaining := m.Remaining()
	if len(f.Sort) > 0 {
		remaining -= int64(m.Limit) / SortShare
	}
	if f.Parquet != "" {
		remaining -= int64(m.Limit) / WriterShare
	}
	return max(remaining, group.MinMemory)
}

// Name returns a flag value for the name of a file or folder. An empty name is an error: it usually
// comes from an unset shell variable, and would discard the output.
func Name(to *string) pflag.Value { return fileName{to} }

type fileName struct{ to *string }

func (v fileName) String() string {
	if v.to == nil {
		return ""
	}
	return *v.to
}

func (v fileName) Type() string { return "string" }

func (v fileName) Set(text string) error {
	if text == "" {
		return errors.New("want a name")
	}
	*v.to = text
	return nil
}

// Column describes a column of a result.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Columns describes the columns of a result.
func Columns(fields []table.Field) (columns []Column) {
	for _, f := range fields {
		name := f.Type.String()
		switch {
		case f.Arrow != nil:
			name = f.Arrow.String()
		case f.Literal != "":
			name = f.Literal
		case name == "bytes":
			name = "text"
		}
		columns = append(columns, Column{f.Name, name})
	}
	return columns
}

// Rows writes the rows of a result. A Parquet file appears under its name only when it is complete.
type Rows struct {
	to   table.Writer
	file *atomicfile.File
}

// Begin begins the output, to a file or to w. With --json it makes field names unique and valid
// UTF-8.
func (f *Output) Begin(
	ctx context.Context,
	w io.Writer,
	fields []table.Field,
	memory int64,
) (*Rows, error) {
	if f.json {
		for i := range fields {
			fields[i].Name = strings.ToValidUTF8(fields[i].Name, "\ufffd")
		}
		table.Unique(fields)
	}
	switch {
	case f.Parquet != "":
		return createParquet(ctx, f.Parquet, fields, memory)
	case f.json:
		return &Rows{to: table.NewJSON(w, fields)}, nil
	case f.CSV:
		return &Rows{to: table.NewCSV(w, fields)}, nil
	}
	return &Rows{to: table.NewAligned(w, fields)}, nil
}

// createParquet begins a Parquet file. For a named pipe it waits until a reader opens the pipe, or
// ctx ends.
func createParquet(
	ctx context.Context,
	name string,
	fields []table.Field,
	memory int64,
) (*Rows, error) {
	file, err := progress.Interruptible(
		ctx,
		func() (*atomicfile.File, error) { return atomicfile.Create(name) },
	)
	if err != nil {
		return nil, fmt.Errorf("--parquet %s: %w", name, Reason(err))
	}
	out := &Rows{file: file}
	// Hides Close, because Commit closes the file.
	if out.to, err = table.NewParquet(struct{ io.Writer }{file}, fields, memory); err != nil {
		out.Abandon()
	}
	return out, err
}

// WritesWhole reports whether the file of --parquet appears under its name only when it is
// complete.
func (f *Output) WritesWhole() bool {
	info, err := os.Stat(f.Parquet)
	return !atomicfile.IsDescriptor(f.Parquet) && (err != nil || info.Mode().IsRegular())
}

// Abandon discards the output after an error.
func (r *Rows) Abandon() {
	if r.file != nil {
		r.file.Abort()
	}
}

// Write writes rows.
func (r *Rows) Write(columns []column.Column) error {
	if err := r.to.Write(columns); err != nil {
		return fmt.Errorf("write results: %w", Reason(err))
	}
	return nil
}

// Close completes the output. JSON output includes summary, which json.Marshal must encode as an
// object.
func (r *Rows) Close(summary any) error {
	err := r.to.Close(summary)
	if err == nil && r.file != nil {
		err = r.file.Commit()
	}
	if err != nil {
		return fmt.Errorf("write results: %w", Reason(err))
	}
	return nil
}

// Copy writes pages. With --top it writes only the first rows.
func (f *Output) Copy(out *Rows, pages iter.Seq2[[]column.Column, error]) error {
	left := f.Top
	for columns, err := range pages {
		if err != nil {
			return err
		}
		if f.Top > 0 {
			for i, c := range columns {
				columns[i] = c.Slice(0, min(left, c.Len()))
			}
			left -= columns[0].Len()
		}
		if err := out.Write(columns); err != nil {
			return err
		}
		if f.Top > 0 && left == 0 {
			return nil
		}
	}
	return nil
}

// Sorts returns the sort order of --sort. It returns an error if a column's bytes do not sort like
// its values.
func (f *Output) Sorts(fields []table.Field) (by []table.Sort, err error) {
	index := ByName(fields)
	for _, name := range f.Sort {
		plain, descending := strings.CutSuffix(name, ":desc")
		at, ok := index[plain]
		if !ok && descending { // the name itself may end with :desc
			at, ok = index[name]
			descending = !ok
		}
		if !ok {
			return nil, fmt.Errorf("--sort %s: the result has no such column", name)
		}
		if of := fields[at].Arrow; of != nil {
			if err := arrow.Ordered(of); err != nil {
				return nil, fmt.Errorf("--sort %s: %w", name, err)
			}
		}
		by = append(by, table.Sort{Column: at, Descending: descending, Text: fields[at].Text})
	}
	return by, nil
}

// ByName returns the index of each field by name. Names must be unique.
func ByName(fields []table.Field) map[string]int {
	index := make(map[string]int, len(fields))
	for i, f := range fields {
		index[f.Name] = i
	}
	return index
}

// Sorter returns a sorter for rows of the result, which applies --sort and --top. The types of
// fields must be set.
func (f *Output) Sorter(
	dev device.Device,
	fields []table.Field,
	memory int64,
	dir string,
) (*extsort.Sorter, error) {
	by, err := f.Sorts(fields)
	if err != nil {
		return nil, err
	}
	host, ok := dev.(device.Host)
	if !ok {
		return nil, fmt.Errorf(
			"--sort: %w: rows are sorted on a CPU, not on a %s",
			device.ErrUnsupported,
			dev.Properties().Kind,
		)
	}
	types := make([]column.Type, len(fields))
	for i, f := range fields {
		types[i] = f.Type
	}
	return extsort.New(host, extsort.Options{Keys: table.Keys(types, by), Top: f.Top,
		Memory: memory, TempDir: dir}), nil
}
