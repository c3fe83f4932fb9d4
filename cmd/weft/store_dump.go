package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/savedgraph"
	"github.com/weftgo/weft/internal/table/flags"
)

func newStoreDumpCommand(a *app) *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use:   "dump [flags] DIR",
		Short: "Print the content of a store",
		Long: `Dump prints what a store holds, one row per line, with tabs between the fields:

  map, multimap    key, value
  ordered map      key, value, in the order of keys
  set              key
  graph            from, to, weight if there are weights. An undirected edge comes once. Vertices
                   without edges follow, as lines of one field; graphs of package slab have none
  ids              id, key, in the order of ids. A row of several columns has several fields

Numbers have the types of the store. An empty field is null. As in the CSV of weft group, text is
quoted if it is empty or contains a tab, a quote or a line break. So other commands can read the
output: weft store dump DIR | weft group --by 2 --header no --csv -

With --json each line is an object: key and value; from, to and weight; vertex; or id and key, which
is an array for several columns. Text that is not UTF-8 is an object with a member base64. NaN and
infinities are strings. The number of rows goes to standard error.

The store is read, not opened, and stays as it is. Other readers may use it meanwhile, and no
program may have it open. Dump compares all checksums before it prints the first line, and prints
nothing of a corrupt store. If dump ends early, its last row is whole.`,
		Example: `  weft store dump data/visits | sort -n > visits.tsv
  weft store dump --limit 10 --json data/visits`,
		Args:              requireFolders("DIR"),
		ValidArgsFunction: folders(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return flags.Usage("store dump --limit %d: must not be negative", limit)
			}
			if err := runStoreDump(cmd.Context(), a, args[0], limit); err != nil {
				return storeError("dump", args[0], err)
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "print at most N rows; 0 prints all")
	return cmd
}

func runStoreDump(ctx context.Context, a *app, dir string, limit int) error {
	return a.loadStore(ctx, dir, "reading the store", nil, func(l *loadedStore) error {
		l.bar.Close() // the output may be on the terminal, too
		w := &rowWriter{w: a.stdout, json: a.json, limit: limit}
		if err := l.rows(ctx, w); err != nil && !errors.Is(err, errLimit) {
			return err
		}
		if err := w.flush(); err != nil {
			return err
		}
		more := ""
		if w.more {
			more = ", and there are more"
		}
		_, err := fmt.Fprintf(a.stderr, "weft: %s%s\n", counted(w.rows, "row"), more)
		return err
	})
}

// rows implements stored. It reads the stream of Save, because that has each edge once.
func (g storedGraph) rows(ctx context.Context, to *rowWriter) error {
	kind := savedgraph.Kind{Letter: g.weights.Letter, Weight: int(g.weights.Bits) / 8}
	if g.graph.Directed() {
		kind.Flags = savedgraph.Directed
	}
	saved, w := io.Pipe()
	go func() { w.CloseWithError(g.graph.Save(ctx, w)) }()
	d := &graphDumper{to: to, graph: &g}
	err := savedgraph.Load(ctx, saved, kind, math.MaxUint32, d)
	_ = saved.Close() // ends Save
	if err == nil {
		err = d.lonely()
	}
	return err
}

// graphDumper prints the edges of a saved graph. It implements savedgraph.Graph.
type graphDumper struct {
	to    *rowWriter
	graph *storedGraph
	// the vertices that have had no edge so far, as a bitmap
	without []uint64
}

// Vertices implements savedgraph.Graph. All calls come before those of Edges, and ids ascend.
func (d *graphDumper) Vertices(_ context.Context, ids []uint32) error {
	for _, id := range ids {
		for int(id/64) >= len(d.without) {
			d.without = append(d.without, 0)
		}
		d.without[id/64] |= 1 << (id % 64)
	}
	return nil
}

// Edges implements savedgraph.Graph.
func (d *graphDumper) Edges(_ context.Context, from, to []uint32, weights []byte) error {
	for _, ids := range [][]uint32{from, to} {
		for _, id := range ids {
			if int(id/64) < len(d.without) {
				d.without[id/64] &^= 1 << (id % 64)
			}
		}
	}
	columns := []column.Column{column.Of(from), column.Of(to)}
	if d.graph.weights.Bits > 0 {
		columns = append(columns, columnOf(d.graph.weights, weights))
	}
	return d.to.write([]string{"from", "to", "weight"}, columns)
}

// lonely prints the vertices without edges, unless all vertices exist.
func (d *graphDumper) lonely() error {
	if _, all := d.graph.log.(tableGraph); all {
		return nil
	}
	var ids []uint32
	for i, word := range d.without {
		for bit := range uint32(64) {
			if word>>bit&1 != 0 {
				ids = append(ids, uint32(i)*64+bit)
			}
		}
	}
	return d.to.write([]string{"vertex"}, []column.Column{column.Of(ids)})
}

// ---- rows ---------------------------------------------------------------------

