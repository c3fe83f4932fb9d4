// Package pool implements the file of a persistent index: its format, and how it is created, opened
// and closed. The package does not interpret the contents of the levels.
//
// A pool is one file of constant size, mapped into memory. It begins with two copies of a
// superblock, each a checksummed block of 4 KiB in a separate page of 2 MiB. A change overwrites
// the older copy with the next generation, so a crash during the change leaves the other copy
// intact. All numbers are offsets into the file, never addresses, so a pool may be mapped anywhere.
// Callers use numbers from the file only after [Superblock.Check].
//
// # What can go wrong with a file
//
// If the file system has no memory for a mapped page, a store to the page kills the process. So all
// blocks are allocated when the pool is created, where a full file system causes an error. Copies
// of pools may have holes. When such a file is opened, the missing blocks are allocated.
//
// Two processes that change one pool would destroy it. So an open pool is locked, exclusively or
// shared among readers. Locks that belong to processes do not prevent a second opening in one
// process, so the process also keeps a list of open pools. The locks are advisory: truncating the
// file of an open pool kills the process that has it open.
//
// # Persistent memory
//
// A pool on a character device (devdax) takes the whole device. sysfs reports the size and the
// persistence domain of the device. Without a file system, old contents look like memory that was
// never written. So creating a pool zeroes both superblocks first and writes them last. Stores are
// written back from the caches (pm.NewPersistent), unless the domain includes the caches.
//
// # Checking a private copy
//
// Open reads the superblock into private memory and checks it there before it maps the file. So a
// concurrent change of the file does not affect the result. After [Superblock.Check], arithmetic on
// levels and areas cannot leave the pool.
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
	None    Durability = iota // stores may be lost at the end of the process
	Process                   // stores survive the process, however it ends
	PMem                      // fenced stores survive a power failure
)

var durabilities = enum.Names[Durability]{Type: "gphash.Durability", Names: []string{"none", "process", "pmem"}, Err: op.ErrOptions}

// String returns the name of the durability for messages.
func (d Durability) String() string { return durabilities.String(d) }

// MarshalText returns the name of the durability, or weft.ErrOptions for an invalid value.
func (d Durability) MarshalText() ([]byte, error) { return durabilities.Text(d) }

// UnmarshalText parses a name in upper or lower case, so that flag.TextVar accepts a Durability.
func (d *Durability) UnmarshalText(text []byte) error { return durabilities.Read(d, text) }

// Pool is an open pool.
type Pool struct {
	memory     *pm.Memory
	file       storage // nil if the pool has no file
	durability Durability

	readOnly, wasClean bool
	powerLost          bool
	initial            Superblock // superblock when the pool was opened

	mu       sync.Mutex // guards the fields below
	contents *Contents  // contents that Close stores
	mapped   []byte     // the mapped file; nil if the pool has no file
	last     Superblock // current superblock
	stored   block      // block of the current superblock, including fields unknown to this version
	staleErr error      // why the other copy of the superblock is not whole
	closed   bool
}

// storage is the file of a pool.
type storage interface {
	sync() error
	close() error // unmaps, unlocks and closes
}

// Format creates a pool in zeroed memory. It writes the first superblock to both copies and sets
// Size to the size of the memory. It returns weft's ErrOptions if the superblock is illegal.
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

// OpenMemory opens the pool in m and writes nothing. It chooses the current copy of the superblock.
// It returns [ErrVersion], weft's ErrFormat or ErrCorrupt in the same cases as [Open].
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

// poolOf returns a pool of size bytes with the current copy of the superblock. The pool has no
// memory yet.
func poolOf(copies *[2]Copy, size uint64) (*Pool, error) {
	i, err := chooseCopy(copies, size)
	if err != nil {
		return nil, err
	}
	c := &copies[i]
	return &Pool{last: c.Superblock, initial: c.Superblock, stored: c.block, wasClean: c.Superblock.Clean, staleErr: copies[1-i].Err}, nil
}

func wordOf(copy int) uint64 { return uint64(copy) * copyB / pm.Word }

// Memory returns the words of the pool. Callers must not store to a pool opened for reading, and
// must not use the memory after Close.
func (p *Pool) Memory() *pm.Memory { return p.memory }

// Bytes returns the mapped file, so that the caller can register it with a device. It returns nil
// if the pool has no file or is closed.
func (p *Pool) Bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mapped
}

// Durability returns the durability that the pool provides.
func (p *Pool) Durability() Durability { return p.durability }

// ReadOnly reports whether the pool was opened for reading.
func (p *Pool) ReadOnly() bool { return p.readOnly }

// WasClean reports whether the pool was new, or had been closed by its last writer, when it was
// opened. Otherwise its levels must be recovered.
func (p *Pool) WasClean() bool { return p.wasClean }

// Contents returns the contents that the last Close stored. ok is false if the pool was not closed,
// or was closed by a version of this package that stores none.
func (p *Pool) Contents() (c Contents, ok bool) { return p.initial.contentsAtClose() }

// PowerLost reports whether the pool was open when the machine stopped. Open returns such a pool
// only with Requirements.Salvage.
func (p *Pool) PowerLost() bool { return p.powerLost }

// ClearPowerLost removes the mark of a power loss, so that PowerLost and later openings no longer
// report it. Call it after verifying the contents of the pool. Without this call, the next Open
// returns ErrPowerLost again.
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

// SetContents sets the contents that Close stores for [Pool.Contents]. The caller must not change
// the pool afterwards.
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

// StaleCopyErr returns why the older copy of the superblock is not whole. The cause may be damage
// or a crash during a Commit. The next Commit overwrites that copy.
func (p *Pool) StaleCopyErr() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.staleErr
}

// Commit changes the superblock. After a crash, the pool has the old superblock or the new one. If
// it has the new one, it also has everything that was stored before the Commit. Identity, geometry
// and size must not change. Commit sets the generation.
//
// If the new copy is damaged later, Open uses the older copy. If memory that only the older copy
// refers to is about to be reused, commit twice.
//
// On an error nothing changes. Commit returns weft's ErrOptions if the superblock would be illegal,
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
// words that differ. These may reach memory in any order, because the checksums are wrong until all
// words are there. The first fence makes the data durable to which the superblock refers, before
// the superblock is written. The last fence makes the superblock durable before the next call
// overwrites the other copy.
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

// markUnclean marks a newly opened pool as unclean until it is closed.
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
	// The mark reaches the disk before any change, so that the pool is not clean after a power
	// failure.
	return p.sync()
}

// Close marks the pool as clean, unmaps the memory and closes the file. It closes the file even if
// an earlier step fails, and returns the first error. A second Close does nothing.
func (p *Pool) Close() error { return p.finish(true) }

// Abandon closes the pool without marking it as clean, like the end of the process.
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

// markClean marks the pool as clean after all other data is on the disk. If a write fails, the pool
// stays unclean.
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
