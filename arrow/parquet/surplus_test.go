package parquet

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weftgo/weft/column"
)

// Surplus rows are an error, because other readers would return them.
func TestSurplusRows(t *testing.T) {
	const n = 2 * pageRows
	var b bytes.Buffer
	w, err := NewWriter(&b, []Field{{"n", Type{Column: column.Int64}}}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]column.Column{column.Of(make([]int64, n))}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rows, values int64
		want         string
	}{
		{n, n, ""},
		{n, n + 1, "values in a row group of"},
		{n + 1, n + 1, "fewer rows than the metadata announces"},
		{n - 1, n - 1, "more rows than the metadata announces"}, // in the last page
		{pageRows, pageRows, "more rows than the metadata announces"},
		{pageRows, n, "values in a row group of"},
	} {
		f, err := Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		g := &f.meta.RowGroups[0]
		g.NumRows, g.Columns[0].MetaData.NumValues = c.rows, c.values
		rows := 0
		for batch, e := range f.Columns(t.Context(), 0) {
			if err = e; e == nil {
				rows += batch[0].Len()
			}
		}
		if got := err; c.want == "" && (got != nil || rows != n) || c.want != "" && (got == nil ||
			!strings.Contains(got.Error(), c.want)) {
			t.Errorf("%d rows and %d values announced, of %d: %d read, %v", c.rows, c.values, n,
				rows, got)
		}
	}
}
