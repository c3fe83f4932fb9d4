package intern

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
)

// The journal of a table has its new keys, in the order of their ids, as a stream of blocks:
//
//	block  id of the first key (uint32), kind of keys (uint8), three zero bytes, number n of
//	       columns (uint32), types of the columns (n bytes), CRC-32C of the types, a frame as in a
//	       saved table
//
// Each block is a change of its own. A block that the table already has changes nothing.
const blockHeader = 12

// block is a block in memory, and its frame.
type block struct {
	frame frame
	bytes []byte
}

// logged implements core.Logged for a table.
type logged struct{ *Table }

func init() {
	core.RegisterLogged(func(facade any) core.Logged {
		if t, ok := facade.(interface{ asLogged() core.Logged }); ok {
			return t.asLogged()
		}
		return nil
	})
}

func (t *Table) asLogged() core.Logged { return logged{t} }

// Shape implements core.Logged.
func (l logged) Shape() (core.Shape, error) {
	const name = "ids of byte strings or rows"
	return core.Shape{Kind: core.ItemIDs, Flags: core.Ordered, Joins: true, Name: name}, nil
}

// Journal implements core.Logged.
func (l logged) Journal() core.Journal { return l.journal }

// SetJournal implements core.Logged.
func (l logged) SetJournal(j core.Journal) { l.journal = j }

// Locked implements core.Logged.
func (l logged) Locked(ctx context.Context, f func() error) error {
	if err := l.lockWriter(ctx); err != nil {
		return err
	}
	defer l.unlockWriter()
	l.mu.RLock()
	err := l.failed
	l.mu.RUnlock()
	if err != nil {
		return err
	}
	return f()
}

// Checkpoint implements core.Logged. Changes continue while save runs.
func (l logged) Checkpoint(ctx context.Context, rotate func(nextID uint64) error, save func(write func(io.Writer) (int, error)) error) error {
	err := l.Locked(ctx, func() error { return rotate(0) })
	if err == nil {
		err = save(func(to io.Writer) (int, error) { return l.Save(ctx, to) })
	}
	if err != nil {
		return fmt.Errorf("intern: checkpoint: %w", err)
	}
	return nil
}

// LoadCheckpoint implements core.Logged.
func (l logged) LoadCheckpoint(ctx context.Context, from io.Reader, _ int, _ uint64) (int, error) {
	if from == nil {
		return 0, nil
	}
	if err := l.withSlack(func() error { return l.load(ctx, &reader{from: from}) }); err != nil {
		l.cut = true
		return l.Len(), fmt.Errorf("intern: Load: %w", err)
	}
	return l.Len(), nil
}

// Replay implements core.Logged.
func (l logged) Replay(ctx context.Context, e *core.Effect) error {
	if e.Kind != core.AddItems {
		return fmt.Errorf("intern: replay: %w: unknown effect %d", op.ErrFormat, e.Kind)
	}
	r := &reader{from: bytes.NewReader(e.Keys)}
	for r.at < int64(len(e.Keys)) {
		if err := l.withSlack(func() error { return l.replayBlock(ctx, r) }); err != nil {
			return fmt.Errorf("intern: replay: %w", err)
		}
	}
	return nil
}

// replayBlock adds the keys of a block, and checks their ids. If the checkpoint was damaged,
// replayBlock drops blocks whose keys cannot have their ids.
func (l logged) replayBlock(ctx context.Context, r *reader) error {
	h, err := r.fill(nil, blockHeader)
	if err != nil {
		return err
	}
	first, kind := binary.LittleEndian.Uint32(h), kind(h[4])
	codec, err := r.codec(kind, binary.LittleEndian.Uint32(h[8:]))
	if err != nil {
		return err
	}
	n, err := r.frame()
	switch has := l.Len(); {
	case err != nil:
		return err
	case n == 0 || kind == undecided:
		return r.damaged("%d keys of kind %d", n, kind)
	case int(first) > has && l.cut:
		return nil
	case int(first) > has:
		return r.damaged("keys from id %d on, and the table has %d", first, has)
	}
	ids, err := r.add(ctx, l.Table, kind, codec)
	if errors.Is(err, device.ErrInvalid) {
		return r.damaged("%v", err)
	}
	if err != nil {
		return err
	}
	for i, id := range ids {
		if id != first+uint32(i) {
			return r.damaged("the key of id %d has id %d", first+uint32(i), id)
		}
	}
	return nil
}

