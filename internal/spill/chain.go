package spill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"sync"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
)

// Chain is a sequence of pages in a File, such as one partition of a job. Pages are appended at its
// end, and read from its beginning any number of times. While a Reader is open, Append, Flush and
// Free return an error.
type Chain struct {
	file   *File
	number uint64

	mu      sync.Mutex
	err     error // of a write, after which only Free works
	blocks  []blockRef
	buffer  *Memory[byte] // the incomplete block; nil: none
	used    int           // bytes used of buffer
	pages   int64
	payload int64 // bytes of all pages, with their lengths
	readers int
}

type blockRef struct {
	number uint32
	used   uint32 // bytes, including the header
}

var errReading = errors.New("spill: the chain is being read")

// Chain returns a new chain. It takes no memory before its first page.
func (f *File) Chain() *Chain {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chains++
	return &Chain{file: f, number: f.chains}
}

// Len returns the number of pages in the chain.
func (c *Chain) Len() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pages
}

// Size returns the bytes of all pages in the chain, plus 8 bytes per page for its length.
func (c *Chain) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.payload
}

// begin locks the chain for a change, which end completes.
func (c *Chain) begin() error {
	if err := c.file.enter(); err != nil {
		return err
	}
	c.mu.Lock()
	if c.readers > 0 {
		c.end()
		return errReading
	}
	return nil
}

func (c *Chain) end() {
	c.mu.Unlock()
	c.file.leave()
}

// Append appends a copy of a page of any length. If no buffer is available, the error wraps
// weft.ErrFull, and the chain is unchanged. After a disk error, every call but Free returns that
// error.
func (c *Chain) Append(page []byte) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	if c.err != nil {
		return c.err
	}
	if c.buffer == nil {
		b, err := c.file.acquire()
		if err != nil {
			return err
		}
		c.buffer, c.used = b, blockHeader
	}
	var length, zeros [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(page)))
	pad := -len(page) & 7
	for _, part := range [][]byte{length[:], page, zeros[:pad]} {
		if c.err = c.write(part); c.err != nil {
			return c.err
		}
	}
	c.pages++
	c.payload += int64(8 + len(page) + pad)
	return nil
}

// write appends bytes, and writes each block that becomes full to the file.
func (c *Chain) write(b []byte) error {
	for len(b) > 0 {
		n := copy(c.buffer.Slice[c.used:], b)
		c.used += n
		b = b[n:]
		if c.used == c.file.size {
			if err := c.writeBuffer(); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeBuffer writes the used part of the buffer to the file, as a block.
func (c *Chain) writeBuffer() error {
	b := c.buffer.Slice[:c.used]
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(len(b)-blockHeader))
	le.PutUint64(b[8:], c.number)
	le.PutUint64(b[16:], uint64(len(c.blocks)))
	le.PutUint64(b[24:], 0)
	le.PutUint32(b, crc32.Checksum(b[4:], seal.Castagnoli))
	number, err := c.file.allocBlock()
	if err != nil {
		return err
	}
	ref := blockRef{number, uint32(len(b))}
	if err := c.file.writeBlock(number, b); err != nil {
		return errors.Join(err, c.file.freeBlocks([]blockRef{ref}))
	}
	c.blocks = append(c.blocks, ref)
	c.used = blockHeader
	return nil
}

// Flush writes the incomplete block to the file, and returns its buffer to the system. Call it if
// memory is needed and no pages follow soon. Without Flush, readers get that block from memory.
func (c *Chain) Flush() error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	if c.err != nil || c.buffer == nil {
		return c.err
	}
	if c.used > blockHeader {
		if c.err = c.writeBuffer(); c.err != nil {
			return c.err
		}
	}
	c.file.release(c.buffer, false)
	c.buffer = nil
	return nil
}

// Free removes all pages. The file reuses their blocks before it grows. The chain is then empty and
// may be used again, even after a disk error.
func (c *Chain) Free() error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	if c.buffer != nil {
		c.file.release(c.buffer, true)
	}
	blocks := c.blocks
	c.blocks, c.buffer, c.err, c.pages, c.payload = nil, nil, nil, 0, 0
	c.file.mu.Lock()
	c.file.chains++ // earlier blocks belong to another chain
	c.number = c.file.chains
	c.file.mu.Unlock()
	return c.file.freeBlocks(blocks)
}

// Pages iterates over the pages in the order of Append. A page is valid until the next one. An
// error ends the iteration.
func (c *Chain) Pages() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r, err := c.Reader()
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Close()
		for {
			page, err := r.Next()
			if err == io.EOF || !yield(page, err) || err != nil {
				return
			}
		}
	}
}

// Reader reads the pages of a chain. Only one goroutine may use it at a time.
type Reader struct {
	chain     *Chain
	buffer    *Memory[byte] // nil before the first block, and after Close
	unread    []byte        // unread bytes of the block
	next      int           // index of the next block
	remaining int64         // bytes of the chain yet to read
	span      *Memory[byte] // memory for pages that span blocks
	closed    bool
}

