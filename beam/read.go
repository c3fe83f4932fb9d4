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

// files opens files on Beam's file systems.
func files(tempDir string) tables.Files { return beamfile.Files{TempDir: tempDir} }

// Read returns blocks of the rows of CSV, TSV, JSON, Parquet and Arrow files. patterns are names of
// files, or patterns of them, for Beam's package filesystem. The program imports the packages of
// its file systems. opts may be nil. All files have the same columns, but objects of JSON need not
// have all.
//
// Parquet files are read by row groups, and JSON with an object on each line by ranges of bytes, as
// is CSV with Lines. One worker each reads other text, compressed files, and files on systems
// without random access, such as object stores. There Parquet and Arrow go through a temporary
// file.
//
// Types of text columns are determined here, when the pipeline is built, by the first MiB of each
// of the first 100 files. A later value of another type fails the pipeline with an error that names
// the file and the line. So does a member that objects of JSON have late, unless columns are named.
// Text and Number set the type of a column.
//
// The metric weft/bad_lines counts lines of bad rows that SkipBad leaves out, and weft/rows_read
// counts rows.
//
// Errors here are weft.ErrOptions for invalid options and names, including a pattern that matches
// no file, and errors of files.
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

// readFile is a file to read.
type readFile struct {
	Number int // from 0 on
	Name   string
}

// readRange is a part of a file.
type readRange struct {
	File          readFile
	Number, Count int   // of the ranges of the file
	Lo, Hi        int64 // as of table.Range
}

// fileRanges is the DoFn that cuts files.
type fileRanges struct{ Plan readPlan } // only Options

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
