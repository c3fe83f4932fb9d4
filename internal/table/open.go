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

type counting struct {
	io.Reader
	in   *input
	high *atomic.Int64 // counter of the bytes read from the file or the range
	at   int64
	size int64 // size of the range; 0 if unknown
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

// Close closes the file. Further calls do nothing.
func (s *stream) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// input is a file that can be opened by its name.
type input struct {
	name    string
	files   Files
	stdin   io.Reader
	regular bool          // the file has random access
	size    int64         // set if regular
	spool   *spool        // copy of a stream
	read    *atomic.Int64 // bytes read from all files
	high    atomic.Int64  // bytes read from this file
	ranges  sync.Map      // maps the start of a range to an *atomic.Int64, the bytes read

	maxBytes int64
	tempDir  string
}

// reached counts the bytes of the file before an offset. Each byte counts once, even if the file is
// read several times, for example first to find types.
func (in *input) reached(at int64) { in.count(&in.high, at) }

// count raises a counter to the value at, and adds the difference to in.read. A larger counter
// stays as it is.
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

// from returns the counter for the range that begins at an offset.
func (in *input) from(at int64) *atomic.Int64 {
	n, _ := in.ranges.LoadOrStore(at, new(atomic.Int64))
	return n.(*atomic.Int64)
}

func (in *input) rereadable() bool { return in.regular || in.spool != nil && in.spool.rereadable() }

// open opens the file and decompresses it if needed.
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

type closing func()

func (c closing) Close() error {
	c()
	return nil
}

// failed adds the name of the file to an error, unless the error contains it.
func (in *input) failed(err error) error {
	if errors.As(err, new(*RowError)) {
		return err
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s: %w", display(in.name), err)
}

// open opens a file and determines its format.
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

// source determines the format of a stream and reads its beginning.
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

// extension returns the suffix of a file name, ignoring the suffix of a compression.
func extension(name string) string {
	name = strings.ToLower(name)
	for _, suffix := range compress.Suffixes {
		name = strings.TrimSuffix(name, suffix)
	}
	return filepath.Ext(name)
}

// typedFormat returns Parquet or Arrow, according to the first bytes of a file or its name. For
// text it returns Auto.
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

// textFormat returns the format of a text file, according to its name or its first bytes.
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