// Sync waits until all keys are on the disk, if the table is durable. Only a table that package
// durable has opened with another policy than EveryBatch needs it.
func (t *Table) Sync(ctx context.Context) error {
	if t.journal == nil {
		return nil
	}
	if err := t.journal.Flush(ctx); err != nil {
		return fmt.Errorf("intern: Sync: %w", err)
	}
	return nil
}

// readable returns the error of calls that read the table. The caller holds mu.
func (t *Table) readable() error {
	if t.failed != nil || t.journal == nil {
		return t.failed
	}
	return t.journal.Readable()
}

// reserveLog reserves space in the journal for all keys of a chunk. The caller holds the writer
// lock.
func (t *Table) reserveLog(c column.Column) error {
	if t.journal == nil {
		return nil
	}
	n, size := c.Len(), 0
	if small, large, _ := c.Offsets(); small != nil {
		size = int(small[n] - small[0])
	} else if large != nil {
		size = int(large[n] - large[0])
	} else if c.Raw() != nil {
		size = n * c.Width()
	} else {
		for _, s := range c.Strings() {
			size += len(s)
		}
	}
	columns := 0
	if t.kind == rows {
		columns = len(t.rows.Types())
		size += n // the first byte of a row, if chunks lack it
		if t.words {
			size = n * t.rows.Width()
		}
	}
	blocks := 3 + n/frameKeys + 2*(size/frameBytes)
	const frameHead, crcs = 12, 8
	return t.journal.Reserve(size + 4*n + blocks*(blockHeader+columns+frameHead+crcs))
}

// logKeys appends the keys from id lo on to the journal. The caller holds the writer lock. If an
// append fails, so does the journal.
func (t *Table) logKeys(lo int) error {
	if t.journal == nil || lo == t.Len() {
		return nil
	}
	b := &t.scratch.log
	for hi := t.Len(); lo < hi; lo += b.frame.n {
		err := t.fillBlock(b, lo, min(lo+frameKeys, hi))
		if err == nil {
			e := core.Effect{Kind: core.AddItems, N: len(b.bytes), Keys: b.bytes, Last: true}
			err = t.journal.Append(&e)
		}
		if err != nil {
			return t.journal.Fail(err)
		}
	}
	t.position.Store(t.journal.Position())
	return nil
}

// fillBlock fills b with keys from lo on, up to hi if they fit.
func (t *Table) fillBlock(b *block, lo, hi int) error {
	f := &b.frame
	if err := t.fillFrame(f, lo, hi); err != nil {
		return err
	}
	types := typeBytes(t.rows)
	to := binary.LittleEndian.AppendUint32(b.bytes[:0], uint32(lo))
	to = append(to, byte(t.kind), 0, 0, 0)
	to = append(binary.LittleEndian.AppendUint32(to, uint32(len(types))), types...)
	to = binary.LittleEndian.AppendUint32(to, crc32.Checksum(types, seal.Castagnoli))
	at := len(to)
	to = append(append(append(to, f.head...), f.lengths...), f.keys...)
	b.bytes = binary.LittleEndian.AppendUint32(to, crc32.Checksum(to[at:], seal.Castagnoli))
	return nil
}

// wait ends a call that gives ids. It waits until the keys of all ids are as durable as the journal
// promises. If they are not, it clears the ids and returns an error that says that no row is done.
// err is the error of the call.
func (t *Table) wait(ctx context.Context, method string, ids []uint32, err error) error {
	var p *op.PartialError
	if t.journal == nil || errors.As(err, &p) && p.Done == 0 {
		return err
	}
	failure := t.journal.Wait(ctx, t.position.Load())
	if failure == nil {
		return err
	}
	clear(ids)
	if p != nil && !errors.Is(p.Err, failure) {
		failure = errors.Join(p.Err, failure)
	}
	return partial(method, 0, failure)
}
