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
	// firstBlock is the size of the block that determines the types of columns.
	firstBlock = 1 << 20
	// maxRow bounds the bytes of a row, because a missing quote can turn the rest of a file into
	// one row.
	maxRow = 256 << 20
	// maxEmptyReads is the number of consecutive reads that may return neither bytes nor an error.
	maxEmptyReads = 100
)

// mark is a part of a block that a cutter reports: text[lo:hi] is a row, or a bad row.
type mark struct {
	lo, hi int
	bad    error // nil if the row is good
}

// block is a sequence of whole rows of text.
type block struct {
	buf  []byte // text with pad bytes on both sides
	line int    // number of the first line in the file
	rows int    // upper bound on the rows, unless marks are rows
	last bool   // the text ends here; \n was added
	// marks ascend. For CSV they are bad rows. For JSON that is not one object per line, they are
	// all rows.
	marks []mark

	// lineOf has found this number of line ends (ends) before this offset of buf (counted).
	counted, ends int
}

func (b *block) text() []byte { return b.buf[pad : len(b.buf)-pad] }

// lineOf returns the number of the line that begins at an offset of buf. For ascending offsets, the
// total time is linear in the size of the block.
func (b *block) lineOf(at int) int {
	if at < b.counted || b.counted == 0 {
		b.counted, b.ends = pad, 0
	}
	b.ends += lineEnds(b.buf[b.counted:at])
	b.counted = at
	return b.line + b.ends
}

// lines returns the number of lines in a row, buf[at:end].
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

// lineEnds counts line ends: \n, \r\n and \r.
func lineEnds(b []byte) int {
	n := bytes.Count(b, []byte{'\n'})
	if cr := bytes.Count(b, []byte{'\r'}); cr > 0 {
		n += cr - bytes.Count(b, []byte("\r\n"))
	}
	return n
}

// lineEnd returns the offset after the first line end in b[from:], or -1 if there is none. A \r in
// the last byte does not count, because a \n may follow.
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

// returns replaces each \r that is a line end by itself with \n. It has replaced all of them in
// b[from:at].
type returns struct{ from, at int }

// replace replaces each \r in b[from:to] that no \n follows. It keeps a \r at the end of b, because
// a \n may follow.
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

// loneReturn returns the offset of the first \r in b[at:] that no \n follows, or len(b).
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
		// Set the high bit of each byte that differs.
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

// truncate makes the range end at or before an offset.
func (r *returns) truncate(to int) {
	if to < r.from {
		r.from, r.at = to, to
	}
}

// cutter finds the ends of rows. It also replaces each \r that ends a row by itself with \n.
type cutter interface {
	// whole returns the length of the whole rows at the start of b, which begins with a row. If
	// last is set, all rows are whole, and b ends with \n. If no row is whole, the caller calls
	// again with a longer b.
	whole(b []byte, last bool) int
	// drop marks the unfinished row at the start of b as too long. It returns the length of the
	// row's first line, or 0 if the row cannot be skipped.
	drop(b []byte) int
	// next returns the marks in the whole rows, and resets the cutter for the text that follows
	// them.
	next() []mark
}

// blocks splits a stream into blocks.
type blocks struct {
	file   string
	r      io.Reader
	cut    cutter
	size   int
	maxRow int
	rest   []byte
	line   int
	empty  int // consecutive reads that returned nothing
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
		case last: // adds an empty line if the last line has its end
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
			s.rest = bytes.Clone(buf[pad+end : n]) // the pad bytes of the block would overwrite it
			if last {
				s.err = io.EOF
			}
			if long { // return to blocks of the usual size
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

// unread returns a block to the stream. It must not be the last block.
func (s *blocks) unread(b *block) {
	s.rest = append(bytes.Clone(b.text()), s.rest...)
	s.line = b.line
}

// fill reads until dst is full. At the end of the stream it returns io.EOF, even if it has read
// some bytes.
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

// reader returns the blocks of a file, and then io.EOF.
type reader interface{ read() (*block, error) }

// parser converts blocks to batches. Each goroutine has its own parser.
type parser interface {
	parse(b *block) (Batch, error)
}

type parsed struct {
	block *block
	batch Batch
	err   error
	done  chan struct{}
}

// parallel parses blocks on several goroutines. It yields the batches in the order of the blocks.
// An error comes with the last batch.
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
		// The caller does not wait for deal, because it may block forever in a read from a pipe.
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

// deal reads blocks and sends them to the parsers through work. It also sends them to queue, in
// their order.
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

// lineCutter cuts text after a line end.
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
