package table

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
)

type textSource struct {
	in     *input
	opts   *Options
	format Format
	sep    byte
	header bool // the first row is a header
	nested bool // JSON that is not an object on each line
	names  []Field
	looks  []kinds
	index  map[string]int // JSON: field of each name
	whole  bool           // index covers all rows
	// sampled is the number of bytes that Open examined, including the header.
	sampled int64

	// stream is set for a stream until it has been read once.
	stream *stream
	first  *block
	rest   *blocks
}

func (s *textSource) fields() []Field  { return s.names }
func (s *textSource) kinds() []kinds   { return s.looks }
func (s *textSource) loose() bool      { return s.format == JSON }
func (s *textSource) rereadable() bool { return s.in.rereadable() }

func (s *textSource) close() error {
	if s.stream == nil {
		return nil
	}
	err := s.stream.Close()
	s.stream = nil
	return err
}

func (s *textSource) cut() cutter {
	switch {
	case s.format != JSON:
		return &csvCutter{sep: s.sep, lazy: s.opts.LazyQuotes, lines: s.opts.Lines}
	case s.nested:
		return &jsonCutter{}
	}
	return &lineCutter{}
}

func (s *textSource) blocks(r io.Reader, size int) *blocks {
	return &blocks{
		file:   display(s.in.name),
		r:      r,
		cut:    s.cut(),
		size:   size,
		maxRow: s.opts.maxRow,
		line:   1,
	}
}

// openText reads the first block of a text file. It closes the stream if the file can be read
// again.
func openText(
	ctx context.Context,
	in *input,
	r *stream,
	format Format,
	opts *Options,
) (_ *textSource, err error) {
	s := &textSource{in: in, opts: opts, format: format, sep: opts.Separator, stream: r}
	head, err := r.Peek(r.Size())
	if err != nil && err != io.EOF {
		return nil, in.failed(err)
	}
	whole := err == io.EOF
	switch {
	case format == JSON:
		s.nested = nestedJSON(head, whole)
	case format == TSV:
		s.sep = cmp.Or(s.sep, '\t')
	case s.sep == 0:
		s.sep = separator(head, whole, opts.LazyQuotes)
	}
	s.rest = s.blocks(r, opts.first)
	for s.first, err = s.rest.read(); err == nil && !s.hasRows() && s.rest.err == nil; s.first, err = s.rest.read() {
		if len(s.first.marks) == 0 { // empty lines only
			s.sampled += int64(len(s.first.text()))
			continue
		}
		if s.rest.size *= 2; s.rest.size > maxSample {
			return nil, fmt.Errorf(
				"%s: all rows in the first %d MiB are bad",
				display(in.name),
				maxSample>>20,
			)
		}
		s.rest.unread(s.first)
	}
	s.rest.size = opts.BlockSize
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: no rows and no column names", display(in.name))
	case err != nil:
		return nil, in.failed(err)
	}
	s.sampled += int64(len(s.first.text()))
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

// maxSample bounds the first block, which must contain a good row.
const maxSample = 64 << 20

// hasRows reports whether the first block contains rows that are not marked as bad.
func (s *textSource) hasRows() bool {
	if s.nested {
		return slices.ContainsFunc(s.first.marks, func(m mark) bool { return m.bad == nil })
	}
	text, lo := s.first.text(), 0
	for _, m := range s.first.marks {
		if len(bytes.Trim(text[lo:m.lo], "\r\n")) > 0 {
			return true
		}
		lo = m.hi
	}
	return len(bytes.Trim(text[lo:], "\r\n")) > 0
}

// separatorRows is the number of rows that determine the separator of a CSV file.
const separatorRows = 32

