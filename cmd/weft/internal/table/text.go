package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
)

// textSource is a file of text.
type textSource struct {
	in     *input
	opts   *Options
	format Format
	sep    byte
	header bool // the first row is one
	names  []Field
	looks  []kinds
	index  map[string]int // of JSON: the field of a name
	whole  bool           // all rows have been looked at for these

	// Of a stream that cannot be read again: what is open.
	stream *stream
	first  *block // nil: empty
	rest   *blocks
	done   bool
}

func (s *textSource) fields() []Field { return s.names }
func (s *textSource) kinds() []kinds  { return s.looks }
func (s *textSource) loose() bool     { return s.format == JSON }
func (s *textSource) again() bool     { return s.in.regular }

func (s *textSource) close() error {
	if s.stream == nil {
		return nil
	}
	err := s.stream.Close()
	s.stream = nil
	return err
}

// cut finds ends of rows of the format.
func (s *textSource) cut() cutter {
	if s.format == JSON {
		return &lineCutter{}
	}
	return &csvCutter{sep: s.sep}
}

// openText looks at the first block of a text. It closes the stream, if the file can be read again.
func openText(ctx context.Context, in *input, r *stream, format Format, opts *Options) (_ *textSource, err error) {
	s := &textSource{in: in, opts: opts, format: format, sep: opts.Separator, stream: r}
	if s.sep == 0 && format != JSON {
		if s.sep, err = separator(r, format); err != nil {
			return nil, in.failed(err)
		}
	}
	s.rest = &blocks{r: r, cut: s.cut(), size: opts.first, line: 1}
	for blank := true; blank && err == nil; {
		if s.first, err = s.rest.read(); err == nil {
			blank = len(bytes.TrimLeft(s.first.text(), "\r\n")) == 0
		}
	}
	s.rest.size = opts.BlockSize
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: no rows, and no names of columns", display(in.name))
	case err != nil:
		return nil, in.failed(err)
	}
	if format == JSON {
		s.whole = s.rest.err == io.EOF
		err = s.sampleJSON(ctx)
	} else {
		err = s.sampleCSV()
	}
	if err != nil {
		return nil, err
	}
	if in.regular {
		s.first, s.rest = nil, nil
		return s, s.close()
	}
	return s, nil
}

// separator is the one of four characters that comes most often in the first line.
func separator(r *stream, format Format) (byte, error) {
	if format == TSV {
		return '\t', nil
	}
	head, err := r.Peek(r.Size())
	if err != nil && err != io.EOF {
		return 0, err
	}
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	best, most := byte(','), 0
	for _, sep := range []byte{',', ';', '\t', '|'} {
		if n := bytes.Count(line, []byte{sep}); n > most {
			best, most = sep, n
		}
	}
	return best, nil
}

// sampleCSV finds names and kinds of columns in the first block.
func (s *textSource) sampleCSV() error {
	b := s.first.buf
	var names []string
	var row []kind
	known := map[string]bool{}
	header := true
	scan := scanner{sep: s.sep}
	scan.field = func(i int, f span) {
		text := unquoted(b, f)
		of := kindNull
		if f.quoted || text != s.opts.Null {
			of = classifyText([]byte(text))
		}
		if s.looks == nil {
			if text != "" && (of != kindText || known[text]) {
				header = false
			}
			known[text] = true
			names = append(names, text)
		}
		row = append(row, of)
	}
	scan.row = func(at, fields int, bad error) error {
		if s.looks == nil {
			if bad != nil {
				return &RowError{File: display(s.in.name), Line: s.first.lineOf(at), Err: bad}
			}
			s.header = header && s.opts.Header == HeaderAuto || s.opts.Header == HeaderYes
			s.looks = make([]kinds, fields)
		}
		if bad == nil && len(row) == len(s.looks) && (len(s.names) > 0 || !s.header) {
			for i, of := range row {
				s.looks[i].add(of)
			}
		}
		if len(s.names) == 0 {
			for i, name := range names {
				if !s.header || name == "" {
					name = strconv.Itoa(i + 1)
				}
				s.names = append(s.names, Field{Name: name})
			}
		}
		row = row[:0]
		return nil
	}
	if err := scan.scan(b, pad, len(b)-pad); err != nil {
		return err
	}
	if s.names == nil {
		return fmt.Errorf("%s: no rows, and no names of columns", display(s.in.name))
	}
	return nil
}

// unquoted is the text of a field.
func unquoted(b []byte, f span) string {
	text := b[f.lo:f.hi]
	if f.doubled {
		text = bytes.ReplaceAll(text, []byte(`""`), []byte(`"`))
	}
	return string(text)
}

func (s *textSource) batches(ctx context.Context, columns []wanted, all bool) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		src := s.rest
		if s.in.regular {
			r, err := s.in.open(ctx)
			if err != nil {
				yield(Batch{}, err)
				return
			}
			defer r.Close()
			src = &blocks{r: r, cut: s.cut(), size: s.opts.BlockSize, line: 1}
		} else if s.done {
			yield(Batch{}, fmt.Errorf("%s: cannot be read a second time", display(s.in.name)))
			return
		}
		s.done = true
		headed := &headless{blocks: src, first: s.first, skip: s.header, sep: s.sep}
		for batch, err := range parallel(ctx, headed, s.opts.Workers, func() parser { return s.parser(columns, all) }) {
			if row := (*RowError)(nil); err != nil && !errors.As(err, &row) && !adaptable(err) && ctx.Err() == nil {
				err = s.in.failed(err)
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// adaptable reports whether an error is one of [Table.Adapt].
func adaptable(err error) bool {
	return errors.As(err, new(*Widening)) || errors.As(err, new(*LateMember))
}

func (s *textSource) parser(columns []wanted, all bool) parser {
	if s.format == JSON {
		return newJSONParser(display(s.in.name), s.opts, columns, s.names, all)
	}
	return newCSVParser(display(s.in.name), s.sep, len(s.names), s.opts, columns)
}

// headless are blocks without the header of the first, which may have been read already.
type headless struct {
	*blocks
	first *block
	skip  bool
	sep   byte
}

func (h *headless) read() (*block, error) {
	b := h.first
	h.first = nil
	if b == nil {
		var err error
		if b, err = h.blocks.read(); err != nil {
			return nil, err
		}
	}
	if !h.skip {
		return b, nil
	}
	// Up to the end of the first row, as the scanner finds it.
	end := errors.New("end of the first row")
	at := -1
	scan := scanner{sep: h.sep}
	scan.row = func(from, _ int, _ error) error {
		if at < 0 {
			at = from
			return nil
		}
		at = from
		return end
	}
	err := scan.scan(b.buf, pad, len(b.buf)-pad)
	h.skip = at < 0 // empty lines only
	if err == nil {
		return &block{buf: make([]byte, 2*pad), line: b.line + b.rows}, nil
	}
	lines := bytes.Count(b.buf[pad:at], []byte{'\n'})
	return &block{buf: b.buf[at-pad:], line: b.line + lines, rows: b.rows - lines}, nil
}
