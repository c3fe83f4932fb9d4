package spill

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/internal/op"
)

const (
	blockHeader = 32

	// minBlock and maxBlock bound the block size that Create chooses. Direct reads and writes of a
	// network disk (dd on a cloud VM with 2 cores) ran at these MB/s, by block size:
	//
	//	        16 KiB  64 KiB  256 KiB  1 MiB
	//	read       237     743     1600   1400
	//	write      200     653      877    873
	//
	// Through the page cache, blocks of 16 KiB and of 1 MiB are equally fast.
	minBlock = 16 << 10
	maxBlock = 1 << 20
)

// Options are options of [Create]. The zero value is useful.
type Options struct {
	// Memory is the total size of all buffers of the file, in bytes. Each chain that is being
	// written holds one buffer, and so does each Reader. Default: 16 MiB.
	Memory int64

	// Chains is the number of chains and readers that hold buffers at the same time. Memory and
	// Chains determine the size of a block: a power of two between 16 KiB and 1 MiB. Default: 64.
	Chains int

	// BlockSize, if not 0, is the size of a block. It must be a multiple of 8 between 40 and 1 GiB.
	BlockSize int

	// Budget, if set, counts the buffers, and the memory of readers for pages that span blocks.
	Budget *Budget

	// AllowMemory accepts a directory whose files are in memory, as in a tmpfs.
	AllowMemory bool

	// Wrap, if set, replaces the file. Tests use it to inject faults.
	Wrap func(Disk) Disk
}

// Stats are statistics of a File.
type Stats struct {
	Written, Read int64 // bytes of blocks
	Blocks, Peak  int64 // blocks in use now, and the maximum at one time
	BlockSize     int
	FileSize      int64 // bytes, including free blocks
}

// File is a temporary file that holds chains of pages. All methods of a File and its chains are
// safe for concurrent use. Buffers are outside the Go heap, so only Close frees them.
type File struct {
	dir   string
	disk  Disk
	size  int // of a block
	limit int // maximum number of block buffers

	// life is held for reading while a buffer or the disk is in use, and for writing by Close.
	life   sync.RWMutex
	closed bool

	written, read atomic.Int64

	mu      sync.Mutex // protects all fields below
	budget  *Budget
	idle    []*Memory[byte]        // unused block buffers
	buffers map[*Memory[byte]]bool // all memory; true: a block buffer
	held    int                    // number of block buffers
	chains  uint64                 // number of chains so far
	end     uint32                 // number of blocks in the file
	free    []uint32
	peak    int64
}

// Create makes a temporary file in a directory. opts may be nil. If dir is empty, Create uses
// $TMPDIR, or, if that is not set, /var/tmp and then os.TempDir(). On Windows it uses os.TempDir().
//
// Create rejects a directory in memory with weft.ErrOptions, because a file there frees no memory.
func Create(dir string, opts *Options) (*File, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Memory == 0 {
		o.Memory = 16 << 20
	}
	if o.Chains == 0 {
		o.Chains = 64
	}
	if o.Chains < 0 || o.BlockSize == 0 && o.Memory/minBlock < int64(o.Chains) {
		return nil, fmt.Errorf("spill: %w: Memory of %d bytes for %d chains of at least %d",
			op.ErrOptions, o.Memory, o.Chains, minBlock)
	}
	if o.BlockSize == 0 {
		perChain := uint64(o.Memory) / uint64(o.Chains)
		o.BlockSize = min(1<<(bits.Len64(perChain)-1), maxBlock)
	}
	largest := min(o.Memory, 1<<30)
	if o.BlockSize%8 != 0 || o.BlockSize <= blockHeader || int64(o.BlockSize) > largest {
		return nil, fmt.Errorf("spill: %w: blocks of %d bytes in Memory of %d",
			op.ErrOptions, o.BlockSize, o.Memory)
	}
	file, dir, err := openDisk(dir, o.AllowMemory)
	if err != nil {
		return nil, err
	}
	f := &File{
		dir: dir, disk: file, size: o.BlockSize, budget: o.Budget,
		limit:   int(min(o.Memory/int64(o.BlockSize), math.MaxInt32)),
		buffers: make(map[*Memory[byte]]bool),
	}
	if o.Wrap != nil {
		f.disk = o.Wrap(f.disk)
	}
	return f, nil
}

// Dir returns the directory of the file.
func (f *File) Dir() string { return f.dir }

// Stats returns the current statistics.
func (f *File) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Stats{
		Written: f.written.Load(), Read: f.read.Load(),
		Blocks: int64(f.end) - int64(len(f.free)), Peak: f.peak,
		BlockSize: f.size, FileSize: int64(f.end) * int64(f.size),
	}
}

