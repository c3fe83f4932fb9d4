package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
)

const (
	blockSize  = 8 << 20
	maxWorkers = 16
	// firstBlock is what types are found in.
	firstBlock = 1 << 20
	// maxRow bounds the text of a row in bytes: a quote that is not closed makes one of the rest of a file.
	maxRow = 256 << 20
	// maxEmptyReads is how often a reader may return nothing and no error.
	maxEmptyReads = 100
)

// block is whole rows of a text.
type block struct {
	buf  []byte // the text, between pad bytes on both sides
	line int    // number of the first line
	rows int    // there are no more
}

// text is that of a block.
func (b *block) text() []byte { return b.buf[pad : len(b.buf)-pad] }

// lineOf is the number of the line in which an offset of the buffer lies.
func (b *block) lineOf(at int) int {
	return b.line + bytes.Count(b.buf[pad:at], []byte{'\n'})
}

// cutter finds ends of rows.
type cutter interface {
	// whole is how many bytes at the front of b are whole rows. b begins with a row, and is longer each
	// time until some are.
	whole(b []byte) int
	// next begins anew.
	next()
}

// blocks cuts a stream to blocks.
type blocks struct {
	r     io.Reader
	cut   cutter
	size  int
	rest  []byte
	line  int
	empty int // reads in a row that returned nothing
	err   error
}

// read is the next block; io.EOF behind the last.
func (s *blocks) read() (*block, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.cut.next()
	buf := make([]byte, pad+max(s.size, 2*len(s.rest))+1+pad)
	n := pad + copy(buf[pad:], s.rest)
	for {
		m, err := s.fill(buf[n : len(buf)-1-pad])
		n += m
		end := pad
		if err == io.EOF {
			if n == pad {
				s.err = io.EOF
				return nil, s.err
			}
			if buf[n-1] != '\n' {
				buf[n] = '\n'
				n++
			}
			end, s.err = n, io.EOF
		} else if err != nil {
			s.err = err
			return nil, err
		} else {
			end += s.cut.whole(buf[pad:n])
		}
		if end > pad {
			s.rest = buf[end:n:n]
			b := &block{buf: buf[:end+pad], line: s.line}
			if len(s.rest) > 0 { // the pad would be the next block's text
				s.rest = bytes.Clone(s.rest)
			}
			b.rows = bytes.Count(b.text(), []byte{'\n'})
			s.line += b.rows
			return b, nil
		}
		if n-pad > maxRow {
			s.err = fmt.Errorf("line %d: a row of more than %d MiB; is a quote not closed?", s.line, maxRow>>20)
			return nil, s.err
		}
		larger := make([]byte, 2*len(buf))
		copy(larger, buf[:n])
		buf = larger
	}
}

// fill reads until dst is full. It ends with io.EOF however much there was.
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

// reader reads blocks; io.EOF behind the last.
type reader interface{ read() (*block, error) }

// parser makes batches of blocks. Each goroutine has its own.
type parser interface {
	parse(b *block) (Batch, error)
}

// parsed is a block that somebody takes apart.
type parsed struct {
	block *block
	batch Batch
	err   error
	done  chan struct{}
}

// parallel takes the blocks of a stream apart, on several goroutines, and yields batches in
// the order of the stream. An error comes with the last.
func parallel(ctx context.Context, s reader, workers int, newParser func() parser) iter.Seq2[Batch, error] {
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
		// It is not waited for: a read of a pipe may take for ever.
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

// deal reads blocks and deals them out; queue has them in order, and is closed behind the last.
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
type lineCutter struct{ searched int }

func (c *lineCutter) next() { c.searched = 0 }

func (c *lineCutter) whole(b []byte) int {
	nl := bytes.LastIndexByte(b[c.searched:], '\n')
	if nl < 0 {
		c.searched = len(b)
		return 0
	}
	return c.searched + nl + 1
}