// separator returns one of four characters: the one for which most of the first rows have the same
// number of fields. Among equals it prefers more fields.
func separator(head []byte, whole, lazy bool) byte {
	best, mostRows, mostFields := byte(','), 0, 1
	for _, sep := range []byte{',', ';', '\t', '|'} {
		var counts []int
		errDone := errors.New("enough rows")
		scan := scanner{sep: sep, lazy: lazy}
		scan.row = func(_, _, fields int, bad error) error {
			if bad == nil {
				counts = append(counts, fields)
			}
			if len(counts) == separatorRows {
				return errDone
			}
			return nil
		}
		// Stops after separatorRows.
		_ = scan.block(headBlock(head, whole, &csvCutter{sep: sep, lazy: lazy}))
		for _, fields := range counts {
			rows := 0
			for _, n := range counts {
				rows += btoi(n == fields)
			}
			if fields > 1 && (rows > mostRows || rows == mostRows && fields > mostFields) {
				best, mostRows, mostFields = sep, rows, fields
			}
		}
	}
	return best
}

// headBlock returns the whole rows at the start of a text, or the available part of the first row.
func headBlock(head []byte, whole bool, cut cutter) *block {
	buf := make([]byte, pad, pad+len(head)+1+pad)
	buf = append(buf, head...)
	n := 0
	if !whole {
		n = cut.whole(buf[pad:], false)
	}
	if n == 0 {
		_ = cut.next()
		buf = append(buf, '\n')
		n = cut.whole(buf[pad:], true)
	}
	return &block{buf: buf[:pad+n+pad], line: 1, marks: cut.next()}
}

// sampleCSV determines names and kinds of columns from the first block.
func (s *textSource) sampleCSV() error {
	b := s.first.buf
	var first []string // the first row
	var is []kind      // kinds of the values in first
	var row []kind
	firstAt, rows := 0, 0
	scan := scanner{sep: s.sep, lazy: s.opts.LazyQuotes}
	nulls := s.opts.nulls()
	scan.field = func(_ int, f span) {
		of := kindNull
		text := unquoted(b, f)
		if f.quoted || !isNull(b[f.lo:f.hi], nulls) {
			of = classifyText([]byte(text))
		}
		if s.looks == nil {
			first = append(first, text)
		}
		row = append(row, of)
	}
	scan.row = func(at, _, fields int, bad error) error {
		switch {
		case bad != nil && s.looks == nil && (!s.opts.SkipBad || s.opts.Header != HeaderNo):
			if s.opts.SkipBad {
				bad = fmt.Errorf(
					"%w; the first line may have the names of columns: --header no skips it, too",
					bad,
				)
			}
			return &RowError{File: display(s.in.name), Line: s.first.lineOf(at), Err: bad}
		case bad != nil: // handled when rows are read
		case s.looks == nil:
			s.looks, is, firstAt = make([]kinds, fields), slices.Clone(row), at
		case fields == len(s.looks):
			rows++
			for i, of := range row {
				s.looks[i].add(of)
			}
		}
		row = row[:0]
		return nil
	}
	if err := scan.block(s.first); err != nil {
		return err
	}
	if s.looks == nil {
		return fmt.Errorf("%s: no rows and no column names", display(s.in.name))
	}
	var err error
	if s.header, err = s.headed(first, is, rows, s.first.lineOf(firstAt)); err != nil {
		return err
	}
	for i, name := range first {
		if !s.header {
			s.looks[i].add(is[i])
		}
		if !s.header || name == "" {
			name = strconv.Itoa(i + 1)
		}
		s.names = append(s.names, Field{Name: name})
	}
	return nil
}

// headed reports whether the first row is a header. It is if some column has text there, and only
// numbers or booleans in all other rows. Otherwise it is a header if it contains neither. If fields
// of such a row repeat, headed returns false or an error.
func (s *textSource) headed(first []string, is []kind, rows, line int) (bool, error) {
	if s.opts.Header != HeaderAuto {
		return s.opts.Header == HeaderYes, nil
	}
	text, value, repeated := false, false, false
	seen := map[string]bool{}
	for i, of := range is {
		if of == kindText && s.looks[i].plain() {
			return true, nil
		}
		text = text || of == kindText
		value = value || of != kindText && of != kindNull
		repeated = repeated || first[i] != "" && seen[first[i]]
		seen[first[i]] = true
	}
	switch {
	case value && text:
		s.opts.note(
			"%s: the first line is taken for a row; --header yes takes it for names",
			display(s.in.name),
		)
		return false, nil
	case value:
		return false, nil
	case repeated && rows > 0:
		return false, &RowError{File: display(s.in.name), Line: line,
			Err: errors.New(
				"fields of the first line repeat: set --header yes if they are column names, or --header no",
			)}
	}
	return !repeated, nil
}

