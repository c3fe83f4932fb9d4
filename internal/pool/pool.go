// Package pool is the file of a persistent index: its format and its life cycle. The package does
// not interpret the contents of the levels.
//
// A pool is one file of constant size, mapped into memory. It begins with two copies of a
// superblock, a checksummed block of 4 KiB each, in two different pages of 2 MiB. A change goes to
// the older copy, under the next generation, so a crash in the midst of it leaves the newer one.
// All numbers are offsets into the file, never addresses. A pool may be mapped anywhere, and
// nothing read from it is trusted before [Superblock.Check].
//
// # What can go wrong with a file
//
// A store to a mapped page that the file system has no memory for kills the process. So all blocks
// are allocated when the pool is made, where a full file system is an error. They are allocated
// again on opening a file with holes, which copies of pools may have.
//
// Two processes in one pool would destroy it. An open pool is therefore locked, exclusively or
// shared among readers. Within the process a list of open pools refuses a second opening, because
// locks that belong to processes do not. The locks are advisory: truncating the file of an open
// pool kills the process that has it open.
//
// # Persistent memory
//
// A pool on a character device (devdax) takes all of its memory. sysfs reports its size and
// persistence domain. Without a file system, nothing distinguishes old contents from memory that
// was never written. So a pool is made by zeroing both superblocks first and writing them last. Its
// memory writes back what is stored (pm.NewPersistent), unless the domain includes the caches.
//
// # Checking a private copy
//
// The superblock is read into private memory and checked there before anything is mapped, so a
// concurrent change of the file changes no decision. [Superblock.Check] is the contract: after it,
// arithmetic on levels and areas cannot leave the pool.
package pool

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
)

// Durability is the kind of failure that stores survive.
type Durability int

// Durabilities of a pool.
const (
	None    Durability = iota // nothing is guaranteed to outlive the process
	Process                   // stores outlive the process, however it ends
	PMem                      // stores that were fenced survive a power failure
)

var durabilities = enum.Names[Durability]{Type: "gphash.Durability", Names: []string{"none", "process", "pmem"}, Err: op.ErrOptions}

// String returns the name used in messages.
func (d Durability) String() string { return durabilities.String(d) }

// MarshalText returns String, or weft.ErrOptions for an invalid value.
func (d Durability) MarshalText() ([]byte, error) { return durabilities.Text(d) }

// UnmarshalText parses a name in upper or lower case, so flag.TextVar accepts it.
func (d *Durability) UnmarshalText(text []byte) error { return durabilities.Read(d, text) }

// Pool is an open pool.
type Pool struct {
	memory     *pm.Memory
	file       storage // nil without a file
	durability Durability

	readOnly, wasClean bool
	powerLost          bool
	initial            Superblock // as found when the pool was opened

	mu       sync.Mutex // guards the fields below
	contents *Contents  // contents for Close to store
	mapped   []byte     // nil without a file
	last     Superblock // the current one
	stored   block      // its block, with fields unknown to this version
	staleErr error      // why the other copy is not whole
	closed   bool
}

// storage holds the memory of a pool.
type storage interface {
	sync() error
	close() error // unmaps and unlocks
}

// Format makes a pool of zeroed memory. It writes the first superblock to both copies, with Size
// set to that of the memory. Errors: weft's ErrOptions.
func Format(m *pm.Memory, first *Superblock) (*Pool, error) {
	p := &Pool{memory: m, last: *first, wasClean: true}
	p.last.Size, p.last.Clean, p.last.UncleanOpens, p.last.Generation = m.Words()*pm.Word, false, 0, 0
	p.last.Boot = Boot()
	for range 2 {
		if err := p.store(p.last); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// OpenMemory returns the pool in a memory. It chooses between the copies of the superblock as Open
// does, and writes nothing. Errors are those of Open.
func OpenMemory(m *pm.Memory) (*Pool, error) {
	if m.Words()*pm.Word < DataStart {
		return nil, fmt.Errorf("%w: %d bytes, superblocks take %d", op.ErrCorrupt, m.Words()*pm.Word, DataStart)
	}
	var copies [2]Copy
	for i := range copies {
		m.Read(wordOf(i), copies[i].block[:])
	}
	p, err := poolOf(&copies, m.Words()*pm.Word)
	if err != nil {
		return nil, err
	}
	p.memory = m
	return p, nil
}

// poolOf returns a pool of size bytes with the current copy, and without memory yet.
func poolOf(copies *[2]Copy, size uint64) (*Pool, error) {
	i, err := chooseCopy(copies, size)
	if err != nil {
		return nil, err
	}
	c := &copies[i]
	return &Pool{last: c.Superblock, initial: c.Superblock, stored: c.block, wasClean: c.Superblock.Clean, staleErr: copies[1-i].Err}, nil
}

// wordOf returns the first word of copy A (0) or B (1).
func wordOf(copy int) uint64 { return uint64(copy) * copyB / pm.Word }

// Memory returns the words of the pool. Callers must not store to the words of a pool opened for
// reading, nor touch any words after Close.
func (p *Pool) Memory() *pm.Memory { return p.memory }

// Bytes returns the mapped file, for registering it with a device. It is nil without a file and
// after Close.
func (p *Pool) Bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mapped
}

// Durability returns the durability that has been granted.
func (p *Pool) Durability() Durability { return p.durability }

// ReadOnly reports whether the pool was opened for reading.
func (p *Pool) ReadOnly() bool { return p.readOnly }

// WasClean reports whether the pool was new or had been closed. If not, its levels must be
// recovered.
func (p *Pool) WasClean() bool { return p.wasClean }

// Contents returns what the last Close stored about the pool. ok is false if the pool was not
// closed, or was closed by a version of this package that stores nothing.
func (p *Pool) Contents() (c Contents, ok bool) { return p.initial.contentsAtClose() }

// PowerLost reports whether the pool was open when the machine stopped, which [Requirements]
// allowed.
func (p *Pool) PowerLost() bool { return p.powerLost }

// ClearPowerLost ends PowerLost, once the caller has verified the contents of the pool. Without it,
// the next Open fails with the loss again.
func (p *Pool) ClearPowerLost() error {
	if !p.powerLost {
		return nil
	}
	if err := p.sync(); err != nil {
		return err
	}
	if err := p.Commit(func(s *Superblock) { s.Boot = Boot() }); err != nil {
		return err
	}
	p.powerLost = false
	return p.sync()
}

// SetContents makes Close store c, for [Pool.Contents]. The caller must not change the pool
// afterwards.
func (p *Pool) SetContents(c Contents) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.contents = &c
}

