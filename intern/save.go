package intern

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/rowkey"
	"github.com/weftgo/weft/internal/seal"
)

// A saved table is a stream of little-endian bytes:
//
//	header   "WEFTINT1", kind of keys (uint8), three zero bytes, number n of columns (uint32), CRC-32C
//	types    of the columns, n bytes, CRC-32C; n is 0 for byte strings
//	frame    number n > 0 of keys (uint32), the sum of their lengths (uint64), if n > 1 the length
//	         of each (uint32), the keys in the order of their ids, CRC-32C
//	…
//	end      0 (uint32), number of all keys (uint64), CRC-32C
//
// Rows are saved in the encoding of package rowkey. A frame has at most frameKeys keys, and at most
// frameBytes bytes unless it has a single key. A single key is read in steps of readBytes. A
// damaged stream thus cannot make Load allocate much memory.
const (
	magic       = "WEFTINT1"
	headerBytes = 16
	frameKeys   = 1 << 16
	frameBytes  = 1 << 24
	readBytes   = 1 << 20
)

// Save writes the keys that the table has at the call to a stream, with checksums. It returns their
// number. Other calls may run meanwhile.
func (t *Table) Save(ctx context.Context, to io.Writer) (n int, err error) {
	w := seal.NewWriter(to, 1<<16)
	n, err = t.save(ctx, &w)
	if err != nil {
		return n, fmt.Errorf("intern: Save: %w", err)
	}
	return n, nil
}

func (t *Table) save(ctx context.Context, w *seal.Writer) (n int, err error) {
	t.mu.RLock()
	kind, types, length, err := t.kind, typeBytes(t.rows), t.Len(), t.readable()
	t.mu.RUnlock()
	if err != nil {
		return 0, err
	}
	var f frame
	head := append([]byte(magic), byte(kind), 0, 0, 0)
	w.Sealed(binary.LittleEndian.AppendUint32(head, uint32(len(types))))
	w.Sealed(types)
	for n < length && w.Err == nil {
		if err := ctx.Err(); err != nil { // a stream cut short must not look complete
			return n, err
		}
		if err := t.fillFrame(&f, n, min(n+frameKeys, length)); err != nil {
			return n, err
		}
		w.Sealed(f.head, f.lengths, f.keys)
		n += f.n
	}
	w.Sealed(make([]byte, 4), binary.LittleEndian.AppendUint64(nil, uint64(n)))
	return n, w.Flush()
}

// typeBytes returns the types of the columns as the stream has them.
func typeBytes(codec *rowkey.Codec) (types []byte) {
	if codec != nil {
		for _, typ := range codec.Types() {
			types = append(types, byte(typ))
		}
	}
	return types
}

// frame holds the parts of a frame of n keys, without their CRC.
type frame struct {
	n                   int
	head, lengths, keys []byte
}

// fillFrame fills f with keys from lo on, up to hi if they fit.
func (t *Table) fillFrame(f *frame, lo, hi int) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if err := t.readable(); err != nil {
		return err
	}
	at := t.encoded(lo, hi)
	f.n, f.lengths, f.keys = 0, f.lengths[:0], f.keys[:0]
	for ; f.n < hi-lo; f.n++ {
		key := at(f.n)
		if f.n > 0 && len(f.keys)+len(key) > frameBytes {
			break
		}
		f.keys = append(f.keys, key...)
		f.lengths = binary.LittleEndian.AppendUint32(f.lengths, uint32(len(key)))
	}
	if f.n == 1 {
		f.lengths = f.lengths[:0]
	}
	f.head = binary.LittleEndian.AppendUint32(f.head[:0], uint32(f.n))
	f.head = binary.LittleEndian.AppendUint64(f.head, uint64(len(f.keys)))
	return nil
}

// Load makes a table from a stream that Save wrote, with the same ids, on any device. It reads
// nothing after the end of the table. If the stream is damaged, or Save did not write it, Load
// returns [weft.ErrFormat].
func Load(ctx context.Context, dev device.Device, from io.Reader, opts *Options) (*Table, error) {
	t, err := New(dev, opts)
	if err != nil {
		return nil, err
	}
	if err := t.withSlack(func() error { return t.load(ctx, &reader{from: from}) }); err != nil {
		return nil, fmt.Errorf("intern: Load: %w", errors.Join(err, t.Close()))
	}
	return t, nil
}

func (t *Table) load(ctx context.Context, r *reader) error {
	kind, codec, err := r.header()
	if err != nil {
		return err
	}
	for {
		n, err := r.frame()
		if err != nil || n == 0 {
			if t.kind == undecided && err == nil { // no key has set the kind
				t.kind = kind
				t.setCodec(codec)
			}
			return err
		}
		if kind == undecided {
			return r.damaged("%d keys, but the header does not say of which kind", n)
		}
		before := t.Len()
		if _, err := r.add(ctx, t, kind, codec); err != nil {
			return err
		}
		if t.Len() != before+n {
			return r.damaged("a key comes twice")
		}
	}
}

// reader reads a stream and counts its bytes.
type reader struct {
	from  io.Reader
	at    int64
	total uint64

	offsets []int64 // offsets of the keys of a frame
	keys    []byte
}

// damaged returns the error for a fault before the current byte of the stream.
func (r *reader) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: damaged before byte %d: %s", op.ErrFormat, r.at, fmt.Sprintf(format, args...))
}