func unquoted(b []byte, f span) string {
	text := b[f.lo:f.hi]
	if f.doubled {
		text = bytes.ReplaceAll(text, []byte(`""`), []byte(`"`))
	}
	return string(text)
}

func (s *textSource) batches(
	ctx context.Context,
	columns []wanted,
	all bool,
	r Range,
) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		src, close, err := s.begin(ctx, r)
		if err != nil {
			yield(Batch{}, err)
			return
		}
		defer close()
		for batch, err := range parallel(ctx, src, s.opts.Workers, func() parser { return s.parser(columns, all) }) {
			if err != nil && ctx.Err() == nil {
				err = s.explain(ctx, err, r)
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// begin opens a range or the whole file.
func (s *textSource) begin(
	ctx context.Context,
	r Range,
) (src *headless, close func() error, err error) {
	src = &headless{
		blocks: s.rest,
		first:  s.first,
		scan:   scanner{sep: s.sep, lazy: s.opts.LazyQuotes},
	}
	src.skip = s.header && r.Lo == 0
	s.rest, s.first = nil, nil
	close = func() error { return nil }
	switch {
	case src.blocks != nil: // opened by Open
	case r.ranged():
		section, f, err := s.section(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		src.blocks, close = s.blocks(
			&counting{Reader: section, in: s.in, high: s.in.from(r.Lo), size: section.Size()},
			s.opts.BlockSize,
		), f.Close
	case !s.rereadable():
		return nil, nil, fmt.Errorf("%s: cannot be read a second time", display(s.in.name))
	default:
		stream, err := s.in.openText(ctx)
		if err != nil {
			return nil, nil, err
		}
		src.blocks, close = s.blocks(stream, s.opts.BlockSize), stream.Close
	}
	return src, close, nil
}

// explain corrects the line number in an error, because blocks count lines from the start of their
// range.
func (s *textSource) explain(ctx context.Context, err error, r Range) error {
	w, unknown, row := (*Widening)(nil), (*UnknownMember)(nil), (*RowError)(nil)
	switch {
	case errors.As(err, &w):
		w.IsStream = !s.rereadable()
		w.Line += s.linesBefore(ctx, r)
		return err
	case errors.As(err, &unknown):
		unknown.IsStream = !s.rereadable()
		unknown.Line += s.linesBefore(ctx, r)
		return err
	case errors.As(err, &row):
		row.Line += s.linesBefore(ctx, r)
	}
	return s.in.failed(err)
}

func (s *textSource) parser(columns []wanted, all bool) parser {
	if s.format == JSON {
		return newJSONParser(display(s.in.name), s.opts, columns, s.names, all)
	}
	return newCSVParser(display(s.in.name), s.sep, len(s.names), s.opts, columns)
}

// headless reads blocks and removes the header from the first. If first is not nil, it is the first
// block.
type headless struct {
	*blocks
	first *block
	skip  bool
	scan  scanner
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
	// Find the end of the first row, which is not bad.
	found := errors.New("end of the first row")
	end := 0
	h.scan.row = func(_, to, _ int, _ error) error {
		end = to
		return found
	}
	if h.scan.block(b) == nil { // empty lines only
		return &block{buf: make([]byte, 2*pad), line: b.line}, nil
	}
	h.skip = false
	lines := lineEnds(b.buf[pad:end])
	rest := &block{
		buf:   b.buf[end-pad:],
		line:  b.line + lines,
		rows:  b.rows,
		last:  b.last,
		marks: b.marks,
	}
	for i := range rest.marks {
		rest.marks[i].lo -= end - pad
		rest.marks[i].hi -= end - pad
	}
	return rest, nil
}
