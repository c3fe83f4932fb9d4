package shard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/spill"
	"github.com/weftgo/weft/join"
)

// Join joins the rows of all ranks. Like [join.Join], it builds a table of the right rows and
// probes it with the left rows. The right side should therefore be the smaller one. The rows of
// both sides are partitioned by a hash of their keys and exchanged. Each rank yields the joined
// rows of its partition, in no order.
//
// All ranks must pass the same kind, options and types of columns. opts configure the join of each
// rank. For each side, at least one rank must pass a batch, which may have no rows. If one rank
// fails, or its rows yield an error, all ranks yield the same error last, without columns. A loop
// that ends early still takes part in the whole exchange.
func Join(
	ctx context.Context, r *Ranks, kind join.Kind, left, right iter.Seq2[Rows, error],
	opts *join.Options,
) iter.Seq2[[]column.Column, error] {
	return func(yield func([]column.Column, error) bool) {
		ended, on := false, true
		defer r.abortUnless(&ended)
		j, err := join.NewJoin(r.dev, kind, opts)
		if err == nil {
			defer j.Close()
		}
		o := column.PartitionOptions{Parts: r.size, Seed: slotSeed, First: r.rank}
		if opts == nil || !opts.NullsMatch {
			o.Nulls = column.DropNulls // null keys match nothing
		}
		s := &sides{r: r, kind: kind}
		err = s.distribute(ctx, right, o, err, func(ctx context.Context, b Rows) error {
			return j.Build(ctx, b.Keys, b.Columns)
		})
		show := func(pages iter.Seq2[[]column.Column, error]) error {
			if !on {
				return nil
			}
			for page, err := range pages {
				if err != nil {
					return err
				}
				if on = yield(page, nil); !on {
					return nil
				}
			}
			return nil
		}
		if o.Nulls == column.DropNulls && (kind == join.Left || kind == join.Anti) {
			o.Nulls = column.DealNulls
		}
		if err == nil {
			err = s.distribute(context.WithoutCancel(ctx), left, o, nil,
				func(ctx context.Context, b Rows) error {
					if !on {
						return nil // the caller's loop has ended
					}
					return show(j.Probe(ctx, b.Keys, b.Columns))
				})
		}
		if err == nil {
			_, err = r.outcome(show(j.Finish(context.WithoutCancel(ctx))), 0)
		}
		ended = true
		if err != nil && on {
			yield(nil, err)
		}
	}
}

type sides struct {
	r    *Ranks
	kind join.Kind
}

// distributeRows is the maximum number of rows that are distributed at a time.
const distributeRows = 1 << 18

// distribute sends the rows of this rank to the ranks of their keys, and passes received rows to
// visit. If any rank fails, all ranks return its error. failure is the reason why this rank cannot
// take part.
func (s *sides) distribute(
	ctx context.Context, rows iter.Seq2[Rows, error], o column.PartitionOptions, failure error,
	visit func(context.Context, Rows) error,
) error {
	m := newMail(s.r, sign(methodJoin, uint8(s.kind), 0, 0, 0), o.Nulls)
	next, stop := iter.Pull2(pieces(rows))
	defer stop()
	first := true
	for again := true; again; {
		more := failure == nil
		for more && m.bytes() < roundBytes {
			batch, err, ok := next()
			if failure = err; err != nil || !ok {
				more = false
				break
			}
			if o.First, failure = m.distribute(batch, o, first); failure != nil {
				more = false
			}
			first = false
		}
		var in [][]byte
		var err error
		if in, again, err = m.round(ctx, more, failure); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx)
		for _, part := range in {
			if failure = errors.Join(failure, visitRows(part,
				func(b Rows) error { return visit(ctx, b) })); failure != nil {
				break
			}
		}
	}
	_, err := s.r.outcome(failure, 0)
	return err
}