// Reader returns a reader at the first page. The chain cannot change until the reader is closed.
func (c *Chain) Reader() (*Reader, error) {
	if err := c.file.enter(); err != nil {
		return nil, err
	}
	defer c.file.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	r := &Reader{chain: c, remaining: c.payload}
	if len(c.blocks) > 0 {
		var err error
		if r.buffer, err = c.file.acquire(); err != nil {
			return nil, err
		}
	}
	c.readers++
	return r, nil
}

// Next returns the next page, or io.EOF after the last one. The page is valid until the next call,
// and its address is a multiple of 8. If the page is damaged, the error wraps weft.ErrFormat. After
// any error the reader returns no more pages.
func (r *Reader) Next() (page []byte, err error) {
	if err := r.chain.file.enter(); err != nil {
		return nil, err
	}
	defer r.chain.file.leave()
	if r.closed {
		return nil, fmt.Errorf("spill: the reader is %w", op.ErrClosed)
	}
	if r.remaining == 0 {
		return nil, io.EOF
	}
	if page, err = r.page(); err != nil {
		r.remaining, r.unread = 0, nil
		return nil, errors.Join(err, r.close())
	}
	return page, nil
}

// page reads the length of a page, and its bytes.
func (r *Reader) page() ([]byte, error) {
	if len(r.unread) == 0 {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	n := binary.LittleEndian.Uint64(r.unread)
	if n > uint64(r.remaining-8) || int64((n+7)&^7) > r.remaining-8 {
		return nil, fmt.Errorf("spill: %w: a page of %d bytes in a chain that has %d more",
			op.ErrFormat, n, r.remaining-8)
	}
	r.unread = r.unread[8:]
	padded := int((n + 7) &^ 7)
	r.remaining -= int64(8 + padded)
	if padded <= len(r.unread) {
		page := r.unread[:n:n]
		r.unread = r.unread[padded:]
		return page, nil
	}
	if err := r.growSpan(padded); err != nil {
		return nil, err
	}
	to := r.span.Slice[:padded]
	for len(to) > 0 {
		if len(r.unread) == 0 {
			if err := r.fill(); err != nil {
				return nil, err
			}
		}
		k := copy(to, r.unread)
		to, r.unread = to[k:], r.unread[k:]
	}
	return r.span.Slice[:n:n], nil
}

// growSpan allocates memory for a page that spans blocks.
func (r *Reader) growSpan(n int) error {
	f := r.chain.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.span != nil && len(r.span.Slice) >= n {
		return nil
	}
	if r.span != nil {
		f.discard(r.span)
	}
	var err error
	r.span, err = f.allocate(n, false)
	return err
}

// fill reads the next block from the file, or the incomplete block from the chain's buffer.
func (r *Reader) fill() error {
	c := r.chain
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.next == len(c.blocks) && c.buffer != nil {
		r.unread = c.buffer.Slice[blockHeader:c.used]
		r.next++
	} else {
		if r.next >= len(c.blocks) {
			return fmt.Errorf("spill: %w: a chain ends within a page", op.ErrFormat)
		}
		ref := c.blocks[r.next]
		b := r.buffer.Slice[:ref.used]
		if err := c.file.readBlock(ref.number, b); err != nil {
			return err
		}
		if err := c.checkBlock(b, r.next, int64(ref.number)*int64(c.file.size)); err != nil {
			return err
		}
		r.unread = b[blockHeader:]
		r.next++
	}
	if len(r.unread) == 0 {
		return fmt.Errorf("spill: %w: a chain ends within a page", op.ErrFormat)
	}
	return nil
}

// checkBlock returns an error if a block is damaged, belongs to another chain, or has a wrong
// index.
func (c *Chain) checkBlock(b []byte, at int, offset int64) error {
	le := binary.LittleEndian
	bad := func(format string, args ...any) error {
		return fmt.Errorf("spill: %w: the block at offset %d of the temporary file in %s: %s",
			op.ErrFormat, offset, c.file.dir, fmt.Sprintf(format, args...))
	}
	if sum, want := crc32.Checksum(b[4:], seal.Castagnoli), le.Uint32(b); sum != want {
		return bad("its CRC is %08x, not %08x", sum, want)
	}
	if number, k := le.Uint64(b[8:]), le.Uint64(b[16:]); number != c.number || k != uint64(at) {
		return bad("it is block %d of chain %d, not block %d of chain %d", k, number, at, c.number)
	}
	if n := le.Uint32(b[4:]); int(n) != len(b)-blockHeader {
		return bad("it has %d bytes, not %d", n, len(b)-blockHeader)
	}
	return nil
}

// Close ends reading. Close is idempotent.
func (r *Reader) Close() error {
	if r.chain.file.enter() != nil {
		return nil // Close of the file has released everything
	}
	defer r.chain.file.leave()
	return r.close()
}

func (r *Reader) close() error {
	if r.closed {
		return nil
	}
	r.closed, r.unread = true, nil
	c := r.chain
	if r.buffer != nil {
		c.file.release(r.buffer, true)
	}
	if r.span != nil {
		c.file.release(r.span, false)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers--
	return nil
}
