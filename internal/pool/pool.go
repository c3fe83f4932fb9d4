// Package pool is the file of a persistent index: its format, and its life. What lies
// in its levels is not known here.
//
// A pool is one file of constant size, mapped into memory. It begins with two copies
// of a superblock, a checksummed block of 4 KiB each, in two different pages of 2 MiB;
// a change is written to the older copy, under the next generation, so that a crash
// in the midst of it leaves the newer one. All numbers are offsets into the file, never
// addresses: a pool may be mapped anywhere, and nothing read from it is trusted before
// [Superblock.Check].
//
// # What can go wrong with a file
//
// A store to a mapped page that the file system has no memory for kills the process.
// So all blocks are allocated when the pool is made, where a full file system is an
// error, and again on opening a file with holes, as copies of pools may have.
//
// Two processes in one pool would destroy it: an open pool is locked, for itself or
// among readers, and a list of the open pools refuses a second opening within the
// process, which locks alone do not where they belong to processes. The locks bind
// those who ask for them: somebody who truncates the file of an open pool kills the
// process that has it.
//
// # Persistent memory
//
// A pool on a character device (devdax) has all of its memory, whose size and persistence
// domain sysfs tells. There is no file system, so what is not there cannot be told from
// what has been there before: a pool is made by zeroing both superblocks first and writing
// them last. Its memory writes back what is stored (pm.NewPersistent), unless the domain
// has the caches in it.
//
// # Who copies
//
// The superblock is read into private memory and checked there before anything is
// mapped: changing the file in the meantime changes no decision. [Superblock.Check]
// is the contract: what it has let pass, arithmetic on levels and areas cannot leave
// the pool.
package pool

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
)

// Durability is what outlives what.
type Durability int

// What a pool may be granted.
const (
	None    Durability = iota // nothing outlives the process for sure
	Process                   // what a process has stored outlives it, however it ends
	PMem                      // what it has stored and fenced outlives a power failure
)

var durabilities = enum.Names[Durability]{Type: "gphash.Durability", Names: []string{"none", "process", "pmem"}, Err: op.ErrOptions}

// String names the durability as messages do.
func (d Durability) String() string { return durabilities.String(d) }

// MarshalText is String, or weft.ErrOptions where there is no such value.
func (d Durability) MarshalText() ([]byte, error) { return durabilities.Text(d) }

// UnmarshalText reads a name, in upper or lower case: so flag.TextVar takes it.
func (d *Durability) UnmarshalText(text []byte) error { return durabilities.Read(d, text) }

// Pool is an open pool.
type Pool struct {
	memory *pm.Memory
	file   backing // nil without a file
	grants Durability

	readOnly, wasClean bool
	powerLost          bool
	was                Superblock // that of who had the pool before

	mu     sync.Mutex // of what follows
	found  *Contents  // what Close is to store
	mapped []byte     // nil without a file
	last   Superblock // the one that counts
	kept   block      // what of it this version does not know
	other  error      // why the other copy is not whole
	closed bool
}

// backing is what holds the memory of a pool.
type backing interface {
	sync() error
	close() error // unmaps and unlocks
}

// Format makes a pool of zeroed memory: it writes the first superblock, whose Size
// becomes that of the memory, to both copies. Errors: weft's ErrOptions.
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

// OnMemory is the pool in a memory: it chooses between the copies of the superblock as
// Open does, and writes nothing. Errors are those of Open.
func OnMemory(m *pm.Memory) (*Pool, error) {
	if m.Words()*pm.Word < DataStart {
		return nil, fmt.Errorf("%w: %d bytes, superblocks take %d", op.ErrCorrupt, m.Words()*pm.Word, DataStart)
	}
	var copies [2]Copy
	for i := range copies {
		m.Read(wordOf(i), copies[i].block[:])
	}
	p, err := chosen(&copies, m.Words()*pm.Word)
	if err != nil {
		return nil, err
	}
	p.memory = m
	return p, nil
}