// Superblock returns a copy of the superblock.
func (p *Pool) Superblock() Superblock {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// StaleCopyErr returns why the older copy of the superblock is not whole. A crash in the midst of a
// Commit and damage look the same. The next Commit overwrites that copy.
func (p *Pool) StaleCopyErr() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.staleErr
}

// Commit changes the superblock. A crash leaves the old one or the new one, and with the new one
// everything stored to the pool before. Identity, geometry and size cannot change; Commit sets the
// generation.
//
// The older copy still stands in for a damaged newer one. Where that must not happen,
// because what it refers to is about to be used for something else, commit twice.
//
// Errors, with nothing changed: weft's ErrOptions if the superblock would be illegal,
// [ErrReadOnly], and weft's ErrClosed.
func (p *Pool) Commit(change func(*Superblock)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return fmt.Errorf("pool: Commit: %w", op.ErrClosed)
	case p.readOnly:
		return fmt.Errorf("pool: Commit: %w", ErrReadOnly)
	}
	next := p.last
	change(&next)
	if next.Geometry != p.last.Geometry || next.UUID != p.last.UUID || next.Size != p.last.Size || !next.Created.Equal(p.last.Created) {
		return fmt.Errorf("pool: Commit: %w: geometry, identity or size of a pool that exists", op.ErrOptions)
	}
	return p.store(next)
}

// store writes a superblock to the older copy, which becomes the current one. It writes only the
// words that differ. These need no order among themselves, because the checksums are wrong until
// the last word is there. A fence before the words orders them after what the superblock refers to.
// A fence after them orders them before the next superblock, which goes to the copy that this one
// supersedes.
func (p *Pool) store(next Superblock) error {
	next.Generation = p.last.Generation + 1
	if next.Clean && p.contents != nil {
		next.Contents = *p.contents
		next.Contents.Generation = next.Generation
	} else {
		next.Contents = Contents{}
	}
	if err := next.validate(p.memory.Words() * pm.Word); err != nil {
		return fmt.Errorf("pool: %w: superblock: %w", op.ErrOptions, err)
	}
	block := p.stored
	block.encode(&next)
	p.memory.Fence()
	to := wordOf(int(1 - next.Generation%2))
	for at := 0; at < blockSize; at += pm.Word {
		word := binary.NativeEndian.Uint64(block[at:])
		if i := to + uint64(at/pm.Word); p.memory.Load(i) != word {
			p.memory.Store(i, word)
		}
	}
	p.memory.Fence()
	p.last, p.staleErr = next, nil
	return nil
}

// markUnclean marks a newly opened pool as unclean, until it is closed.
func (p *Pool) markUnclean() error {
	if err := p.Commit(func(s *Superblock) {
		if !s.Clean {
			s.UncleanOpens++
		}
		s.Clean = false
		if !p.powerLost {
			s.Boot = Boot()
		}
	}); err != nil {
		return err
	}
	// The mark reaches the disk before any change. After a power failure the pool does not look
	// clean.
	return p.sync()
}

// Close marks the pool clean, unmaps the memory and closes the file. It returns the first error but
// closes the file in any case. A second Close does nothing.
func (p *Pool) Close() error { return p.finish(true) }

// Abandon closes the pool without the mark, as the end of the process would.
func (p *Pool) Abandon() error { return p.finish(false) }

func (p *Pool) finish(clean bool) (first error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	if clean && !p.readOnly {
		first = p.markClean()
	}
	if p.file == nil {
		return first
	}
	p.mapped = nil
	if err := p.file.close(); first == nil && err != nil {
		first = fmt.Errorf("pool: Close: %w", err)
	}
	return first
}

// markClean marks the pool after everything else is on the disk. A failed write leaves it unclean.
func (p *Pool) markClean() error {
	if err := p.sync(); err != nil {
		return err
	}
	next := p.last
	next.Clean = true
	if err := p.store(next); err != nil {
		return err
	}
	return p.sync()
}

func (p *Pool) sync() error {
	if p.file == nil {
		return nil
	}
	if err := p.file.sync(); err != nil {
		return fmt.Errorf("pool: writing to the disk: %w", err)
	}
	return nil
}
