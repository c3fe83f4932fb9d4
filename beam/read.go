package beam

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weftgo/weft/beam/internal/beamfile"
	tables "github.com/weftgo/weft/internal/table"
)

func init() {
	sdk.RegisterType(reflect.TypeFor[readFile]())
	sdk.RegisterType(reflect.TypeFor[readRange]())
	register.DoFn3x1[context.Context, readFile, func(readRange), error](&fileRanges{})
	register.DoFn3x1[context.Context, readRange, func([]byte), error](&rangeRows{})
	register.Emitter1[readRange]()
}

// files returns an opener of files on Beam's file systems.
func files(tempDir string) tables.Files { return beamfile.Files{TempDir: tempDir} }

// Read returns blocks of the rows of CSV, TSV, JSON, Parquet and Arrow files. patterns are names or
// patterns of files for Beam's package filesystem. The program must import the packages of its file
// systems. opts may be nil. All files must have the same columns, but JSON objects may lack
// members.
//
// Several workers can read one file. They share row groups of Parquet, and byte ranges of CSV with
// Lines and of JSON with an object on each line. One worker reads any other text file, a compressed
// file, or a file on a system without random access, such as an object store. On such a system
// Parquet and Arrow files are copied to a temporary file.
//
// When the pipeline is built, Read determines the types of text columns from the first MiB of each
// of the first 100 files. A later value of another type fails the pipeline with an error that names
// the file and the line. So does a JSON member that first occurs later, unless Columns is set. Text
// and Number set the type of a column.
//
// The metric weft/bad_lines counts the lines that SkipBad omits, and weft/rows_read counts rows.
//
// Read returns weft.ErrOptions for invalid options and names, and for a pattern that matches no
// file. It also returns errors of reading files.
func Read(s sdk.Scope, patterns []string, opts *ReadOptions) (sdk.PCollection, error) {
	out, err := planRead(s.Scope("weft.Read"), patterns, opts)
	if err != nil {
		return sdk.PCollection{}, fmt.Errorf("beam: Read: %w", err)
	}
	return out, nil
}

func planRead(
	s sdk.Scope, patterns []string, opts *ReadOptions,
) (out sdk.PCollection, err error) {
	ctx := context.Background()
	plan := readPlan{}
	if opts != nil {
		plan.Options = *opts
	}
	if err := plan.Options.check(); err != nil {
		return out, err
	}
	names, err := beamfile.List(ctx, patterns)
	if err != nil {
		return out, err
	}
	if err := plan.look(ctx, names); err != nil {
		return out, err
	}
	all := make([]readFile, len(names))
	for i, name := range names {
		all[i] = readFile{Number: i, Name: name}
	}
	created, err := sdk.TryCreateList(s, all)
	if err != nil {
		return out, err
	}
	shuffled, err := sdk.TryReshuffle(s, created)
	if err != nil {
		return out, err
	}
	ranges, err := one(sdk.TryParDo(s, &fileRanges{Plan: readPlan{Options: plan.Options}}, shuffled))
	if err != nil {
		return out, err
	}
	if shuffled, err = sdk.TryReshuffle(s, ranges); err != nil {
		return out, err
	}
	return one(sdk.TryParDo(s, &rangeRows{Plan: plan}, shuffled))
}

type readFile struct {
	Number int // index of the file, from 0
	Name   string
}

type readRange struct {
	File          readFile
	Number, Count int   // index of the range, and number of ranges of the file
	Lo, Hi        int64 // bounds, as in table.Range
}

// fileRanges is the DoFn that splits files into ranges.
type fileRanges struct{ Plan readPlan } // Options is set, and no other field

// ProcessElement emits the ranges of a file.
func (f *fileRanges) ProcessElement(
	ctx context.Context, file readFile, emit func(readRange),
) (err error) {
	defer func() { err = printable(err) }()
	random, err := beamfile.Random(ctx, file.Name)
	if err != nil {
		return fmt.Errorf("beam: read %s: %w", file.Name, err)
	}
	if !random {
		emit(readRange{File: file, Count: 1})
		return nil
	}
	opts, err := f.Plan.Options.table()
	if err != nil {
		return err
	}
	t, err := tables.Open(ctx, []string{file.Name}, nil, opts)
	if err != nil {
		return fmt.Errorf("beam: read %w", err)
	}
	ranges, err := t.Ranges(f.Plan.Options.RangeBytes)
	if err != nil {
		return errors.Join(fmt.Errorf("beam: read %w", err), t.Close())
	}
	for _, r := range ranges {
		emit(readRange{File: file, Number: r.Number, Count: len(ranges), Lo: r.Lo, Hi: r.Hi})
	}
	return t.Close()
}