// chosen is a pool of so many bytes that has one of the copies, and no memory yet.
func chosen(copies *[2]Copy, size uint64) (*Pool, error) {
	i, err := choose(copies, size)
	if err != nil {
		return nil, err
	}
	c := &copies[i]
	return &Pool{last: c.Superblock, was: c.Superblock, kept: c.block, wasClean: c.Superblock.Clean, other: copies[1-i].Err}, nil
}

// wordOf is where copy A (0) or B (1) begins.
func wordOf(copy int) uint64 { return uint64(copy) * copyB / pm.Word }

// Memory is the words of the pool. Those of a pool opened for reading must not be
// stored to; none may be touched once the pool is closed.
func (p *Pool) Memory() *pm.Memory { return p.memory }

// Bytes is the mapped file, for registering it with a device; nil without a file, and
// once the pool is closed.
func (p *Pool) Bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mapped
}

// Durability is what has been granted.
func (p *Pool) Durability() Durability { return p.grants }

// ReadOnly reports whether the pool was opened for reading.
func (p *Pool) ReadOnly() bool { return p.readOnly }

// WasClean reports whether the pool was new, or closed by who had it before: if not,
// the levels have to be recovered.
func (p *Pool) WasClean() bool { return p.wasClean }

// Contents returns what Close found in the pool; ok is false if the pool was not closed, or by a
// version of this package that stores nothing.
func (p *Pool) Contents() (c Contents, ok bool) { return p.was.closed() }

// PowerLost reports whether the pool was open when the machine stopped, which [Terms] allowed.
func (p *Pool) PowerLost() bool { return p.powerLost }

// Verified ends PowerLost: what the pool has left has been verified. Until then whoever opens the
// pool next meets the loss again.
func (p *Pool) Verified() error {
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

// Seal has Close store what the pool holds, for [Pool.Contents]. Nobody changes it any more.
func (p *Pool) Seal(c Contents) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = &c
}

// Superblock is a copy of the superblock.
func (p *Pool) Superblock() Superblock {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// OtherCopy is why the copy of the superblock that does not count is not whole: a
// crash in the midst of a Commit, or damage, which cannot be told apart. The next
// Commit writes it.
func (p *Pool) OtherCopy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.other
}

// Commit changes the superblock: a crash leaves the old one or the new one, and with
// the new one all that was stored to the pool before. The identity, the geometry and
// the size stay; the generation is counted here.
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

// store writes a superblock to the copy that does not count, which it then does. Only
// words that differ are written. They need no order among themselves: until the last
// of them is there the checksums are wrong. They must not come before what the
// superblock refers to, nor after the first word of the next one, which goes to the
// copy that this one supersedes: a fence on each side.
func (p *Pool) store(next Superblock) error {
	next.Generation = p.last.Generation + 1
	if next.Clean && p.found != nil {
		next.Contents = *p.found
		next.Contents.Generation = next.Generation
	} else {
		next.Contents = Contents{}
	}
	if err := next.illegal(p.memory.Words() * pm.Word); err != nil {
		return fmt.Errorf("pool: %w: superblock: %w", op.ErrOptions, err)
	}
	block := p.kept
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
	p.last, p.other = next, nil
	return nil
}

// begin marks a pool that has just been opened: it is not clean until it is closed.
func (p *Pool) begin() error {
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
	// The mark reaches the disk before any change does: if the power fails, the
	// pool will not pass for a clean one.
	return p.sync()
}

// Close marks the pool clean and gives the file back; the memory is gone. It returns
// the first error, gives back all the same, and does nothing the second time.
func (p *Pool) Close() error { return p.end(true) }

// Abandon is Close without the mark: what the end of the process would do.
func (p *Pool) Abandon() error { return p.end(false) }

func (p *Pool) end(clean bool) (first error) {
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

// markClean marks the pool once all else is on the disk: a failed write leaves it
// unclean.
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
