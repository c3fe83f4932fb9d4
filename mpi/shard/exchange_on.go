package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/parts"
	"github.com/weftgo/weft/mpi/comm"
)

// exchangeOn is exchange for a batch in the memory of a device, in the same steps. Rows are stable:
// a rank receives them in the order of ranks, then of rows, so duplicates mean the same.
type exchangeOn[K weft.Key] struct {
	*exchange
	mem      *memoryOn
	stream   *device.Stream
	received device.Slice[K]
}

// Buffers of a device. Out and in follow each other, as in exchange.
const (
	onScratch = iota
	onRows    // by place in send order
	onOffsets // of the ranks in it
	onKeysOut
	onKeysIn
	onValsOut
	onValsIn
	onAnswersOut
	onAnswersIn
	onFlagsOut
	onFlagsIn
	numOn
)

// memoryOn is memory of a device that is kept between calls.
type memoryOn struct {
	buffers [numOn]device.Slice[byte]
	last    *device.Stream // of the last call, which may still be in progress
}

// settle waits until the last call is done, and reads of its memory by peers. A stream that the
// caller has closed since has done its work.
func (m *memoryOn) settle(ctx context.Context) error {
	if m.last == nil {
		return nil
	}
	if err := m.last.Sync(ctx); err != nil && !errors.Is(err, device.ErrClosed) {
		return err
	}
	m.last = nil
	return nil
}

// free returns the memory, when the last call is done.
func (m *memoryOn) free() error {
	if err := m.settle(context.Background()); err != nil {
		return err
	}
	for i := range m.buffers {
		if err := m.buffers[i].Free(); err != nil {
			return err
		}
		m.buffers[i] = device.Slice[byte]{}
	}
	return nil
}

// reserve makes room for some bytes.
func (m *memoryOn) reserve(dev device.Device, which, bytes int) (err error) {
	b := &m.buffers[which]
	if b.Len() >= bytes {
		return nil
	}
	if b.Len() > 0 { // peers may still read it, and the stream waits for them
		if err := m.settle(context.Background()); err != nil {
			return err
		}
	}
	if err := b.Free(); err != nil {
		return err
	}
	*b, err = device.Make[byte](dev, bytes+bytes/8)
	return err
}

// headRoom is the word of a head with the rows that may come without more memory.
const headRoom = headArg

// isIn reports whether a buffer has a row for each received row, and not for each sent one.
func isIn(which int) bool {
	return which == onKeysIn || which == onValsIn || which == onAnswersOut || which == onFlagsOut
}

// widthOn returns the bytes of a buffer for each row.
func widthOn(which int) int {
	if which >= onFlagsOut {
		return 1
	}
	return 8
}

// room returns the number of rows that may come without more memory.
func (m *memoryOn) room() int {
	rows := math.MaxInt
	for which := onKeysOut; which < numOn; which++ {
		if isIn(which) {
			rows = min(rows, m.buffers[which].Len()/widthOn(which))
		}
	}
	return rows
}

// slotMask keeps the bits of hashes that say the slot.
const slotMask = (Slots - 1) << (64 - slotBits)

// errNotOn is the error of structures that take no batches on a device.
var errNotOn = fmt.Errorf("%w: the structure of the shard takes no batches on a device",
	device.ErrUnsupported)

// callOn runs a call on all ranks. ok says whether the structure of this rank takes batches on a
// device. f exchanges columns and runs the batch after the keys are received.
func callOn[K weft.Key](
	ctx context.Context, t *table[K], s *device.Stream, m method, arg uint8, keys device.Slice[K],
	flags device.Slice[bool], ok bool, f func(*exchangeOn[K]),
) error {
	x := &exchangeOn[K]{
		exchange: t.r.open(t.sign(m, arg)|signOn, &t.owners),
		mem:      &t.r.on,
		stream:   s,
	}
	defer x.close()
	var before error
	switch {
	case !ok:
		before = errNotOn
	case t.owners.first != nil:
		before = fmt.Errorf("%w: batches on a device are exchanged by slots only",
			device.ErrUnsupported)
	case ctx.Err() == nil:
		before = x.partition(ctx, keys)
	}
	if before != nil {
		clear(x.sent)
	}
	t.r.head[headRoom] = uint64(x.mem.room())
	x.agree(ctx, before, flags.Len() > 0)
	x.ready()
	x.received = forthOn(x, onKeysOut, keys)
	f(x)
	_, err := x.endWhole()
	return err
}

// partition finds the send order of keys, and the number of keys for each rank.
func (x *exchangeOn[K]) partition(ctx context.Context, keys device.Slice[K]) error {
	dev, size := x.stream.Device(), x.r.size
	if x.mem.last != x.stream { // it uses the memory
		if err := x.mem.settle(ctx); err != nil {
			return err
		}
	}
	x.mem.last, x.n = x.stream, keys.Len()
	p := parts.Partition{Parts: size, Mask: slotMask, Keys: parts.Keys{N: x.n, Seed: slotSeed,
		Columns: []parts.Column{{Type: uint8(column.TypeOf[K]()), Values: keys.Ptr()}}}}
	for which := range numOn {
		bytes := x.n * widthOn(which)
		switch which {
		case onScratch:
			bytes = p.ScratchBytes()
		case onRows:
			bytes = 4 * x.n
		case onOffsets:
			bytes = 4 * (size + 1)
		}
		if isIn(which) {
			continue
		}
		if err := x.mem.reserve(dev, which, bytes); err != nil {
			return err
		}
	}
	b := &x.mem.buffers
	scratch := device.Buffer{Ptr: b[onScratch].Ptr(), Size: b[onScratch].Len()}
	if err := p.Submit(x.stream, b[onRows].Ptr(), b[onOffsets].Ptr(), scratch); err != nil {
		return err
	}
	offsets := make([]uint32, size+1)
	if err := x.stream.CopyOut(context.WithoutCancel(ctx), device.Bytes(offsets), b[onOffsets].Ptr()); err != nil {
		return err
	}
	for rank := range x.sent {
		x.sent[rank] = int64(offsets[rank+1] - offsets[rank])
	}
	x.sentSum = int(offsets[size])
	return nil
}

