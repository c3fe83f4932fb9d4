package core

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
)

// A saved table is a stream of little-endian bytes. It does not depend on the layout of the table
// that wrote it: any structure of the same kind can load it, on any device.
//
//	header   "WEFTTAB1", kind, letter and bits of the key type, letter and
//	         bits of the value type, three zero bytes, CRC-32C of these 16
//	frame    number of pairs n > 0 (uint32), n keys, n values, CRC-32C
//	…
//	end      0 (uint32), number of all pairs (uint64), CRC-32C
//
// Frames of byte strings also contain lengths; see save_strings.go. Each CRC covers its own header,
// frame or end. A frame has at most frameRows pairs, so that a wrong count in a damaged stream
// costs little memory.
const (
	magic       = "WEFTTAB1"
	headerBytes = 16
	frameRows   = 1 << 18
)

// Save writes the pairs of a table, or of a snapshot of it, to a stream and returns their number.
// Concurrent changes may be included or not, unless the table has versions.
func (t *Table) Save(ctx context.Context, at *Snapshot, to io.Writer) (n int, err error) {
	w := &writer{Writer: seal.NewWriter(to, 1<<16), widths: t.Widths, strings: t.Types.Key == Bytes}
	w.Sealed(t.header())
	err = t.pages(ctx, at, func(p *Page) bool {
		w.writePage(p)
		return w.Err == nil
	})
	if err == nil { // after an error the stream stays incomplete, so that Load rejects it
		w.writeEnd()
	}
	return int(w.pairs), t.wrap("Save", errors.Join(err, w.Err))
}

func (t *Table) header() []byte {
	h := make([]byte, 0, headerBytes)
	h = append(h, magic...)
	k, v := t.Types.Key, t.Types.Val
	return append(h, byte(t.Kind.fileKind()), k.Letter, k.Bits, v.Letter, v.Bits, 0, 0, 0)
}

type writer struct {
	seal.Writer
	widths  batch.Widths
	strings bool
	pairs   uint64
}

func (w *writer) writePage(p *Page) {
	for lo, hi := 0, 0; lo < p.N; lo = hi {
		if hi = min(lo+frameRows, p.N); w.strings {
			hi = w.writeStringFrame(p, lo, hi)
		} else {
			w.Sealed(binary.LittleEndian.AppendUint32(nil, uint32(hi-lo)),
				p.Keys.Host[lo*w.widths.Key:hi*w.widths.Key], p.Vals.Host[lo*w.widths.Val:hi*w.widths.Val])
		}
		w.pairs += uint64(hi - lo)
	}
}

func (w *writer) writeEnd() {
	w.Sealed(binary.LittleEndian.AppendUint32(nil, 0), binary.LittleEndian.AppendUint64(nil, w.pairs))
	w.Flush()
}

// Load puts the pairs of a saved table and returns their number. It returns ErrFormat if the stream
// is damaged, or holds another kind or other types. Pairs before the damage have been added.
func (t *Table) Load(ctx context.Context, from io.Reader) (n int, err error) {
	r := &reader{from: from} // reads no byte after the end of the table
	err = t.load(ctx, r)
	return int(r.pairs), t.wrap("Load", err)
}

func (t *Table) load(ctx context.Context, r *reader) error {
	header, err := r.readChecked(headerBytes)
	if err != nil {
		return err
	}
	if err := t.checkHeader(header); err != nil {
		return err
	}
	r.strings = t.Types.Key == Bytes
	for {
		n, err := r.readFrame(t.Widths)
		if err != nil || n == 0 {
			return err
		}
		keys, vals, err := t.columns(r, n)
		if err != nil {
			return err
		}
		if err := t.putPairs(ctx, &r.pairs, n, keys, vals); err != nil {
			return err
		}
	}
}

func (t *Table) columns(r *reader, n int) (keys, vals batch.Column, err error) {
	keys = batch.Input(r.keys).WithWidth(t.Widths.Key)
	switch {
	case r.strings:
		return t.stringColumns(r, n)
	case t.Widths.Val > 0:
		vals = batch.Input(r.vals).WithWidth(t.Widths.Val)
	}
	return keys, vals, nil
}

func (t *Table) checkHeader(h []byte) error {
	if string(h[:len(magic)]) != magic {
		return fmt.Errorf("%w: it does not begin with %q", op.ErrFormat, magic)
	}
	h = h[len(magic):]
	kind, types := Kind(h[0]), Types{Type{h[1], h[2]}, Type{h[3], h[4]}}
	if kind > MultiMap {
		return fmt.Errorf("%w: unknown kind %d", op.ErrFormat, h[0])
	}
	if kind != t.Kind.fileKind() || types != t.Types {
		return fmt.Errorf("%w: it holds %s of %v and %v, this is %s of %v and %v",
			op.ErrFormat, kind.withArticle(), types.Key, types.Val, t.Kind.withArticle(), t.Types.Key, t.Types.Val)
	}
	return nil
}

