package join

import (
	"context"
	"errors"
	"io"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/spill"
)

// joinInPieces joins a partition whose right rows exceed memory, without partitioning it again. It
// loads as many right rows as fit, reads all left rows, and repeats this for the next right rows.
func (j *job) joinInPieces(ctx context.Context, build, probe *spill.Chain, emit emitter) (err error) {
	p := &pieceJoin{job: j, probe: probe, emit: emit, store: j.rows}
	defer func() { err = errors.Join(err, p.close()) }()
	if build != nil {
		if p.right, err = build.Reader(); err != nil {
			return err
		}
	}
	for {
		if err := p.loadRight(ctx); err != nil {
			return err
		}
		if err := p.joinPass(ctx); err != nil || p.right == nil {
			return err
		}
	}
}

// pieceJoin is a join in pieces. Left rows that are undecided after a piece go to a chain.
type pieceJoin struct {
	*job
	emit      emitter
	right     *spill.Reader   // nil after the last right row
	page      []column.Column // page that did not fit the last piece
	decoder   spill.Decoder
	store     *spill.Store
	flagged   *spill.Store // left rows of a left join, with the column that joinLeft adds
	index     *indexedRows
	probe     *spill.Chain // left rows
	ownsProbe bool         // an earlier piece has written probe
	next      *spill.Chain
	buf       []byte
}

func (p *pieceJoin) close() error {
	var err error
	if p.right != nil {
		err = p.right.Close()
	}
	if p.ownsProbe {
		err = errors.Join(err, p.probe.Free())
	}
	if p.next != nil {
		err = errors.Join(err, p.next.Free())
	}
	p.flagged.Free()
	return errors.Join(err, p.index.close())
}

// loadRight loads the right rows of the next piece, at least one page.
func (p *pieceJoin) loadRight(ctx context.Context) error {
	p.store.Reset()
	for p.right != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.page == nil {
			page, err := p.right.Next()
			if err == io.EOF {
				err, p.right = p.right.Close(), nil
				return err
			}
			if err == nil {
				p.page, err = p.decoder.Decode(page)
			}
			if err != nil {
				return err
			}
		}
		if p.store.Len() > 0 && p.mayOverflow(p.store, p.page) {
			return nil
		}
		if err := p.store.Append(p.dev, p.page); err != nil {
			return err
		}
		p.page = nil
	}
	return nil
}

// joinPass joins all left rows with the right rows in memory.
func (p *pieceJoin) joinPass(ctx context.Context) (err error) {
	if p.index, err = p.newIndexedRows(ctx, p.store); err != nil {
		return err
	}
	single := p.right == nil && !p.ownsProbe
	rows := &p.leftBatchRows
	if p.ownsProbe && p.kind == Left {
		rows = &p.flagged
	}
	err = p.visitBatches(ctx, p.probe, rows, func(columns []column.Column) error {
		b := &leftBatch{n: columns[0].Len(), keys: columns[:p.keys], columns: columns[p.keys:]}
		switch {
		case single || p.kind == Inner:
			return p.index.joinBatch(ctx, b, p.emit)
		case p.kind == Left:
			return p.joinLeft(ctx, b, columns)
		}
		return p.emitDecided(ctx, b, columns)
	})
	if err = errors.Join(err, p.index.close()); err != nil {
		return err
	}
	p.index = nil
	if single || p.kind == Inner {
		return nil
	}
	return p.advance()
}

// advance replaces probe by the rows written for the next piece.
func (p *pieceJoin) advance() error {
	var err error
	if p.ownsProbe {
		err = p.probe.Free()
	}
	p.probe, p.ownsProbe, p.next = p.next, p.next != nil, nil
	if p.ownsProbe {
		err = errors.Join(err, p.probe.Flush())
	}
	return err
}

// emitDecided yields the decided rows of a semi or anti join. The next piece gets the others.
func (p *pieceJoin) emitDecided(ctx context.Context, b *leftBatch, all []column.Column) error {
	rows, err := p.index.matches(ctx, b)
	if err != nil {
		return err
	}
	unmatched := b.unmatched(rows)
	if p.kind == Semi {
		if err := p.index.emitLeft(b, rows, p.emit); err != nil {
			return err
		}
	} else if p.right == nil {
		return p.index.emitLeft(b, unmatched, p.emit)
	}
	if p.right == nil || len(unmatched) == 0 {
		return nil
	}
	return p.writeNext(spill.Take(p.dev, all, unmatched))
}

// joinLeft yields the pairs of a left join. In the last piece it also yields the rows that no piece
// has matched. After the first piece, an additional column marks the rows with a match.
func (p *pieceJoin) joinLeft(ctx context.Context, b *leftBatch, all []column.Column) error {
	matched := make([]bool, b.n)
	if p.ownsProbe {
		last := len(b.columns) - 1
		copy(matched, column.Values[bool](b.columns[last]))
		all, b.columns = all[:len(all)-1], b.columns[:last]
	}
	err := p.index.visitPairs(ctx, b.keys, func(left, right []uint32) error {
		for _, l := range left {
			matched[l] = true
		}
		return p.index.emitPairs(b, left, right, p.emit)
	})
	if err != nil {
		return err
	}
	if p.right != nil {
		return p.writeNext(append(all[:len(all):len(all)], column.Of(matched)))
	}
	var left, right []uint32
	for row, ok := range matched {
		if !ok {
			left, right = append(left, uint32(row)), append(right, uint32(p.index.n))
		}
	}
	return p.index.emitPairs(b, left, right, p.emit)
}

func (p *pieceJoin) writeNext(columns []column.Column) error {
	if p.next == nil {
		p.next = p.file.Chain()
	}
	p.buf = spill.AppendPage(p.buf[:0], columns)
	return p.next.Append(p.buf)
}
