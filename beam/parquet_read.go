package beam

import (
	"context"
	"errors"
	"fmt"
	"iter"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/arrow/parquet"
	"github.com/weftgo/weft/beam/internal/beamfile"
	"github.com/weftgo/weft/column"
	tables "github.com/weftgo/weft/internal/table"
)

func init() {
	register.DoFn3x1[context.Context, string, func(string, int), error](&parquetGroups{})
	register.DoFn4x1[context.Context, string, int, func([]byte), error](&parquetRows{})
	register.Emitter2[string, int]()
}

// allGroups stands for all row groups of a file, in place of the number of one.
const allGroups = -1

// ReadParquet returns blocks of columns of Parquet files. Without columns it reads all columns.
// glob is a pattern of names for Beam's package filesystem. The program must import the packages of
// its file systems. The pipeline fails if no file matches, or if files lack a column or columns
// cannot hold it.
//
// If the file system has random access, as the local one does, any number of workers read the row
// groups of a file. On others, such as object stores, one worker copies a whole file to a temporary
// file. All files must have the same types of columns.
func ReadParquet(s sdk.Scope, glob string, columns []string) (sdk.PCollection, error) {
	out, err := planParquet(s.Scope("weft.ReadParquet"), glob, columns)
	if err != nil {
		return sdk.PCollection{}, fmt.Errorf("beam: ReadParquet: %w", err)
	}
	return out, nil
}

func planParquet(s sdk.Scope, glob string, columns []string) (out sdk.PCollection, err error) {
	if err := checkScheme(glob); err != nil {
		return out, err
	}
	globs, err := sdk.TryCreate(s, glob)
	if err != nil {
		return out, err
	}
	groups, err := one(sdk.TryParDo(s, &parquetGroups{}, globs))
	if err != nil {
		return out, err
	}
	shuffled, err := sdk.TryReshuffle(s, groups)
	if err != nil {
		return out, err
	}
	return one(sdk.TryParDo(s, &parquetRows{Columns: columns}, shuffled))
}

// checkScheme returns an error if no file system is registered for a name.
func checkScheme(name string) error {
	fs, err := filesystem.New(context.Background(), name)
	if err != nil {
		return fmt.Errorf("%w: %w", weft.ErrOptions, err)
	}
	return fs.Close()
}

type parquetFile struct {
	*parquet.File
	closer func() error
}

// openParquet opens a file. Without random access it reads a temporary copy.
func openParquet(ctx context.Context, name string) (_ *parquetFile, err error) {
	all := beamfile.Files{}
	size, err := all.Size(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("beam: read %s: %w", name, err)
	}
	f, err := all.Open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("beam: read %s: %w", name, err)
	}
	p, err := parquet.Open(f, size)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("beam: read %s: %w", name, err), f.Close())
	}
	return &parquetFile{File: p, closer: f.Close}, nil
}

// parquetGroups is the DoFn that emits the row groups of all files that match a pattern.
type parquetGroups struct{}

// ProcessElement emits the row groups of the matching files.
func (*parquetGroups) ProcessElement(
	ctx context.Context, glob string, emit func(string, int),
) error {
	fs, err := filesystem.New(ctx, glob)
	if err != nil {
		return err
	}
	defer fs.Close()
	names, err := fs.List(ctx, glob)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("beam: ReadParquet: no file matches %q", glob)
	}
	for _, name := range names {
		if err := emitGroups(ctx, name, emit); err != nil {
			return err
		}
	}
	return nil
}

// emitGroups emits the row groups of a file, or allGroups if the file has no random access.
func emitGroups(ctx context.Context, name string, emit func(string, int)) error {
	random, err := beamfile.Random(ctx, name)
	if err != nil {
		return err
	}
	if !random {
		emit(name, allGroups) // reading only the metadata would copy the file
		return nil
	}
	f, err := openParquet(ctx, name)
	if err != nil {
		return err
	}
	if f.RowGroups() == 0 {
		emit(name, allGroups)
	}
	for g := range f.RowGroups() {
		emit(name, g)
	}
	return f.closer()
}

// parquetRows is the DoFn that reads row groups.
type parquetRows struct{ Columns names }

// ProcessElement emits the rows of one row group, or of all, as blocks.
func (p *parquetRows) ProcessElement(
	ctx context.Context, name string, group int, emit func([]byte),
) (err error) {
	f, err := openParquet(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.closer()) }()
	if err := p.read(ctx, f, group, emit); err != nil {
		return fmt.Errorf("beam: read %s: %w", name, err)
	}
	return nil
}

func (p *parquetRows) read(
	ctx context.Context, f *parquetFile, group int, emit func([]byte),
) error {
	fields, schema, err := p.fields(f.Fields())
	if err != nil {
		return err
	}
	var batches iter.Seq2[[]column.Column, error]
	switch {
	case group != allGroups:
		batches = f.RowGroup(ctx, group, fields...)
	case f.Rows() > 0:
		batches = f.Columns(ctx, fields...)
	default: // a block without rows carries the schema
		batches = func(yield func([]column.Column, error) bool) {
			yield(make([]column.Column, len(fields)), nil)
		}
	}
	for columns, err := range batches {
		if err != nil {
			return err
		}
		blocks, err := encodeColumns(columns, schema)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			emit(b)
		}
	}
	return nil
}

// fields returns the indexes of the columns to read, and the schema of their blocks.
func (p *parquetRows) fields(
	all []parquet.Field,
) (numbers []int, schema *goarrow.Schema, err error) {
	fields := make([]goarrow.Field, len(all))
	for i, f := range all {
		fields[i] = goarrow.Field{Name: f.Name, Type: goarrow.Null} // find reads only the name
		numbers = append(numbers, i)
	}
	if len(p.Columns) > 0 {
		if numbers, err = find(goarrow.NewSchema(fields, nil), p.Columns); err != nil {
			return nil, nil, err
		}
	}
	chosen := make([]goarrow.Field, len(numbers))
	for i, n := range numbers {
		if err := all[n].Err(); err != nil {
			return nil, nil, fmt.Errorf("column %q: %w; name the columns to read", all[n].Name, err)
		}
		chosen[i] = goarrow.Field{
			Name: all[n].Name, Type: tables.ArrowOf(all[n].Type), Nullable: true,
		}
	}
	return numbers, goarrow.NewSchema(chosen, nil), nil
}
