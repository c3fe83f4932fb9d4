package group

import (
	"bytes"
	"context"
	"fmt"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
	"github.com/weftgo/weft/internal/spill"
)

// SaveParts writes groups in pieces. Each piece holds groups of one part, which [column.Partition]
// computes from their keys, with the given number of parts and seed. Groups with equal keys thus
// have the same part in all tables. Without key columns all groups belong to part 0.
//
// Each piece is a stream as [Groups.Save] writes it. [Load] reads it, and [Groups.MergeFrom] merges
// any number of pieces, one after another. A piece has at most maxBytes bytes unless a single group
// needs more. The pieces of a part keep the order of its groups. A part without groups has one
// piece, which holds only the types.
//
// SaveParts calls emit with the part, the number of groups, and the piece, which emit may keep.
// emit must not call methods of these groups. If emit returns an error, SaveParts stops and returns
// it. Incomplete pieces take up to parts × maxBytes bytes of memory.
//
// SaveParts returns [weft.ErrOptions] if maxBytes is below 1, or if column.Partition rejects the
// number of parts.
func (g *Groups) SaveParts(
	ctx context.Context, parts int, seed uint64, maxBytes int,
	emit func(part, groups int, piece []byte) error,
) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &partSaver{g: g, maxBytes: maxBytes, emit: emit,
		opts: column.PartitionOptions{Parts: parts, Seed: seed}}
	err := s.opts.Check()
	if err == nil && maxBytes < 1 {
		err = fmt.Errorf("%w: pieces of at most %d bytes, want at least 1", op.ErrOptions, maxBytes)
	}
	if err == nil {
		err = g.prepareRead(ctx)
	}
	if err == nil {
		err = s.save(ctx)
	}
	if err != nil {
		return fmt.Errorf("group: SaveParts: %w", err)
	}
	return nil
}

// partSaver cuts the state of groups into pieces.
type partSaver struct {
	g        *Groups
	opts     column.PartitionOptions
	maxBytes int
	emit     func(part, groups int, piece []byte) error

	head   []byte // the header and the layout
	pieces []savedPiece
	page   []byte // the encoded page to add
}

// savedPiece is the incomplete piece of a part.
type savedPiece struct {
	bytes   []byte // without the end mark
	groups  int
	emitted bool // a piece of this part was emitted
}

// lengthBytes is the number of bytes that appendLength appends.
const lengthBytes = 12

func (s *partSaver) save(ctx context.Context) error {
	var head bytes.Buffer
	w := seal.NewWriter(&head, headBytes)
	s.g.saveHead(&w)
	if err := w.Flush(); err != nil {
		return err
	}
	s.head, s.pieces = head.Bytes(), make([]savedPiece, s.opts.Parts)
	if s.g.l != nil {
		if err := s.g.visitStates(ctx, s.partitionPage); err != nil {
			return err
		}
	}
	for part := range s.pieces {
		if p := &s.pieces[part]; p.groups > 0 || !p.emitted {
			if err := s.emitPiece(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// partitionPage adds the groups of a page to their parts.
func (s *partSaver) partitionPage(page []column.Column) error {
	keys := page[:len(s.g.l.keys)]
	if len(keys) == 0 || s.opts.Parts == 1 {
		return s.addGroups(0, page)
	}
	parts, err := column.Partition(s.g.dev, keys, s.opts)
	if err != nil {
		return err
	}
	page = spill.Take(s.g.dev, page, parts.Rows)
	for part := range parts.Len() {
		lo, hi := int(parts.Offsets[part]), int(parts.Offsets[part+1])
		if lo == hi {
			continue
		}
		if err := s.addGroups(part, spill.Slice(page, lo, hi)); err != nil {
			return err
		}
	}
	return nil
}

// addGroups adds groups to a part, in pages that fit a piece.
func (s *partSaver) addGroups(part int, page []column.Column) error {
	n := page[0].Len()
	limit := int64(max(1, s.maxBytes-len(s.head)-2*lengthBytes))
	perPage := n
	if size := spill.Bytes(page); size > limit {
		perPage = int(max(1, int64(n)*limit/size))
	}
	for lo := 0; lo < n; lo += perPage {
		if err := s.addPage(part, spill.Slice(page, lo, min(lo+perPage, n))); err != nil {
			return err
		}
	}
	return nil
}

// addPage adds a page to the piece of a part. It halves a page that exceeds a piece.
func (s *partSaver) addPage(part int, page []column.Column) error {
	n := page[0].Len()
	s.page = spill.AppendPage(s.page[:0], page)
	size := lengthBytes + len(s.page) + lengthBytes
	if n > 1 && len(s.head)+size > s.maxBytes {
		if err := s.addPage(part, spill.Slice(page, 0, n/2)); err != nil {
			return err
		}
		return s.addPage(part, spill.Slice(page, n/2, n))
	}
	p := &s.pieces[part]
	if p.groups > 0 && len(p.bytes)+size > s.maxBytes {
		if err := s.emitPiece(part); err != nil {
			return err
		}
	}
	if p.groups == 0 {
		p.bytes = append(make([]byte, 0, len(s.head)+size), s.head...)
	}
	p.bytes = append(appendLength(p.bytes, len(s.page)), s.page...)
	p.groups += n
	return nil
}

// emitPiece completes the piece of a part and emits it.
func (s *partSaver) emitPiece(part int) error {
	p := s.pieces[part]
	s.pieces[part] = savedPiece{emitted: true}
	if p.groups == 0 {
		p.bytes = bytes.Clone(s.head)
	}
	return s.emit(part, p.groups, appendLength(p.bytes, 0))
}
