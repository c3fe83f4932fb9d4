package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/bits"
	"sync"
)

const (
	blockSize  = 8 << 20
	maxWorkers = 16
	// firstBlock is the size of the block that determines types.
	firstBlock = 1 << 20
	// maxRow bounds the text of a row in bytes: an open quote makes one row of the rest of a file.
	maxRow = 256 << 20
	// maxEmptyReads is the number of consecutive reads that may return nothing and no error.
	maxEmptyReads = 100
)

// mark is a part of a block, text[lo:hi], that a cutter reports.
type mark struct {
	lo, hi int
	bad    error // nil: a row
}

// block is whole rows of a text.
type block struct {
	buf  []byte // the text, between pad bytes on both sides
	line int    // number of the first line
	rows int    // upper bound, unless marks are rows
	last bool   // the block ends the text, with a \n added
	// in ascending order: bad rows of CSV; rows of JSON that are no lines, bad ones too
	marks []mark

	// Results of lineOf: the ends of lines before an offset, and the start of a line.
	counted, ends int
}

// text returns the text of a block.
func (b *block) text() []byte { return b.buf[pad : len(b.buf)-pad] }

// lineOf returns the number of the line that begins at an offset of the buffer. The time for all
// lines of a block is linear, if their offsets ascend.
func (b *block) lineOf(at int) int {
	if at < b.counted || b.counted == 0 {
		b.counted, b.ends = pad, 0
	}
	b.ends += lineEnds(b.buf[b.counted:at])
	b.counted = at
	return b.line + b.ends
}

// lines counts the lines of a row, buf[at:end].
func (b *block) lines(at, end int) int {
	if b.last && end == len(b.buf)-pad {
		end--
	}
	n := lineEnds(b.buf[at:end])
	if end > at && b.buf[end-1] != '\n' && b.buf[end-1] != '\r' {
		n++
	}
	return n
}

// lineEnds counts the ends of lines: \n, \r\n and \r.
func lineEnds(b []byte) int {
	n := bytes.Count(b, []byte{'\n'})
	if cr := bytes.Count(b, []byte{'\r'}); cr > 0 {
		n += cr - bytes.Count(b, []byte("\r\n"))
	}
	return n
}

// lineEnd returns the offset after the first end of a line in b[from:], or -1. A \r in the last
// byte does not count: a \n may follow.
func lineEnd(b []byte, from int) int {
	at := bytes.IndexAny(b[from:], "\r\n")
	if at < 0 {
		return -1
	}
	at += from
	if b[at] == '\r' {
		if at+1 == len(b) {
			return -1
		}
		if b[at+1] == '\n' {
			at++
		}
	}
	return at + 1
}

// returns replaces carriage returns that end lines alone by \n. b[from:at] contains none of them.
type returns struct{ from, at int }

// replace replaces each \r in b[from:to] without a \n after it by \n. A \r at the end of b
// stays: a \n may follow.
func (r *returns) replace(b []byte, from, to int) {
	if from > r.at {
		r.from, r.at = from, from
	}
	for r.at < to {
		r.at = loneReturn(b, r.at)
		if r.at >= to || r.at+1 == len(b) {
			return
		}
		b[r.at] = '\n'
		r.at++
		r.from = r.at
	}
}

// loneReturn returns the offset of the first \r in b[at:] without a \n after it, or len(b).
func loneReturn(b []byte, at int) int {
	cr := bytes.IndexByte(b[at:], '\r')
	if cr < 0 {
		return len(b)
	}
	at += cr
	for ; at+9 <= len(b); at += 8 {
		w, next := binary.LittleEndian.Uint64(
			b[at:],
		)^'\r'*ones, binary.LittleEndian.Uint64(
			b[at+1:],
		)^'\n'*ones
		// the high bits of bytes that differ
		w, next = w&lowBits+lowBits|w, next&lowBits+lowBits|next
		if m := ^w & next &^ lowBits; m != 0 {
			return at + bits.TrailingZeros64(m)>>3
		}
	}
	for ; at < len(b); at++ {
		if b[at] == '\r' && (at+1 == len(b) || b[at+1] != '\n') {
			return at
		}
	}
	return len(b)
}

// truncate moves the replacer back to an offset.
func (r *returns) truncate(to int) {
	if to < r.from {
		r.from, r.at = to, to
	}
}

// cutter finds rows, and replaces each \r that ends one alone by \n.
type cutter interface {
	// whole returns the number of bytes at the front of b that are whole rows. The last rows are
	// all whole, and end with \n. b begins with a row. If no row is whole, the caller calls again
	// with a longer b.
	whole(b []byte, last bool) int
	// drop marks the row at the front of b, which has no end, as too long. It returns the length of
	// the row's first line, or 0 if the row cannot be left out.
	drop(b []byte) int
	// next returns the marks in the whole rows, and starts anew after them.
	next() []mark
}

// blocks cuts a stream into blocks.
type blocks struct {
	file   string
	r      io.Reader
	cut    cutter
	size   int
	maxRow int
	rest   []byte
	line   int
	empty  int // consecutive reads within a row that returned nothing
	err    error
}

