package table

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/weftgo/weft/cmd/weft/internal/compress"
)

// counting counts the bytes of a file that are read.
type counting struct {
	io.Reader
	in *input
	at int64
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.at += int64(n)
	c.in.reached(c.at)
	return n, err
}

// stream is a file that is read from its beginning to its end.
type stream struct {
	*bufio.Reader
	closers []io.Closer
}

// Close closes the file. Idempotent.
func (s *stream) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// input is a file by name.
type input struct {
	name    string
	stdin   io.Reader
	regular bool
	read    *atomic.Int64 // bytes of all files
	high    atomic.Int64  // those of this file
}

// reached counts the bytes of the file up to an offset. Each counts once, however often the file is read: its
// beginning is read to find types, all of it where they were wrong.
func (in *input) reached(at int64) {
	for {
		high := in.high.Load()
		if at <= high {
			return
		}
		if in.high.CompareAndSwap(high, at) {
			in.read.Add(at - high)
			return
		}
	}
}

// open opens a file and decompresses it, if it is compressed.
func (in *input) open(ctx context.Context) (*stream, error) {
	s := &stream{}
	raw := in.stdin
	if in.name != Stdin {
		f, err := openFile(ctx, in.name)
		if err != nil {
			return nil, in.failed(err)
		}
		s.closers = append(s.closers, f)
		raw = f
	}
	plain, err := compress.Reader(&counting{Reader: raw, in: in})
	if err != nil {
		return nil, in.failed(errors.Join(err, s.Close()))
	}
	s.closers = append([]io.Closer{plain}, s.closers...)
	s.Reader = bufio.NewReaderSize(plain, 1<<16)
	if bom, err := s.Peek(3); err == nil && string(bom) == "\xef\xbb\xbf" {
		s.Discard(3)
	}
	return s, nil
}

// openFile opens a file; a named pipe waits for its writer, or until ctx ends.
func openFile(ctx context.Context, name string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.Open(name)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// failed names the file of an error.
func (in *input) failed(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s: %w", display(in.name), err)
}

// open finds out what a file is.
func (t *Table) open(ctx context.Context, name string, stdin io.Reader) (source, error) {
	in := &input{name: name, stdin: stdin, read: &t.read}
	if name != Stdin {
		info, err := os.Stat(name)
		if err != nil {
			return nil, in.failed(err)
		}
		if info.IsDir() {
			return nil, fmt.Errorf("%s: is a directory", name)
		}
		in.regular = info.Mode().IsRegular()
	}
	s, err := in.open(ctx)
	if err != nil {
		return nil, err
	}
	format := t.opts.Format
	if format == Auto {
		head, err := s.Peek(512)
		if err != nil && err != io.EOF {
			return nil, errors.Join(in.failed(err), s.Close())
		}
		format = found(name, head)
	}
	var src source
	switch format {
	case Parquet:
		src, err = openParquet(in, s, t.opts.MaxBytes)
	case Arrow:
		src, err = openArrow(in, s, t.opts.MaxBytes)
	default:
		src, err = openText(ctx, in, s, format, &t.opts)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return src, nil
}

// found is the format of a file by its first bytes, else by its name.
func found(name string, head []byte) Format {
	switch {
	case bytes.HasPrefix(head, []byte("PAR1")):
		return Parquet
	case bytes.HasPrefix(head, []byte("ARROW1")), bytes.HasPrefix(head, []byte("\xff\xff\xff\xff")):
		return Arrow
	}
	for _, suffix := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, suffix)
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return CSV
	case ".tsv", ".tab":
		return TSV
	case ".json", ".jsonl", ".ndjson":
		return JSON
	case ".parquet", ".pq":
		return Parquet
	case ".arrow", ".feather", ".arrows", ".ipc":
		return Arrow
	}
	if strings.HasPrefix(strings.TrimLeft(string(head), " \t\r\n"), "{") {
		return JSON
	}
	return CSV
}
