package distinct

import (
	"context"
	"io"
)

const (
	// firstPiece is the size of a stream's first piece in bytes. It is small because most files are
	// small. Pieces grow by the factor pieceGrowth up to Counter.pieceSize.
	firstPiece  = 256 << 10
	pieceGrowth = 4
	// maxEmptyReads is the number of consecutive reads that may return neither bytes nor an error.
	maxEmptyReads = 100
)

// piece is a part of a stream that consists of whole items, or an error.
type piece struct {
	data []byte // pad bytes follow
	err  error  // io.EOF at the end; data is empty if err is set
}

// pieces splits a stream and sends the pieces to the channel full, until the stream or ctx ends.
// The last piece has err set. Memory for pieces comes from the channel empty, to which the receiver
// returns it. With two buffers, one piece is read while the other is counted.
type pieces struct {
	by          Splitter
	size        int // size of a piece, unless an item is larger
	full        chan piece
	empty       chan []byte
	emptyBefore int // consecutive reads that returned nothing
}

func (p *pieces) run(ctx context.Context, r io.Reader) {
	size := min(firstPiece, p.size)
	buf, ok := p.buffer(ctx, nil, size)
	n, searched := 0, 0
	for ok {
		m, err := p.fill(r, buf[n:size])
		n += m
		if err != nil {
			if err == io.EOF && n > 0 {
				ok = p.send(ctx, piece{data: buf[:n]})
			} else {
				p.empty <- buf
			}
			if ok {
				p.send(ctx, piece{err: err})
			}
			return
		}
		end := p.by.whole(buf[:n], searched)
		if end == 0 { // no item ends in the buffer
			searched = n
			size = 2*size + pad
			buf = enlarge(buf[:n], size)
			continue
		}
		rest := buf[end:n]
		size = max(min(pieceGrowth*size, p.size), 2*len(rest))
		var next []byte
		if next, ok = p.buffer(ctx, rest, size); !ok {
			return
		}
		ok = p.send(ctx, piece{data: buf[:end]})
		buf, n, searched = next, len(rest), 0
	}
}

// fill reads until dst is full. Unlike io.ReadFull, it returns io.EOF even if it has read some
// bytes. It returns an error after too many empty reads.
func (p *pieces) fill(r io.Reader, dst []byte) (n int, err error) {
	for n < len(dst) {
		m, err := r.Read(dst[n:])
		n += m
		if err != nil {
			return n, err
		}
		if m > 0 {
			p.emptyBefore = 0
		} else if p.emptyBefore++; p.emptyBefore >= maxEmptyReads {
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}

func (p *pieces) send(ctx context.Context, x piece) bool {
	select {
	case p.full <- x:
		return true
	case <-ctx.Done():
		return false
	}
}

// buffer waits for a buffer, resizes it for size bytes, and copies the slice rest to its start. It
// replaces a buffer that has grown for a very large item.
func (p *pieces) buffer(ctx context.Context, rest []byte, size int) ([]byte, bool) {
	select {
	case b := <-p.empty:
		if cap(b) < size+pad || cap(b) > 4*(p.size+size) {
			b = make([]byte, size+pad)
		}
		b = b[:cap(b)]
		copy(b, rest)
		return b, true
	case <-ctx.Done():
		return nil, false
	}
}

// enlarge returns a new buffer of size bytes that starts with b.
func enlarge(b []byte, size int) []byte {
	larger := make([]byte, size+pad)
	copy(larger, b)
	return larger
}

// Read counts the items of r up to its end, which also ends the last item.
//
// After an error, of r, of storing items or of ctx, the counter must not be used further. When ctx
// ends, Read returns immediately, but a pending call of r.Read may still use r.
func (c *Counter) Read(ctx context.Context, r io.Reader) error {
	if c.err != nil {
		return c.err
	}
	c.err = c.read(ctx, r)
	return c.err
}

func (c *Counter) read(ctx context.Context, r io.Reader) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if c.by == Lines {
		r = newLineReader(r)
	}
	p := pieces{by: c.by, size: c.pieceSize, full: make(chan piece), empty: make(chan []byte, 2)}
	p.empty <- c.spare[0]
	p.empty <- c.spare[1]
	go p.run(ctx, r)
	for {
		select {
		case x := <-p.full:
			if x.err == io.EOF {
				c.spare = [2][]byte{<-p.empty, <-p.empty}
				return nil
			}
			if x.err != nil {
				return x.err
			}
			if err := c.count(ctx, x.data); err != nil {
				return err
			}
			c.bytes += len(x.data)
			if c.opts.Progress != nil {
				c.opts.Progress(len(x.data))
			}
			p.empty <- x.data
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