// ready makes room for received rows. Unless all ranks have it already, they agree that they have
// it: a rank without memory would keep the others waiting.
func (x *exchangeOn[K]) ready() {
	if x.err != nil {
		return
	}
	enough := true
	for to := range x.r.size {
		rows := uint64(0)
		for from := range x.r.size {
			rows += x.r.word(from, headWords+to)
		}
		enough = enough && rows <= x.r.word(to, headRoom)
	}
	if enough {
		return
	}
	var failure error
	for which := onKeysOut; which < numOn && failure == nil; which++ {
		if isIn(which) {
			failure = x.mem.reserve(x.stream.Device(), which, x.gotSum*widthOn(which))
		}
	}
	if _, err := x.r.outcome(failure, 0); err != nil {
		x.err = err
	}
}

// bufferOn returns memory for n values, which ready has made room for.
func bufferOn[T device.Elem, K weft.Key](x *exchangeOn[K], which, n int) device.Slice[T] {
	if x.err != nil {
		return device.Slice[T]{}
	}
	b := x.mem.buffers[which]
	s, err := device.Wrap[T](
		x.stream.Device(),
		device.Buffer{Ptr: b.Ptr(), Size: b.Len(), Host: b.Host()},
		n,
	)
	if err != nil {
		x.fail(err)
	}
	return s
}

// fail keeps the first error of this rank. Exchanges go on, so that no rank waits in vain.
func (x *exchangeOn[K]) fail(err error) {
	if x.failure == nil {
		x.failure = err
	}
}

// apply submits the batch on the structure of this rank.
func (x *exchangeOn[K]) apply(submit func() error) {
	if x.err != nil || x.failure != nil {
		return
	}
	if err := submit(); err != nil {
		x.fail(err)
	}
}

// elem are the columns of a device that are exchanged.
type elem interface {
	device.Elem
	column.Fixed
}

// widths are types of columns by their width in bytes.
var widths = map[int]column.Type{1: column.Uint8, 4: column.Uint32, 8: column.Uint64}

// forthOn sends a column of the caller, and returns the values of the received rows.
func forthOn[T elem, K weft.Key](x *exchangeOn[K], out int, col device.Slice[T]) device.Slice[T] {
	if x.err != nil {
		return device.Slice[T]{}
	}
	send := x.mem.buffers[out]
	c := parts.Column{Type: uint8(widths[size[T]()]), Values: col.Ptr()}
	if err := parts.Take(x.stream, c, col.Len(), x.mem.buffers[onRows].Ptr(), x.sentSum, send.Ptr(), 0); err != nil {
		x.fail(err)
	}
	x.swap(size[T](), send, x.sent, x.mem.buffers[out+1], x.got)
	return bufferOn[T](x, out+1, x.gotSum)
}

// backOn sends the answers to the received rows, and writes those of this rank's rows to a column
// of the caller.
func backOn[T elem, K weft.Key](x *exchangeOn[K], in int, answers, to device.Slice[T]) {
	if x.err != nil {
		return
	}
	from := x.mem.buffers[in]
	x.swap(size[T](), x.mem.buffers[in-1], x.got, from, x.sent)
	if x.err != nil || to.Len() == 0 {
		return
	}
	if err := parts.Put(x.stream, from.Ptr(), size[T](), x.mem.buffers[onRows].Ptr(), x.sentSum, to.Ptr()); err != nil {
		x.fail(err)
	}
}

// swap exchanges a column by numbers of rows.
func (x *exchangeOn[K]) swap(
	width int,
	send device.Slice[byte],
	out []int64,
	recv device.Slice[byte],
	in []int64,
) {
	for i := range out {
		x.toBytes[i], x.inBytes[i] = out[i]*int64(width), in[i]*int64(width)
	}
	err := x.r.comm.AllToAllV(context.Background(), comm.Buf{On: send, Stream: x.stream}, x.toBytes,
		comm.Buf{On: recv, Stream: x.stream}, x.inBytes)
	if err != nil {
		x.err = x.r.lost(err)
	}
}

// flags returns memory for a flag of each received row, which is empty if no rank needs them.
func (x *exchangeOn[K]) flags() device.Slice[bool] {
	if !x.exchange.flags {
		return device.Slice[bool]{}
	}
	return bufferOn[bool](x, onFlagsOut, x.gotSum)
}

// flagsBack sends the flags back, if any rank needs them.
func (x *exchangeOn[K]) flagsBack(to device.Slice[bool]) {
	if x.err == nil && x.exchange.flags {
		backOn(x, onFlagsIn, device.Slice[bool]{}, to)
	}
}

func size[T any]() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}

// mustBeAsLong panics unless columns have the length of the keys.
func mustBeAsLong(m method, keys int, columns ...int) {
	if i := slices.IndexFunc(columns, func(n int) bool { return n != keys }); i >= 0 {
		panic(fmt.Sprintf("shard: %vOn: %d keys, but a column of %d rows", m, keys, columns[i]))
	}
}

// optionalOn returns the length that a column has to have: any if it is empty.
func optionalOn[K weft.Key](flags device.Slice[bool], keys device.Slice[K]) int {
	if flags.Len() == 0 {
		return keys.Len()
	}
	return flags.Len()
}
