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

// SaveParts writes groups in pieces. All groups of a piece are of one part: that of their keys by
// [column.Partition] with a number of parts and a seed. So groups with equal keys, of any tables,
// are of one part. Without key columns all groups are of part 0.
//
// Each piece is what [Groups.Save] writes of its groups: [Load] reads it, and [Groups.MergeFrom]
// merges any number of them, one after another. A piece has at most maxBytes bytes unless a single
// group takes more. Pieces of a part come in the order of its groups. Each part has at least one
// piece, which has no groups but their types if the part has none.
//
// emit receives the part, the number of groups of the piece, and the piece, which it may keep. It
// must not call methods of these groups. Its error ends SaveParts, which returns it. Pieces that
// are not full yet take up to parts × maxBytes bytes of memory.
//
// Parts that column.Partition does not take, and maxBytes below 1, are [weft.ErrOptions].
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
		err = fmt.Errorf("%w: pieces of at most %d bytes", op.ErrOptions, maxBytes)
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
	page   []byte // the page that is added
}

// savedPiece is the piece of a part that is not full yet.
type savedPiece struct {
	bytes   []byte // without the end
	groups  int
	emitted bool // a piece of this part was
}

// lengthBytes is the size of what appendLength appends.
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

// addGroups adds groups of a part, in pages that fit a piece.
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

// addPage adds a page to the piece of a part, or its halves if it exceeds a piece after all.
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

// emitPiece ends the piece of a part and emits it.
func (s *partSaver) emitPiece(part int) error {
	p := s.pieces[part]
	s.pieces[part] = savedPiece{emitted: true}
	if p.groups == 0 {
		p.bytes = bytes.Clone(s.head)
	}
	return s.emit(part, p.groups, appendLength(p.bytes, 0))
}
