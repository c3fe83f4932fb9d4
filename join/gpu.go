package join

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/pairs"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/linear"
)

// gpuTable finds the rows of a key in memory of a GPU. A map leads from keys to spans, which
// package pairs defines.
type gpuTable[K weft.Key] struct {
	kernels *pairs.Kernels
	spans   *linear.Map[K, uint64]
	rows    device.Slice[uint32]
}

// newGPUTable makes the table of a column on the device of s, and waits until it is complete.
func newGPUTable[K weft.Key](ctx context.Context, s *device.Stream, keys device.Slice[K]) (t *gpuTable[K], err error) {
	t = &gpuTable[K]{}
	if t.kernels, err = pairs.Load(s.Device()); err != nil {
		return nil, err
	}
	if keys.Len() > pairs.MaxRows {
		return nil, fmt.Errorf("%w: %d rows; on a GPU row numbers end at %d", op.ErrOptions, keys.Len(), uint32(pairs.MaxRows))
	}
	// Unordered: any row may represent its key, as all rows of a key get the same span.
	if t.spans, err = linear.New[K, uint64](s.Device(), &linear.Options{Capacity: keys.Len(), Unordered: true}); err != nil {
		return nil, err
	}
	if keys.Len() > 0 {
		err = t.build(ctx, s, keys)
	}
	if err != nil {
		return nil, errors.Join(err, t.free())
	}
	return t, nil
}

func (t *gpuTable[K]) build(ctx context.Context, s *device.Stream, keys device.Slice[K]) error {
	b, err := t.kernels.NewBuild(keys.Len())
	if err != nil {
		return err
	}
	t.rows = b.Rows
	err = t.submit(ctx, s, keys, b)
	if end := s.Sync(context.WithoutCancel(ctx)); err == nil {
		err = end
	}
	return errors.Join(err, b.Free())
}

func (t *gpuTable[K]) submit(ctx context.Context, s *device.Stream, keys device.Slice[K], b *pairs.Build) error {
	noFound := device.Slice[bool]{}
	for _, step := range []func() error{
		func() error { return b.Number(s) },
		func() error { return t.spans.PutNewOn(s, keys, b.Vals, noFound) },
		func() error { return t.spans.GetOn(s, keys, b.Vals, noFound) },
		func() error { return b.Sort(s) },
		func() error { return t.spans.PutOn(s, keys, b.Vals) },
		func() error { return t.spans.Sync(ctx) },
	} {
		if err := errors.Join(ctx.Err(), step()); err != nil {
			return err
		}
	}
	return nil
}

// find submits a lookup of keys, which writes their spans.
func (t *gpuTable[K]) find(s *device.Stream, keys device.Slice[K], spans device.Slice[uint64]) error {
	return t.spans.GetOn(s, keys, spans, device.Slice[bool]{})
}

func (t *gpuTable[K]) free() error { return errors.Join(t.spans.Close(), t.rows.Free()) }

// remoteIndex is an index of host columns on a GPU. Words are copied to the GPU, and spans back.
type remoteIndex[K word] struct {
	host      device.Host
	table     *gpuTable[K]
	stream    *device.Stream // stream of the build
	rows      []uint32       // in the layout of table.rows
	keyedRows []uint32       // rows with a key; nil if all rows have one
	nulls     span
}

func newRemoteIndex[K word](ctx context.Context, dev device.Device, host device.Host, src *source[K]) (*remoteIndex[K], error) {
	c := &remoteIndex[K]{host: host}
	if err := c.build(ctx, dev, src); err != nil {
		return nil, errors.Join(err, c.free())
	}
	return c, nil
}