// read returns the next block, or io.EOF after the last.
func (s *blocks) read() (*block, error) {
	if s.err != nil {
		return nil, s.err
	}
	buf := make([]byte, pad+max(s.size, 2*len(s.rest))+1+pad)
	n := pad + copy(buf[pad:], s.rest)
	for {
		m, err := s.fill(buf[n : len(buf)-1-pad])
		n += m
		last := err == io.EOF
		switch {
		case last && n == pad:
			s.err = io.EOF
			return nil, s.err
		case last: // adds an empty line if the last one has its end
			buf[n] = '\n'
			n++
		case err != nil:
			s.err = err
			return nil, err
		}
		end := s.cut.whole(buf[pad:n], last)
		long := end == 0 && n-pad > s.maxRow
		if long {
			if end = s.cut.drop(buf[pad:n]); end == 0 {
				s.err = &RowError{
					s.file,
					s.line,
					fmt.Errorf(
						"a row of more than %d bytes; is a quote or a bracket not closed?",
						s.maxRow,
					),
				}
				return nil, s.err
			}
		}
		if end > 0 {
			b := &block{buf: buf[:pad+end+pad], line: s.line, last: last, marks: s.cut.next()}
			s.rest = bytes.Clone(buf[pad+end : n]) // the pad of the block would overwrite it
			if last {
				s.err = io.EOF
			}
			if long { // continue in blocks of the usual size
				s.r, s.rest = io.MultiReader(bytes.NewReader(s.rest), s.r), nil
			}
			b.rows = bytes.Count(b.text(), []byte{'\n'})
			s.line += lineEnds(b.text())
			return b, nil
		}
		larger := make([]byte, 2*len(buf))
		copy(larger, buf[:n])
		buf = larger
	}
}

// unread puts back a block that is not the last one.
func (s *blocks) unread(b *block) {
	s.rest = append(bytes.Clone(b.text()), s.rest...)
	s.line = b.line
}

// fill reads until dst is full. It returns io.EOF at the end, even after some bytes.
func (s *blocks) fill(dst []byte) (n int, err error) {
	for n < len(dst) {
		m, err := s.r.Read(dst[n:])
		n += m
		if err != nil {
			return n, err
		}
		if m > 0 {
			s.empty = 0
		} else if s.empty++; s.empty >= maxEmptyReads {
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}

// reader reads blocks. It returns io.EOF after the last.
type reader interface{ read() (*block, error) }

// parser makes batches of blocks. Each goroutine has its own.
type parser interface {
	parse(b *block) (Batch, error)
}

// parsed is a block that a parser works on.
type parsed struct {
	block *block
	batch Batch
	err   error
	done  chan struct{}
}

// parallel parses the blocks of a stream on several goroutines, and yields batches in the order of
// the stream. An error comes with the last.
func parallel(
	ctx context.Context,
	s reader,
	workers int,
	newParser func() parser,
) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		work, queue := make(chan *parsed), make(chan *parsed, workers)
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		for range workers {
			all.Go(func() {
				p := newParser()
				for {
					select {
					case x, ok := <-work:
						if !ok {
							return
						}
						x.batch, x.err = p.parse(x.block)
						x.block = nil
						close(x.done)
					case <-ctx.Done():
						return
					}
				}
			})
		}
		// The caller does not wait for it: a read of a pipe may take for ever.
		go deal(ctx, s, work, queue)
		for {
			var x *parsed
			select {
			case x = <-queue:
			case <-ctx.Done():
				yield(Batch{}, ctx.Err())
				return
			}
			if x == nil {
				return
			}
			select {
			case <-x.done:
			case <-ctx.Done():
				yield(Batch{}, ctx.Err())
				return
			}
			if !yield(x.batch, x.err) || x.err != nil {
				return
			}
		}
	}
}

// deal reads blocks and sends them to parsers. queue receives them in order, and is closed after
// the last.
func deal(ctx context.Context, s reader, work, queue chan *parsed) {
	defer close(work)
	defer close(queue)
	for {
		x := &parsed{done: make(chan struct{})}
		x.block, x.err = s.read()
		if errors.Is(x.err, io.EOF) {
			return
		}
		to := work
		if x.err != nil {
			close(x.done)
			to = nil
		}
		select {
		case queue <- x:
		case <-ctx.Done():
			return
		}
		if to == nil {
			return
		}
		select {
		case to <- x:
		case <-ctx.Done():
			return
		}
	}
}

// lineCutter cuts at line ends.
type lineCutter struct {
	returns  returns
	searched int
}

func (c *lineCutter) next() []mark {
	*c = lineCutter{}
	return nil
}

func (c *lineCutter) drop([]byte) int { return 0 }

func (c *lineCutter) whole(b []byte, last bool) int {
	c.returns.replace(b, c.searched, len(b))
	nl := bytes.LastIndexByte(b[c.searched:], '\n')
	if nl < 0 {
		c.searched = c.returns.at
		return 0
	}
	return c.searched + nl + 1
}
