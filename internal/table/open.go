package table

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/internal/table/compress"
)

// counting counts the bytes read of a file.
type counting struct {
	io.Reader
	in   *input
	high *atomic.Int64 // those of the file, or of a range of it
	at   int64
	size int64 // of a range; 0: unknown
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.at += int64(n)
	c.in.count(c.high, c.at)
	if err == io.EOF && c.at < c.size {
		err = errShrunk
	}
	return n, err
}

var errShrunk = errors.New("the file has become shorter while it is read")

// stream is a file that is read sequentially.
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
	files   Files
	stdin   io.Reader
	regular bool          // allows random access
	size    int64         // of a regular file
	spool   *spool        // of a stream
	read    *atomic.Int64 // bytes of all files
	high    atomic.Int64  // bytes read of this file
	ranges  sync.Map      // *atomic.Int64 of ranges, by their start

	maxBytes int64
	tempDir  string
}

// reached counts the bytes of the file up to an offset. Each counts once, though the file may be
// read several times: its beginning to find types, and all of it if they were wrong.
func (in *input) reached(at int64) { in.count(&in.high, at) }

// count counts the bytes from the beginning of the file, or of a range, up to an offset.
func (in *input) count(bytes *atomic.Int64, at int64) {
	for {
		high := bytes.Load()
		if at <= high {
			return
		}
		if bytes.CompareAndSwap(high, at) {
			in.read.Add(at - high)
			return
		}
	}
}

// from returns the number of bytes read of the range that begins at an offset.
func (in *input) from(at int64) *atomic.Int64 {
	n, _ := in.ranges.LoadOrStore(at, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// rereadable reports whether the file can be read more than once.
func (in *input) rereadable() bool { return in.regular || in.spool != nil && in.spool.rereadable() }

// open opens a file and decompresses it, if it is compressed.
func (in *input) open(ctx context.Context) (*stream, error) {
	s := &stream{}
	var raw io.Reader
	if in.spool == nil { // not opened before
		raw = in.stdin
		if in.name != Stdin {
			f, err := in.files.Open(ctx, in.name)
			if err != nil {
				return nil, in.failed(err)
			}
			s.closers = append(s.closers, f)
			raw = f
		}
		if !in.regular {
			in.spool = newSpool(raw, in.tempDir, in.maxBytes)
			s.closers = append(s.closers, closing(in.spool.drop))
		}
	}
	if in.spool != nil {
		raw = in.spool.reader()
	}
	plain, err := compress.Reader(&counting{Reader: raw, in: in, high: &in.high})
	if err != nil {
		return nil, in.failed(errors.Join(err, s.Close()))
	}
	s.closers = append([]io.Closer{plain}, s.closers...)
	s.Reader = bufio.NewReaderSize(plain, 1<<16)
	return s, nil
}

// openText opens a file of text.
func (in *input) openText(ctx context.Context) (*stream, error) {
	s, err := in.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.decode(); err != nil {
		return nil, in.failed(errors.Join(err, s.Close()))
	}
	return s, nil
}

// decode converts the text of a stream to UTF-8 without a byte order mark.
func (s *stream) decode() error {
	text, err := compress.Text(s.Reader)
	if err == nil && text != s.Reader {
		s.Reader = bufio.NewReaderSize(text, 1<<16)
	}
	return err
}

// closing is a Closer that cannot fail.
type closing func()

func (c closing) Close() error {
	c()
	return nil
}

// failed adds the name of the file to an error without it.
func (in *input) failed(err error) error {
	if errors.As(err, new(*RowError)) {
		return err
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s: %w", display(in.name), err)
}

// open determines the format of a file.
func (t *Table) open(ctx context.Context, name string, stdin io.Reader) (source, error) {
	in := &input{name: name, files: t.opts.Files, stdin: stdin, read: &t.read, maxBytes: t.opts.MaxBytes,
		tempDir: t.opts.TempDir}
	if name != Stdin {
		size, err := in.files.Size(ctx, name)
		if err != nil {
			return nil, in.failed(err)
		}
		in.regular, in.size = size >= 0, max(size, 0)
	}
	s, err := in.open(ctx)
	if err != nil {
		return nil, err
	}
	src, err := t.source(ctx, in, s)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return src, nil
}

// source determines the format of a stream.
func (t *Table) source(ctx context.Context, in *input, s *stream) (source, error) {
	head, err := s.Peek(512)
	if err != nil && err != io.EOF {
		return nil, in.failed(err)
	}
	format := t.opts.Format
	if format == Auto {
		format = typedFormat(in.name, head)
	}
	if format == Parquet || format == Arrow {
		if in.spool != nil {
			in.spool.drop()
		}
		if format == Parquet {
			return openParquet(ctx, in, s, t.opts.MaxBytes, t.opts.Memory)
		}
		return openArrow(ctx, in, s, t.opts.MaxBytes)
	}
	if err := s.decode(); err != nil {
		return nil, in.failed(err)
	}
	if format == Auto {
		if head, err = s.Peek(512); err != nil && err != io.EOF {
			return nil, in.failed(err)
		}
		format = textFormat(in.name, head)
	}
	return openText(ctx, in, s, format, &t.opts)
}

// extension returns the suffix of a file's name that shows its format, without that of a
// compression.
func extension(name string) string {
	name = strings.ToLower(name)
	for _, suffix := range compress.Suffixes {
		name = strings.TrimSuffix(name, suffix)
	}
	return filepath.Ext(name)
}

// typedFormat returns the format of a file that is no text, by its first bytes, or by its name. It
// returns Auto for text.
func typedFormat(name string, head []byte) Format {
	switch {
	case bytes.HasPrefix(head, []byte("PAR1")):
		return Parquet
	case bytes.HasPrefix(head, []byte("ARROW1")), bytes.HasPrefix(head, []byte("\xff\xff\xff\xff")):
		return Arrow
	}
	switch extension(name) {
	case ".parquet", ".pq":
		return Parquet
	case ".arrow", ".feather", ".arrows", ".ipc":
		return Arrow
	}
	return Auto
}

// jsonStart matches the start of JSON objects, which is unlikely in CSV.
var jsonStart = regexp.MustCompile(`^[ \t\r\n]*(\{|\[[ \t\r\n]*[\[\]{])`)

// textFormat returns the format of a text by its name, or by its first bytes.
func textFormat(name string, head []byte) Format {
	switch extension(name) {
	case ".csv":
		return CSV
	case ".tsv", ".tab":
		return TSV
	case ".json", ".jsonl", ".ndjson":
		return JSON
	}
	if jsonStart.Match(head) {
		return JSON
	}
	return CSV
}