func (c *remoteIndex[K]) build(ctx context.Context, dev device.Device, src *source[K]) (err error) {
	words, nulls := c.readWords(src)
	if c.stream, err = dev.NewStream(); err != nil {
		return err
	}
	keys, err := device.Upload(c.stream, words)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stream.Sync(context.WithoutCancel(ctx)), keys.Free()) }()
	if c.table, err = newGPUTable(ctx, c.stream, keys); err != nil {
		return err
	}
	c.rows = make([]uint32, len(words), src.n)
	if err := c.table.rows.CopyTo(ctx, c.stream, c.rows); err != nil {
		return err
	}
	if src.plan.nulls && len(nulls) > 0 {
		if c.nulls = (span{uint32(len(words)), uint32(len(nulls))}); len(nulls) == 1 {
			c.nulls.at = nulls[0]
		}
	}
	if c.keyedRows != nil {
		for i, row := range c.rows {
			c.rows[i] = c.keyedRows[row]
		}
		c.rows = append(c.rows, nulls...)
	}
	return c.table.rows.Free()
}

// readWords returns the words of the rows with a key, and the numbers of the rows without one. It
// sets c.keyedRows.
func (c *remoteIndex[K]) readWords(src *source[K]) (words []K, nulls []uint32) {
	if src.words != nil && !src.nulls {
		return src.words, nil
	}
	b := new(block[K])
	if src.nulls {
		c.keyedRows = []uint32{}
	}
	for lo := 0; lo < src.n; lo += blockRows {
		read, null := src.read(b, lo, min(lo+blockRows, src.n))
		if null == nil {
			words = append(words, read...)
			continue
		}
		for i, k := range read {
			if null[i] {
				nulls = append(nulls, uint32(lo+i))
			} else {
				words, c.keyedRows = append(words, k), append(c.keyedRows, uint32(lo+i))
			}
		}
	}
	return words, nulls
}

func (c *remoteIndex[K]) matches() []uint32 { return c.rows }

func (c *remoteIndex[K]) distinct() int {
	if c.nulls.n > 0 {
		return c.table.spans.Len() + 1
	}
	return c.table.spans.Len()
}

func (c *remoteIndex[K]) bytes(ctx context.Context) (int, error) {
	n, err := c.table.spans.Size(ctx)
	return n + 4*(len(c.rows)+len(c.keyedRows)), err
}

func (c *remoteIndex[K]) free() (err error) {
	if c.table != nil {
		err = c.table.free()
	}
	if c.stream != nil {
		err = errors.Join(err, c.stream.Close())
	}
	return err
}

// remoteProber looks up rows of the host on a GPU.
type remoteProber[K word] struct {
	*remoteIndex[K]
	src   *source[K]
	words device.Slice[K] // words of a piece
}

func (c *remoteIndex[K]) probe(_ context.Context, p *plan, keys []column.Column) (prober, error) {
	src := sourceOf[K](p, keys)
	if src.words != nil {
		return &remoteProber[K]{remoteIndex: c, src: src}, nil
	}
	words, err := device.Make[K](c.host, min(src.n, pieceRows))
	return &remoteProber[K]{remoteIndex: c, src: src, words: words}, err
}

func (l *remoteProber[K]) free() error { return l.words.Free() }

func (l *remoteProber[K]) locate(ctx context.Context, lo, hi int, out []span) error {
	n := hi - lo
	words := l.words.Host()
	if l.src.words != nil {
		words = l.src.words[lo:hi]
	} else {
		l.host.Parallel(n, 1<<14, func(from, to int) {
			b := new(block[K])
			for ; from < to; from += blockRows {
				read, _ := l.src.read(b, lo+from, lo+min(from+blockRows, to))
				copy(words[from:], read)
			}
		})
	}
	found := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(out))), n)
	if _, err := l.table.spans.Get(ctx, words[:n], found, nil); err != nil {
		return err
	}
	l.host.Parallel(n, 1<<14, func(from, to int) { l.translateRows(lo, out, from, to) })
	return nil
}

// translateRows replaces the rows in spans by rows of the build side, and sets the spans of rows
// with nulls.
func (l *remoteProber[K]) translateRows(lo int, out []span, from, to int) {
	for i := from; i < to && l.keyedRows != nil; i++ {
		if out[i].n == 1 {
			out[i].at = l.keyedRows[out[i].at]
		}
	}
	if !l.src.nulls {
		return
	}
	b := new(block[K])
	for ; from < to; from += blockRows {
		_, null := l.src.read(b, lo+from, lo+min(from+blockRows, to))
		for i, isNull := range null {
			if isNull {
				out[from+i] = l.nulls
			}
		}
	}
}
