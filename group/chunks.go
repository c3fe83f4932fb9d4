package group

import (
	"runtime"
	"unsafe"

	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hostmem"
)

// chunkWords is the size of a chunk in 64-bit words: 1 KiB. A core writes to a chunk of each part
// in turn. Processors recognize some 64 streams of writes. A core with more streams would wait for
// each line, so all lines of a new chunk are prefetched. The chunks in use fit a second-level
// cache.
const (
	chunkWords, chunkLines = 128, 16
	prefetchChunks         = 4
)

// lines holds the offsets of a chunk's cache lines, in words.
var lines = [chunkLines]uint32{0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120}

// chunks holds rows that are distributed to parts. It has a list of chunks for each part of each
// share. A row is its code, its number, and the values that move with it.
type chunks struct {
	width        int // words per row
	rowsPerChunk int
	words        int // words per chunk, a power of two

	parts int
	// By share and part: the offset of the next row, the first chunk, and the number of chunks.
	// Rows end where their chunk ends, so next is a multiple of words only if the chunk is full.
	next, first, count []uint32
	nextFree           []uint32 // by share: its next free chunk
	nextChunk          []uint32 // by chunk: the next chunk of its list

	mem  []uint64
	pool *hostmem.Pool // allocator of mem
}

// prepare makes empty lists, and memory for at most rows rows in each share. Chunks are small if
// parts have few rows.
func (c *chunks) prepare(shares, parts, rows, width int) {
	c.width, c.parts, c.words = width, parts, chunkWords
	for c.words >= 4*width && c.words/2 >= rows/parts*width {
		c.words /= 2
	}
	c.rowsPerChunk = c.words / width
	lists := shares * parts
	c.next, c.first, c.count = resize(&c.next, lists), resize(&c.first, lists), resize(&c.count, lists)
	clear(c.count)
	clear(c.next)
	chunksPerShare := (rows+c.rowsPerChunk-1)/c.rowsPerChunk + min(parts, rows)
	c.nextFree, c.nextChunk = resize(&c.nextFree, shares), resize(&c.nextChunk, shares*chunksPerShare)
	for i := range c.nextFree {
		c.nextFree[i] = uint32(i * chunksPerShare)
	}
	c.allocate(shares * chunksPerShare * c.words)
}

// allocate makes mem hold at least the given number of words. Unwritten pages take no memory.
func (c *chunks) allocate(words int) {
	if words <= len(c.mem) {
		return
	}
	if c.pool == nil {
		c.pool = new(hostmem.Pool)
		runtime.AddCleanup(c, (*hostmem.Pool).Free, c.pool) // if release is not called
	}
	c.release()
	c.mem = hostmem.Slice[uint64](c.pool, words)
}

func (c *chunks) release() {
	c.pool.Free()
	c.mem = nil
}

// reserveRows reserves a row per code in the lists of a share, and stores their offsets in places.
func (c *chunks) reserveRows(share int, codes []uint64, shift uint, places []uint32) {
	next, mask, width := c.next[share*c.parts:][:c.parts], uint32(c.words-1), uint32(c.width)
	places = places[:len(codes)]
	for i, code := range codes {
		p := code >> 1 >> ((shift - 1) & 63) // shift may be 64
		at := next[p]
		if at&mask == 0 {
			at = c.extend(share, int(p))
		}
		next[p] = at + width
		places[i] = at
	}
}

// extend adds a chunk to the list of a part, and returns the offset of the chunk's first row.
func (c *chunks) extend(share, part int) (at uint32) {
	i, list := c.nextFree[share], share*c.parts+part
	c.nextFree[share]++
	if c.count[list] == 0 {
		c.first[list] = i
	} else {
		c.nextChunk[(c.next[list]-1)/uint32(c.words)] = i
	}
	c.count[list]++
	c.prefetch(i)
	return i*uint32(c.words) + uint32(c.rowOffset())
}

// rowOffset returns the offset of the first row in a chunk.
func (c *chunks) rowOffset() int { return c.words - c.rowsPerChunk*c.width }

func (c *chunks) prefetch(i uint32) {
	cpu.Prefetch(unsafe.Pointer(&c.mem[int(i)*c.words]), lines[:c.words/8], 3)
}

// rows returns the number of rows of a share that belong to a part.
func (c *chunks) rows(share, part int) int {
	list := share*c.parts + part
	return int(c.count[list])*c.rowsPerChunk - int(-c.next[list]&uint32(c.words-1))/c.width
}

// cursor is a position in a list of chunks.
type cursor struct {
	next uint32 // next chunk
	left int    // rows left
}

// newCursor returns a cursor at the first row of a share that belongs to a part.
func (c *chunks) newCursor(share, part int) cursor {
	return cursor{c.first[share*c.parts+part], c.rows(share, part)}
}

// readBlock moves the next rows of a list from cursor r on, at most blockRows, to block k. It
// returns their number.
func (c *chunks) readBlock(r *cursor, k *block) (n int) {
	var indexes [blockRows]uint32
	count := min((r.left+c.rowsPerChunk-1)/c.rowsPerChunk, max(blockRows/c.rowsPerChunk, 1))
	for i := range indexes[:count] {
		indexes[i] = r.next
		r.next = c.nextChunk[r.next]
	}
	for i := range min(prefetchChunks, count) {
		c.prefetch(indexes[i])
	}
	for i, chunk := range indexes[:count] {
		if i+prefetchChunks < count {
			c.prefetch(indexes[i+prefetchChunks])
		}
		rows := min(c.rowsPerChunk, r.left)
		c.unpack(k, n, c.mem[int(chunk)*c.words+c.rowOffset():][:rows*c.width])
		n, r.left = n+rows, r.left-rows
	}
	return n
}

// unpack moves the rows of a chunk to a block, from row n on.
func (c *chunks) unpack(k *block, n int, mem []uint64) {
	width, rows := c.width, len(mem)/c.width
	codes, numbers := k.codes[n:][:rows], k.numbers[n:][:rows]
	for i, at := 0, 0; i < rows; i, at = i+1, at+width {
		row := mem[at : at+2]
		codes[i], numbers[i] = row[0], uint32(row[1])
	}
	for j := range width - 2 {
		words := k.moved[j][n:][:rows]
		for i, at := 0, 2+j; i < rows; i, at = i+1, at+width {
			words[i] = mem[at]
		}
	}
}
