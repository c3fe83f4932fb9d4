package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/table/flags"
)

func newPoolDumpCommand(a *app) *cobra.Command {
	limit := 0
	var durable durabilityFlags
	cmd := &cobra.Command{
		Use:   "dump [flags] FILE",
		Short: "Print the keys and values of a pool",
		Long: `Dump prints the pairs of a pool, one per line, in no order: key and value in hexadecimal with a tab
between. Bytes come as they are in the pool, so integers of maps are little-endian. With --json each
line is an object with key and value, in hexadecimal, too. The number of pairs goes to standard
error.

The pool is opened for reading. Other readers may use it, writers may not, and it stays as it is.
Changes that a crash left unfinished are left out. Dump compares all checksums before it prints the
first line, and prints nothing of a corrupt pool. If dump ends early, its last line is whole.

Run "weft pool check" before dump if the pool is a sparse copy in a file system in memory, or if a
crash left atomic batches to apply. Memory whose persistence the system does not report needs
--assert-pmem.`,
		Example: `  weft pool dump /dev/shm/users.pool | sort > users.txt
  weft pool dump --limit 10 --json /dev/shm/users.pool`,
		Args: a.onePool,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return flags.Usage("pool dump --limit %d: must not be negative", limit)
			}
			o := gphash.OpenOptions{ReadOnly: true, Verify: true}
			var err error
			if o.Durability, o.AssertPMem, err = durable.options("dump"); err != nil {
				return err
			}
			return runPoolDump(cmd.Context(), a, args[0], o, limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "print at most N pairs; 0 prints all")
	durable.add(cmd.Flags())
	return cmd
}

func runPoolDump(ctx context.Context, a *app, path string, o gphash.OpenOptions, limit int) (err error) {
	dev, err := a.openPoolDevice(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	x, _, err := openPool(ctx, path, dev, o)
	if err != nil {
		if errors.Is(err, weft.ErrCorrupt) {
			err = fmt.Errorf("%w; see weft pool check", err)
		}
		return poolError("dump", path, err)
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	if limit == 0 {
		limit = -1
	}
	d := dumper{w: a.stdout, json: a.json}
	if err := d.dump(ctx, x, limit); err != nil {
		return poolError("dump", path, err)
	}
	_, err = fmt.Fprintf(a.stderr, "weft: %d of %d pairs\n", d.lines, x.Len())
	return err
}

// dumper prints pairs. Each write consists of whole lines.
type dumper struct {
	w     io.Writer
	json  bool
	lines int
	text  []byte
}

func (d *dumper) dump(ctx context.Context, x openedPool, limit int) error {
	for page, err := range pagesOf(ctx, x) {
		if err != nil {
			return err
		}
		for i := range page.n {
			if d.lines == limit {
				return d.flush()
			}
			if err := d.pair(page.key(i), page.value(i)); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return d.flush()
}

// poolPage is a page of pairs.
type poolPage struct {
	n          int
	key, value func(i int) []byte
}

func pagesOf(ctx context.Context, x openedPool) iter.Seq2[poolPage, error] {
	return func(yield func(poolPage, error) bool) {
		switch x := x.(type) {
		case *gphash.Strings:
			for p, err := range x.Pages(ctx) {
				if !yield(poolPage{p.Keys.Len(), p.Keys.Row, p.Values.Row}, err) {
					return
				}
			}
		case *gphash.Index:
			row := func(data []byte, size int) func(int) []byte {
				return func(i int) []byte { return data[i*size : (i+1)*size] }
			}
			for p, err := range x.Pages(ctx) {
				if !yield(poolPage{len(p.Keys) / x.KeySize(), row(p.Keys, x.KeySize()), row(p.Values, x.ValueSize())}, err) {
					return
				}
			}
		}
	}
}

func (d *dumper) pair(key, value []byte) error {
	prefix, separator, suffix := "", "\t", "\n"
	if d.json {
		prefix, separator, suffix = `{"key":"`, `","value":"`, "\"}\n"
	}
	d.text = append(d.text, prefix...)
	d.text = hex.AppendEncode(d.text, key)
	d.text = append(d.text, separator...)
	d.text = hex.AppendEncode(d.text, value)
	d.text = append(d.text, suffix...)
	d.lines++
	if len(d.text) < outputBuffer {
		return nil
	}
	return d.flush()
}

func (d *dumper) flush() error {
	_, err := d.w.Write(d.text)
	d.text = d.text[:0]
	return err
}