// Close frees the file and all buffers. It waits for calls in progress. Later calls return
// weft.ErrClosed. Pages of Readers must not be read afterwards. Close is idempotent.
func (f *File) Close() error {
	f.life.Lock()
	defer f.life.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	for b := range f.buffers {
		b.Free()
	}
	f.buffers, f.idle, f.free, f.end = nil, nil, nil, 0
	if err := f.disk.Close(); err != nil {
		return fmt.Errorf("spill: close the temporary file in %s: %w", f.dir, err)
	}
	return nil
}

// enter begins a use of the file, which leave ends.
func (f *File) enter() error {
	f.life.RLock()
	if f.closed {
		f.life.RUnlock()
		return fmt.Errorf("spill: the temporary file is %w", op.ErrClosed)
	}
	return nil
}

func (f *File) leave() { f.life.RUnlock() }

// acquire returns a block buffer.
func (f *File) acquire() (*Memory[byte], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.idle); n > 0 {
		b := f.idle[n-1]
		f.idle = f.idle[:n-1]
		return b, nil
	}
	if f.held >= f.limit {
		return nil, fmt.Errorf(
			"spill: memory %w: %d buffers of %d bytes are in use; set Memory higher",
			op.ErrFull, f.held, f.size)
	}
	return f.allocate(f.size, true)
}

// allocate maps memory, which Close frees if discard has not. The caller holds f.mu.
func (f *File) allocate(size int, block bool) (*Memory[byte], error) {
	b, err := Make[byte](f.budget, size)
	if err != nil {
		return nil, err
	}
	f.buffers[b] = block
	if block {
		f.held++
	}
	return b, nil
}

// discard frees memory that allocate returned. The caller holds f.mu.
func (f *File) discard(b *Memory[byte]) {
	if f.buffers[b] {
		f.held--
	}
	delete(f.buffers, b)
	b.Free()
}

// release keeps a buffer for reuse, or returns it to the system.
func (f *File) release(b *Memory[byte], reuse bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if reuse {
		f.idle = append(f.idle, b)
	} else {
		f.discard(b)
	}
}

// Trim returns unused buffers to the system.
func (f *File) Trim() {
	if f.enter() != nil {
		return
	}
	defer f.leave()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.idle {
		f.discard(b)
	}
	f.idle = nil
}

// allocBlock returns the number of a free block, or of a new one at the end of the file.
func (f *File) allocBlock() (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var block uint32
	if n := len(f.free); n > 0 {
		block, f.free = f.free[n-1], f.free[:n-1]
	} else {
		if f.end == math.MaxUint32 || int64(f.end) >= math.MaxInt64/int64(f.size)-1 {
			return 0, fmt.Errorf("spill: the temporary file is %w: %d blocks of %d bytes",
				op.ErrFull, f.end, f.size)
		}
		block = f.end
		f.end++
	}
	f.peak = max(f.peak, int64(f.end)-int64(len(f.free)))
	return block, nil
}

// freeBlocks frees blocks. If no blocks remain in use, it truncates the file.
func (f *File) freeBlocks(blocks []blockRef) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(blocks) - 1; i >= 0; i-- { // in reverse, so that the first is reused next
		f.free = append(f.free, blocks[i].number)
	}
	if f.end == 0 || len(f.free) < int(f.end) {
		return nil
	}
	if err := f.disk.Truncate(0); err != nil {
		return fmt.Errorf("spill: truncate the temporary file in %s: %w", f.dir, err)
	}
	f.free, f.end = nil, 0
	return nil
}

func (f *File) writeBlock(number uint32, b []byte) error {
	offset := int64(number) * int64(f.size)
	n, err := f.disk.WriteAt(b, offset)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("spill: write %d bytes at offset %d of the temporary file in %s, "+
			"after %d bytes written: %w; set TempDir to a directory with more space",
			len(b), offset, f.dir, f.written.Load(), err)
	}
	f.written.Add(int64(n))
	return nil
}

func (f *File) readBlock(number uint32, b []byte) error {
	offset := int64(number) * int64(f.size)
	n, err := f.disk.ReadAt(b, offset)
	if n == len(b) {
		err = nil // io.EOF, at the end of the file
	} else if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	f.read.Add(int64(n))
	if err != nil {
		return fmt.Errorf("spill: read %d bytes at offset %d of the temporary file in %s: %w",
			len(b), offset, f.dir, err)
	}
	return nil
}