// rowWriter prints rows. Each write consists of whole rows.
type rowWriter struct {
	w     io.Writer
	json  bool
	limit int // maximum number of rows; 0: any number
	rows  int
	more  bool // rows were left out
	text  []byte
}

// errLimit ends an iteration when enough rows are printed.
var errLimit = errors.New("enough rows")

// write prints the rows of columns. The last name is that of all remaining columns.
func (w *rowWriter) write(names []string, columns []column.Column) error {
	fields := make([]func(b []byte, i int) []byte, len(columns))
	for j, c := range columns {
		fields[j] = formatOf(c, w.json)
	}
	for i := range columns[0].Len() {
		if w.limit > 0 && w.rows == w.limit {
			w.more = true
			return errLimit
		}
		if w.rows++; w.json {
			w.object(names, fields, i)
		} else {
			w.line(fields, i)
		}
		if len(w.text) >= outputBuffer {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *rowWriter) flush() error {
	_, err := w.w.Write(w.text)
	w.text = w.text[:0]
	return err
}

func (w *rowWriter) line(fields []func(b []byte, i int) []byte, row int) {
	for j, field := range fields {
		if j > 0 {
			w.text = append(w.text, '\t')
		}
		w.text = field(w.text, row)
	}
	w.text = append(w.text, '\n')
}

func (w *rowWriter) object(names []string, fields []func(b []byte, i int) []byte, row int) {
	array := len(fields) > len(names)
	for j, field := range fields {
		switch {
		case j == 0:
			w.text = append(w.text, '{')
		default:
			w.text = append(w.text, ',')
		}
		if j < len(names) {
			w.text = append(append(append(w.text, '"'), names[j]...), `":`...)
		}
		if array && j == len(names)-1 {
			w.text = append(w.text, '[')
		}
		w.text = field(w.text, row)
	}
	if array {
		w.text = append(w.text, ']')
	}
	w.text = append(w.text, "}\n"...)
}

// formatOf returns a function that appends value i of a column, as JSON or as a field of a line.
func formatOf(c column.Column, asJSON bool) func(b []byte, i int) []byte {
	value := valuesOf(c)
	switch {
	case c.Type() == column.Bytes && asJSON:
		value = func(b []byte, i int) []byte { return appendJSONText(b, c.Bytes(i)) }
	case c.Type() == column.Bytes:
		value = func(b []byte, i int) []byte { return appendField(b, c.Bytes(i)) }
	case c.Type().Float() && asJSON:
		plain := value
		value = func(b []byte, i int) []byte {
			at := len(b)
			if b = plain(b, i); b[len(b)-1] > '9' { // NaN or infinite
				b = strconv.AppendQuote(b[:at], string(b[at:]))
			}
			return b
		}
	}
	return func(b []byte, i int) []byte {
		switch {
		case !c.Null(i):
			return value(b, i)
		case asJSON:
			return append(b, "null"...)
		}
		return b
	}
}

// valuesOf returns a function that appends value i of a column of numbers or booleans.
func valuesOf(c column.Column) func(b []byte, i int) []byte {
	switch c.Type() {
	case column.Int32:
		v := column.Values[int32](c)
		return func(b []byte, i int) []byte { return strconv.AppendInt(b, int64(v[i]), 10) }
	case column.Int64:
		v := column.Values[int64](c)
		return func(b []byte, i int) []byte { return strconv.AppendInt(b, v[i], 10) }
	case column.Uint32:
		v := column.Values[uint32](c)
		return func(b []byte, i int) []byte { return strconv.AppendUint(b, uint64(v[i]), 10) }
	case column.Uint64:
		v := column.Values[uint64](c)
		return func(b []byte, i int) []byte { return strconv.AppendUint(b, v[i], 10) }
	case column.Float32:
		v := column.Values[float32](c)
		return func(b []byte, i int) []byte { return appendFloat(b, float64(v[i]), 32) }
	case column.Float64:
		v := column.Values[float64](c)
		return func(b []byte, i int) []byte { return appendFloat(b, v[i], 64) }
	}
	return func(b []byte, i int) []byte { return fmt.Append(b, c.Any(i)) }
}

// appendFloat appends a float as weft group prints it, with the fewest digits that preserve its
// value.
func appendFloat(b []byte, v float64, size int) []byte {
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, size)
}

// appendField appends a text as a field, with quotes if needed. An empty text needs quotes, because
// without them it means null.
func appendField(b, text []byte) []byte {
	if len(text) > 0 && !bytes.ContainsAny(text, "\t\"\n\r") {
		return append(b, text...)
	}
	return append(append(append(b, '"'), bytes.ReplaceAll(text, []byte(`"`), []byte(`""`))...), '"')
}

// appendJSONText appends a text as a JSON string, or as an object with base64 if it is not UTF-8.
func appendJSONText(b, text []byte) []byte {
	if !utf8.Valid(text) {
		b = base64.StdEncoding.AppendEncode(append(b, `{"base64":"`...), text)
		return append(b, `"}`...)
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(string(text)) // writes to memory
	return append(b, bytes.TrimSuffix(line.Bytes(), []byte("\n"))...)
}