// putPairs puts n pairs and adds their number to *added. Rows in its error are counted from the
// start of the stream.
func (t *Table) putPairs(ctx context.Context, added *uint64, n int, keys, vals batch.Column) error {
	b := &batch.Batch{N: n, Kind: op.Put, Columns: batch.Columns{batch.Keys: keys, batch.Vals: vals}}
	if t.Widths.Val == 0 {
		b.Kind, b.Columns[batch.Vals] = op.PutNew, batch.Column{}
	}
	_, err := t.change(ctx, b)
	done, before := b.N, int(*added)
	var p *op.PartialError
	if errors.As(err, &p) {
		done = p.Done - p.Failed
		p.Done += before
		p.Rows = appendRows(nil, before, p.Rows)
	}
	*added += uint64(done)
	return err
}

// reader reads a stream and records its position.
type reader struct {
	from    io.Reader
	strings bool
	at      int64
	pairs   uint64

	lengths    []byte // lengths of the byte strings of a frame
	keys, vals []byte
}

// readFull fills b from the stream. If the stream ends early, it returns ErrFormat.
func (r *reader) readFull(b []byte) error {
	n, err := io.ReadFull(r.from, b)
	r.at += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends at byte %d", op.ErrFormat, r.at)
	}
	return err
}

func (r *reader) readChecked(size int) ([]byte, error) {
	b := make([]byte, size)
	if err := r.readFull(b); err != nil {
		return nil, err
	}
	return b, r.checkCRC(crc32.Checksum(b, seal.Castagnoli))
}

func (r *reader) checkCRC(want uint32) error {
	var b [4]byte
	if err := r.readFull(b[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(b[:]) != want {
		return fmt.Errorf("%w: damaged before byte %d", op.ErrFormat, r.at)
	}
	return nil
}

// readFrame reads a frame and returns its number of pairs, or 0 at the end of the table.
func (r *reader) readFrame(w batch.Widths) (n int, err error) {
	var head [4]byte
	if err := r.readFull(head[:]); err != nil {
		return 0, err
	}
	crc := crc32.Checksum(head[:], seal.Castagnoli)
	if n = int(binary.LittleEndian.Uint32(head[:])); n == 0 {
		return 0, r.readEnd(crc)
	}
	if n > frameRows {
		return 0, fmt.Errorf("%w: damaged before byte %d: a frame of %d pairs", op.ErrFormat, r.at, n)
	}
	keys, vals := n*w.Key, n*w.Val
	if r.strings {
		if crc, keys, vals, err = r.readStringLengths(n, crc); err != nil {
			return 0, err
		}
	}
	r.keys, r.vals = slices.Grow(r.keys[:0], keys)[:keys], slices.Grow(r.vals[:0], vals)[:vals]
	for _, column := range [][]byte{r.keys, r.vals} {
		if err := r.readFull(column); err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, seal.Castagnoli, column)
	}
	return n, r.checkCRC(crc)
}

func (r *reader) readEnd(crc uint32) error {
	var total [8]byte
	if err := r.readFull(total[:]); err != nil {
		return err
	}
	if err := r.checkCRC(crc32.Update(crc, seal.Castagnoli, total[:])); err != nil {
		return err
	}
	if n := binary.LittleEndian.Uint64(total[:]); n != r.pairs {
		return fmt.Errorf("%w: it should hold %d pairs and holds %d", op.ErrFormat, n, r.pairs)
	}
	return nil
}

// CopyTo makes a table on dev with the same options. The copy has the pairs of the table, or of a
// snapshot.
func (t *Table) CopyTo(ctx context.Context, at *Snapshot, dev device.Device) (*Table, error) {
	to, err := t.NewLike(dev)
	if err != nil {
		return nil, t.wrap("CopyTo", err)
	}
	var put error
	var added uint64
	err = t.pages(ctx, at, func(p *Page) bool {
		put = to.putPairs(ctx, &added, p.N, p.Keys.AsInput(), p.Vals.AsInput())
		return put == nil
	})
	if err = errors.Join(err, put); err != nil {
		return nil, t.wrap("CopyTo", errors.Join(err, to.Close()))
	}
	return to, nil
}