// fill appends n bytes of the stream to b. An early end of the stream is an error.
func (r *reader) fill(b []byte, n uint64) ([]byte, error) {
	for n > 0 {
		part := int(min(n, readBytes))
		b = slices.Grow(b, part)[:len(b)+part]
		got, err := io.ReadFull(r.from, b[len(b)-part:])
		r.at += int64(got)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return b, fmt.Errorf("%w: it ends at byte %d", op.ErrFormat, r.at)
		}
		if err != nil {
			return b, err
		}
		n -= uint64(part)
	}
	return b, nil
}

// crc reads a checksum and compares it with the checksum of the bytes in parts.
func (r *reader) crc(parts ...[]byte) error {
	b, err := r.fill(nil, 4)
	if err != nil {
		return err
	}
	var crc uint32
	for _, p := range parts {
		crc = crc32.Update(crc, seal.Castagnoli, p)
	}
	if binary.LittleEndian.Uint32(b) != crc {
		return r.damaged("the checksum differs")
	}
	return nil
}

func (r *reader) header() (kind, *rowkey.Codec, error) {
	h, err := r.fill(nil, headerBytes)
	if err != nil {
		return 0, nil, err
	}
	if string(h[:len(magic)]) != magic {
		return 0, nil, fmt.Errorf("%w: it does not begin with %q", op.ErrFormat, magic)
	}
	if err := r.crc(h); err != nil {
		return 0, nil, err
	}
	kind := kind(h[8])
	codec, err := r.codec(kind, binary.LittleEndian.Uint32(h[12:]))
	return kind, codec, err
}

// codec reads the types of n columns and their checksum. It returns a nil codec for byte strings.
func (r *reader) codec(k kind, n uint32) (*rowkey.Codec, error) {
	if k > rows || n > rowkey.MaxColumns || (n > 0) != (k == rows) {
		return nil, r.damaged("keys of kind %d with %d columns", k, n)
	}
	types, err := r.fill(nil, uint64(n))
	if err == nil {
		err = r.crc(types)
	}
	if err != nil || n == 0 {
		return nil, err
	}
	var list []column.Type
	for _, typ := range types {
		if column.Type(typ) > column.Bytes {
			return nil, r.damaged("a column of type %d", typ)
		}
		list = append(list, column.Type(typ))
	}
	codec, err := rowkey.New(list)
	if err != nil {
		return nil, r.damaged("%v", err)
	}
	return codec, nil
}

// frame reads a frame and returns its number of keys, or 0 at the end of the stream.
func (r *reader) frame() (n int, err error) {
	head, err := r.fill(nil, 12)
	if err != nil {
		return 0, err
	}
	n = int(binary.LittleEndian.Uint32(head))
	size := binary.LittleEndian.Uint64(head[4:])
	switch {
	case n == 0:
		if err := r.crc(head); err != nil {
			return 0, err
		}
		if size != r.total {
			return 0, fmt.Errorf("%w: it should hold %d keys and holds %d", op.ErrFormat, size, r.total)
		}
		return 0, nil
	case n > frameKeys || n > 1 && size > frameBytes:
		return 0, r.damaged("a frame of %d keys in %d bytes", n, size)
	}
	var lengths []byte
	r.offsets = append(r.offsets[:0], 0)
	if n > 1 {
		if lengths, err = r.fill(nil, 4*uint64(n)); err != nil {
			return 0, err
		}
		for i := range n {
			r.offsets = append(r.offsets, r.offsets[i]+int64(binary.LittleEndian.Uint32(lengths[4*i:])))
		}
	} else {
		r.offsets = append(r.offsets, int64(size))
	}
	if uint64(r.offsets[n]) != size {
		return 0, r.damaged("keys of %d bytes in a frame of %d", r.offsets[n], size)
	}
	if r.keys, err = r.fill(r.keys[:0], size); err != nil {
		return 0, err
	}
	return n, r.crc(head, lengths, r.keys)
}

// add adds the keys of the last frame to a table and returns their ids.
func (r *reader) add(ctx context.Context, t *Table, k kind, codec *rowkey.Codec) (ids []uint32, err error) {
	ids = make([]uint32, len(r.offsets)-1)
	if k == byteStrings {
		_, err = t.Column(ctx, r.column(), ids)
	} else {
		err = r.addRows(ctx, t, codec, ids)
	}
	if err == nil {
		r.total += uint64(len(ids))
	}
	return ids, err
}

// column returns the keys of a frame as a column, of one width if all keys have it.
func (r *reader) column() column.Column {
	n := len(r.offsets) - 1
	width := r.offsets[1]
	for i := range n {
		if r.offsets[i+1]-r.offsets[i] != width {
			width = 0
		}
	}
	if width > 0 {
		return must(column.OfWidth(int(width), r.keys))
	}
	return must(column.OfOffsets(r.offsets, r.keys))
}

// addRows adds the keys of a frame to a table of rows.
func (r *reader) addRows(ctx context.Context, t *Table, codec *rowkey.Codec, ids []uint32) error {
	row := func(i int) []byte { return r.keys[r.offsets[i]:r.offsets[i+1]] }
	for i := range ids {
		if err := codec.Valid(row(i)); err != nil {
			return r.damaged("key %d: %v", r.total+uint64(i), err)
		}
	}
	cols, err := codec.Decode(len(ids), row)
	if err != nil {
		return r.damaged("%v", err)
	}
	_, err = t.Rows(ctx, cols, ids)
	return err
}
