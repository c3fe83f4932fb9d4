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

// exchangeOn is an exchange of a batch in device memory. Its steps are those of an exchange. A rank
// receives rows in the order of ranks, then of rows, so duplicate keys have the same outcome.
type exchangeOn[K weft.Key] struct {
	*exchange
	mem      *memoryOn
	stream   *device.Stream
	recvKeys device.Slice[K]
}

// Indexes in memoryOn.buffers. The buffer for receiving a column follows the buffer for sending it.
const (
	onScratch = iota
	onRows    // row at each index in send order
	onOffsets // offset of each rank in send order
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

// memoryOn is device memory that later calls reuse.
type memoryOn struct {
	buffers [numOn]device.Slice[byte]
	last    *device.Stream // stream of the last call, which may still run
}

// waitLast waits until the last call is done, including reads of its memory by other ranks. If the
// caller has closed the stream, its work is done.
func (m *memoryOn) waitLast(ctx context.Context) error {
	if m.last == nil {
		return nil
	}
	if err := m.last.Sync(ctx); err != nil && !errors.Is(err, device.ErrClosed) {
		return err
	}
	m.last = nil
	return nil
}

// free waits for the last call and frees the memory.
func (m *memoryOn) free() error {
	if err := m.waitLast(context.Background()); err != nil {
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

// reserve makes a buffer have at least the given number of bytes.
func (m *memoryOn) reserve(dev device.Device, buf, bytes int) (err error) {
	b := &m.buffers[buf]
	if b.Len() >= bytes {
		return nil
	}
	if b.Len() > 0 { // other ranks may still read it, and the stream waits for them
		if err := m.waitLast(context.Background()); err != nil {
			return err
		}
	}
	if err := b.Free(); err != nil {
		return err
	}
	*b, err = device.Make[byte](dev, bytes+bytes/8)
	return err
}

// headCapacity is the index, in the head that a rank sends at the start of a call, of the number of
// rows that it can receive without allocation.
const headCapacity = headArg

// isIn reports whether a buffer has an element per received row, not per sent row.
func isIn(buf int) bool {
	return buf == onKeysIn || buf == onValsIn || buf == onAnswersOut || buf == onFlagsOut
}

// widthOn returns the bytes per row of a buffer.
func widthOn(buf int) int {
	if buf >= onFlagsOut {
		return 1
	}
	return 8
}

// capacity returns the number of rows that this rank can receive without allocation.
func (m *memoryOn) capacity() int {
	rows := math.MaxInt
	for buf := onKeysOut; buf < numOn; buf++ {
		if isIn(buf) {
			rows = min(rows, m.buffers[buf].Len()/widthOn(buf))
		}
	}
	return rows
}

// slotMask selects the bits of a hash that determine the slot.
const slotMask = (Slots - 1) << (64 - slotBits)

// errNotOn is the error if the structure of a shard does not support batches on a device.
var errNotOn = fmt.Errorf("%w: the structure of the shard does not support batches on a device",
	device.ErrUnsupported)

// callOn runs a call on all ranks. ok reports whether the structure of this rank supports batches
// on a device. After the keys are received, f exchanges the other columns and runs the batch.
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
	t.r.head[headCapacity] = uint64(x.mem.capacity())
	x.agree(ctx, before, flags.Len() > 0)
	x.reserveReceive()
	x.recvKeys = sendColumnOn(x, onKeysOut, keys)
	f(x)
	_, err := x.endEmpty()
	return err
}

// partition computes the send order of keys, and the number of keys for each rank.
func (x *exchangeOn[K]) partition(ctx context.Context, keys device.Slice[K]) error {
	dev, size := x.stream.Device(), x.r.size
	if x.mem.last != x.stream { // the last stream uses the memory
		if err := x.mem.waitLast(ctx); err != nil {
			return err
		}
	}
	x.mem.last, x.n = x.stream, keys.Len()
	p := parts.Partition{Parts: size, Mask: slotMask, Keys: parts.Keys{N: x.n, Seed: slotSeed,
		Columns: []parts.Column{{Type: uint8(column.TypeOf[K]()), Values: keys.Ptr()}}}}
	for buf := range numOn {
		bytes := x.n * widthOn(buf)
		switch buf {
		case onScratch:
			bytes = p.ScratchBytes()
		case onRows:
			bytes = 4 * x.n
		case onOffsets:
			bytes = 4 * (size + 1)
		}
		if isIn(buf) {
			continue
		}
		if err := x.mem.reserve(dev, buf, bytes); err != nil {
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

// reserveReceive reserves memory for the received rows. If some rank must allocate, the ranks agree
// on the outcome, because a rank without memory would block the others.
func (x *exchangeOn[K]) reserveReceive() {
	if x.err != nil {
		return
	}
	fits := true
	for to := range x.r.size {
		rows := uint64(0)
		for from := range x.r.size {
			rows += x.r.word(from, headWords+to)
		}
		fits = fits && rows <= x.r.word(to, headCapacity)
	}
	if fits {
		return
	}
	var failure error
	for buf := onKeysOut; buf < numOn && failure == nil; buf++ {
		if isIn(buf) {
			failure = x.mem.reserve(x.stream.Device(), buf, x.receivedSum*widthOn(buf))
		}
	}
	if _, err := x.r.outcome(failure, 0); err != nil {
		x.err = err
	}
}

// bufferOn returns a buffer as n values. reserveReceive has reserved the memory.
func bufferOn[T device.Elem, K weft.Key](x *exchangeOn[K], buf, n int) device.Slice[T] {
	if x.err != nil {
		return device.Slice[T]{}
	}
	b := x.mem.buffers[buf]
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

func (x *exchangeOn[K]) fail(err error) {
	if x.failure == nil {
		x.failure = err
	}
}

func (x *exchangeOn[K]) apply(submit func() error) {
	if x.err != nil || x.failure != nil {
		return
	}
	if err := submit(); err != nil {
		x.fail(err)
	}
}

type elem interface {
	device.Elem
	column.Fixed
}

var widths = map[int]column.Type{1: column.Uint8, 4: column.Uint32, 8: column.Uint64}

// sendColumnOn sends a column of the caller and returns the column of the received rows.
func sendColumnOn[T elem, K weft.Key](x *exchangeOn[K], out int, col device.Slice[T]) device.Slice[T] {
	if x.err != nil {
		return device.Slice[T]{}
	}
	send := x.mem.buffers[out]
	c := parts.Column{Type: uint8(widths[size[T]()]), Values: col.Ptr()}
	if err := parts.Take(x.stream, c, col.Len(), x.mem.buffers[onRows].Ptr(), x.sentSum, send.Ptr(), 0); err != nil {
		x.fail(err)
	}
	x.swap(size[T](), send, x.sent, x.mem.buffers[out+1], x.received)
	return bufferOn[T](x, out+1, x.receivedSum)
}

// returnAnswersOn sends answers to the ranks of the received rows, and stores the answers for this
// rank's rows in the slice to.
func returnAnswersOn[T elem, K weft.Key](x *exchangeOn[K], in int, answers, to device.Slice[T]) {
	if x.err != nil {
		return
	}
	from := x.mem.buffers[in]
	x.swap(size[T](), x.mem.buffers[in-1], x.received, from, x.sent)
	if x.err != nil || to.Len() == 0 {
		return
	}
	if err := parts.Put(x.stream, from.Ptr(), size[T](), x.mem.buffers[onRows].Ptr(), x.sentSum, to.Ptr()); err != nil {
		x.fail(err)
	}
}

// swap sends out[i] values of width bytes to rank i, and receives in[i] values from it.
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
		x.err = x.r.commError(err)
	}
}

// flags returns a flag for each received row, or an empty slice if no rank needs flags.
func (x *exchangeOn[K]) flags() device.Slice[bool] {
	if !x.exchange.flags {
		return device.Slice[bool]{}
	}
	return bufferOn[bool](x, onFlagsOut, x.receivedSum)
}

func (x *exchangeOn[K]) flagsBack(to device.Slice[bool]) {
	if x.err == nil && x.exchange.flags {
		returnAnswersOn(x, onFlagsIn, device.Slice[bool]{}, to)
	}
}

func size[T any]() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}

// mustMatchLen panics if the length of a column differs from the number of keys.
func mustMatchLen(m method, keys int, columns ...int) {
	if i := slices.IndexFunc(columns, func(n int) bool { return n != keys }); i >= 0 {
		panic(fmt.Sprintf("shard: %vOn: %d keys, but a column of %d rows", m, keys, columns[i]))
	}
}

// optionalOn returns the length of flags, or of keys if flags is empty and thus omitted.
func optionalOn[K weft.Key](flags device.Slice[bool], keys device.Slice[K]) int {
	if flags.Len() == 0 {
		return keys.Len()
	}
	return flags.Len()
}
