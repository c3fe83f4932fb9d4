package beam

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
)

func TestMain(m *testing.M) {
	if played() {
		return
	}
	flag.Parse()
	log.SetLogger(quiet{})
	sdk.Init()
	os.Exit(m.Run())
}

// quiet drops the logs of Beam, unless tests are verbose.
type quiet struct{}

func (quiet) Log(ctx context.Context, sev log.Severity, depth int, text string) {
	if sev >= log.SevError && testing.Verbose() {
		(&log.Standard{}).Log(ctx, sev, depth+1, text)
	}
}

func init() {
	register.Function2x0(emitSource)
	register.Function2x0(collect)
	register.DoFn1x1[int64, error](&expect{})
}

// sources and sinks are named collections in the memory of this process. Workers share this memory
// if they run in this process or with LOOPBACK.
var (
	sources = map[string][][]byte{}
	sinks   = make(chan []byte, 1<<16)
)

func emitSource(name string, emit func([]byte)) {
	for _, b := range sources[name] {
		emit(b)
	}
}

func collect(b []byte, _ func([]byte)) { sinks <- append([]byte(nil), b...) }

func source(s sdk.Scope, name string, blocks [][]byte) sdk.PCollection {
	sources[name] = blocks
	return sdk.ParDo(s, emitSource, sdk.Create(s, name))
}

// run runs a pipeline on a runner and returns the blocks of the collection that build returns.
func run(t testing.TB, runner string, build func(s sdk.Scope) sdk.PCollection) ([][]byte, error) {
	t.Helper()
	p, s := sdk.NewPipelineWithRoot()
	sdk.ParDo(s, collect, build(s))
	_, err := sdk.Run(t.Context(), runner, p)
	var blocks [][]byte
	for len(sinks) > 0 {
		blocks = append(blocks, <-sinks)
	}
	return blocks, err
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// table decodes blocks to columns and returns the number of rows.
func table(
	t testing.TB, blocks [][]byte,
) (schema *goarrow.Schema, columns []column.Column, rows int) {
	t.Helper()
	var parts [][]column.Column
	for _, b := range blocks {
		rec := must(Decode(b))(t)
		cs := must(arrow.Columns(rec))(t)
		if schema != nil && !schema.Equal(rec.Schema()) {
			t.Fatalf("blocks differ: %v, %v", schema, rec.Schema())
		}
		schema = rec.Schema()
		parts = append(parts, cs)
		rows += int(rec.NumRows())
	}
	if schema == nil {
		return nil, nil, 0
	}
	for i := range schema.NumFields() {
		var all []column.Column
		for _, p := range parts {
			all = append(all, p[i])
		}
		columns = append(columns, must(column.Concat(all...))(t))
	}
	return schema, columns, rows
}

// rowsOf returns each row of columns as text.
func rowsOf(columns []column.Column) (rows []string) {
	if len(columns) == 0 {
		return nil
	}
	for i := range columns[0].Len() {
		row := ""
		for _, c := range columns {
			row += fmt.Sprintf("%v|", c.Any(i))
		}
		rows = append(rows, row)
	}
	return rows
}
