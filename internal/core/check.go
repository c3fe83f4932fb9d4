package core

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
)

// Checker is an engine that can check the invariants of its layout.
type Checker interface {
	Check(ctx context.Context, l *Lease) error
}

// checkRows is the approximate maximum number of keys that Check holds in memory.
const checkRows = 1 << 24

// Check reads the whole table and returns the first fault. Faults are a pair that a lookup misses
// or finds with another value, a duplicate key in a map or a set, a wrong number of pairs, and a
// fault that the engine finds. Changes wait until the check is done.
func (t *Table) Check(ctx context.Context) error {
	return t.WithWriteLock(ctx, "Check", func(now Counters) (err error) {
		if c, ok := t.Engine.(Checker); ok {
			if err := c.Check(ctx, t.Leases.Current()); err != nil {
				return err
			}
		}
		at, err := t.holdCurrent(ctx) // not a snapshot, because that would wait for the writer lock
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, at.Close()) }()
		passes := now.Live/checkRows + 1
		for pass := uint64(0); pass < passes && err == nil; pass++ {
			err = t.checkPairs(ctx, at, now, pass, passes)
		}
		return err
	})
}

// checkPairs runs one of several passes, among which the keys are divided. It compares the number
// of pairs with the counters and checks the keys of the pass for duplicates. In the first pass it
// also looks up all pairs.
func (t *Table) checkPairs(ctx context.Context, at *Snapshot, now Counters, pass, passes uint64) error {
	var keys keySet
	pairs := uint64(0)
	var found error
	err := t.pages(ctx, at, func(p *Page) bool {
		pairs += uint64(p.N)
		if pass == 0 {
			found = t.checkPage(ctx, p)
		}
		for i := range p.N {
			keys.add(p, i, pass, passes)
		}
		return found == nil
	})
	if err = errors.Join(err, found); err != nil {
		return err
	}
	if pairs != now.Live {
		return fmt.Errorf("%w: the counters say %d pairs, but there are %d", op.ErrCorrupt,
			now.Live, pairs)
	}
	if t.Kind == MultiMap {
		return nil
	}
	return keys.checkDuplicates()
}

// keySet holds the keys of one pass: words for integers of 4 or 8 bytes, bytes for other keys.
type keySet struct {
	words []uint64
	bytes []string
}

// add adds key i of a page if it belongs to the pass.
func (s *keySet) add(p *Page, i int, pass, passes uint64) {
	k := p.Keys.Row(i)
	switch {
	case p.Keys.Data == nil && (len(k) == 4 || len(k) == 8):
		var word [8]byte
		copy(word[:], k)
		if w := binary.LittleEndian.Uint64(word[:]); w%passes == pass {
			s.words = append(s.words, w)
		}
	default:
		if uint64(crc32.Checksum(k, seal.Castagnoli))%passes == pass {
			s.bytes = append(s.bytes, string(k))
		}
	}
}

func (s *keySet) checkDuplicates() error {
	slices.Sort(s.words)
	for i, k := range s.words[min(1, len(s.words)):] {
		if s.words[i] == k {
			return fmt.Errorf("%w: key %#x is stored twice", op.ErrCorrupt, k)
		}
	}
	slices.Sort(s.bytes)
	for i, k := range s.bytes[min(1, len(s.bytes)):] {
		if s.bytes[i] == k {
			return fmt.Errorf("%w: key %x is stored twice", op.ErrCorrupt, k)
		}
	}
	return nil
}

// formatKey formats key i for a message, as a number if it has 4 or 8 bytes.
func (p *Page) formatKey(i int) string {
	k := p.Keys.Row(i)
	switch len(k) {
	case 4:
		return fmt.Sprintf("%#x", binary.NativeEndian.Uint32(k))
	case 8:
		return fmt.Sprintf("%#x", binary.NativeEndian.Uint64(k))
	}
	return fmt.Sprintf("%x", k)
}

// checkPage looks up the keys of a page. It returns an error if a key is not found or has another
// value.
func (t *Table) checkPage(ctx context.Context, p *Page) error {
	w := t.Widths
	vals, ok := make([]byte, p.N*w.Val), make([]bool, p.N)
	b := &batch.Batch{N: p.N, Flags: t.Policy.MixedFlags()}
	b.Columns[batch.Keys] = p.Keys.AsInput()
	b.Columns[batch.OK] = batch.Output(ok)
	compare := w.Val > 0 && !t.Strings // engines check byte strings themselves
	if compare {
		b.Columns[batch.Vals] = batch.Output(vals).WithWidth(w.Val)
	}
	if _, _, err := t.Engine.Lookup(ctx, nil, t.Leases.Current(), b, 0); err != nil {
		return err
	}
	for i := range p.N {
		switch {
		case !ok[i]:
			return fmt.Errorf("%w: key %s is stored where no lookup finds it", op.ErrCorrupt, p.formatKey(i))
		case t.Kind.unique() && compare && string(vals[i*w.Val:(i+1)*w.Val]) != string(p.Vals.Row(i)):
			return fmt.Errorf("%w: key %s has value %x, but a lookup finds %x", op.ErrCorrupt,
				p.formatKey(i), p.Vals.Row(i), vals[i*w.Val:(i+1)*w.Val])
		}
	}
	return nil
}