// pieces splits batches into batches of at most distributeRows rows.
func pieces(rows iter.Seq2[Rows, error]) iter.Seq2[Rows, error] {
	return func(yield func(Rows, error) bool) {
		for b, err := range rows {
			n := b.len()
			for lo := 0; ; lo += distributeRows {
				hi := min(lo+distributeRows, n)
				p := Rows{spill.Slice(b.Keys, lo, hi), spill.Slice(b.Columns, lo, hi)}
				if err != nil {
					p = Rows{}
				}
				if !yield(p, err) || err != nil {
					return
				}
				if hi == n {
					break
				}
			}
		}
	}
}

// Mail of rows is a sequence of frames. Each part of a frame is a multiple of 8 bytes:
//
//	length of the page (uint64), number of key columns (uint32), number of columns (uint32)
//	types of the columns (uint8 each), then zeros
//	the page as package spill encodes it, or nothing if it has no rows
const rowsHead = 16

// distribute appends the rows of a batch to the mail for their ranks. The first batch also sends
// the types of columns to all ranks. next is the rank for the next row with a null key.
func (m *mail) distribute(b Rows, o column.PartitionOptions, first bool) (next int, err error) {
	page := append(append([]column.Column{}, b.Keys...), b.Columns...)
	for i, c := range page {
		if c.Len() != page[0].Len() {
			panic(fmt.Sprintf("shard: Join: column %d has %d rows, and column 0 has %d", i, c.Len(),
				page[0].Len()))
		}
	}
	parts, err := column.Partition(m.r.dev, b.Keys, o)
	if err != nil {
		return 0, err
	}
	for rank := range m.out {
		rows := parts.Part(rank)
		if len(rows) == 0 && !first {
			continue
		}
		some, err := spill.ExpandDictionaries(spill.Take(m.r.dev, page, rows), len(rows))
		if err != nil {
			return 0, err
		}
		m.out[rank] = appendRows(m.out[rank], len(b.Keys), some)
	}
	return parts.Next, nil
}

// appendRows appends a frame with a page. keys is the number of key columns.
func appendRows(to []byte, keys int, page []column.Column) []byte {
	at := len(to)
	to = binary.LittleEndian.AppendUint64(to, 0)
	to = binary.LittleEndian.AppendUint32(to, uint32(keys))
	to = binary.LittleEndian.AppendUint32(to, uint32(len(page)))
	for _, c := range page {
		to = append(to, byte(c.Type()))
	}
	to = append(to, make([]byte, -len(page)&7)...)
	if page[0].Len() == 0 {
		return to
	}
	from := len(to)
	to = spill.AppendPage(to, page)
	binary.LittleEndian.PutUint64(to[at:], uint64(len(to)-from))
	return to
}

func visitRows(mail []byte, visit func(Rows) error) error {
	for len(mail) > 0 {
		size, keys := binary.LittleEndian.Uint64(mail), int(binary.LittleEndian.Uint32(mail[8:]))
		types := mail[rowsHead:][:binary.LittleEndian.Uint32(mail[12:])]
		mail = mail[rowsHead+(len(types)+7)&^7:]
		page, err := emptyPage(types)
		if size > 0 {
			page, err = spill.DecodePage(mail[:size:size])
		}
		if err == nil {
			err = visit(Rows{page[:keys:keys], page[keys:]})
		}
		if err != nil {
			return err
		}
		mail = mail[size:]
	}
	return nil
}

func emptyPage(types []byte) (page []column.Column, err error) {
	for _, t := range types {
		c := column.OfStrings([]string{})
		switch typ := column.Type(t); {
		case typ == column.None:
			return nil, fmt.Errorf("%w: a column without a type; "+
				"an empty column of some type is column.Of([]int64{})", weft.ErrOptions)
		case typ != column.Bytes:
			if c, err = column.OfRaw(typ, nil); err != nil {
				return nil, err
			}
		}
		page = append(page, c)
	}
	return page, nil
}
