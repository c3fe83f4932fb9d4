package experiment

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// onDevice is a note on batches in the memory of a GPU. Experiments on the gain from a GPU use such
// batches, as a program on the GPU would. Sessions make and check batches on the host; copying them
// is not timed.

const onDevice = ` Batches lie in the memory of the GPU, and so do results; the host's clock runs until all is done.`

// clocked is a byteMap that measures its last call itself, because part of the call does not count.
type clocked interface{ callTime() time.Duration }

// deviceBatches holds the columns of batches in the memory of a GPU. Several indexes use it in
// turn.
type deviceBatches struct {
	*runner
	keySize int
	all     deviceRows
	count   device.Slice[uint64] // counter that a call adds to
	last    time.Duration        // time of the last call
}

// deviceRows holds the columns of one batch in the memory of a GPU.
type deviceRows struct {
	kinds      device.Slice[weft.OpKind]
	keys, vals device.Slice[byte]
	ok         device.Slice[bool]
}

func (r *runner) newDeviceBatches(keySize, n int) (d *deviceBatches, err error) {
	d = &deviceBatches{runner: r, keySize: keySize}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.free())
		}
	}()
	if d.all.kinds, err = device.Make[weft.OpKind](r.Device, n); err != nil {
		return d, err
	}
	if d.all.keys, err = device.Make[byte](r.Device, n*keySize); err != nil {
		return d, err
	}
	if d.all.vals, err = device.Make[byte](r.Device, n*valueSize); err != nil {
		return d, err
	}
	if d.all.ok, err = device.Make[bool](r.Device, n); err != nil {
		return d, err
	}
	d.count, err = device.Make[uint64](r.Device, 1)
	return d, err
}

func (d *deviceBatches) free() error {
	return d.runner.free(&d.all.kinds, &d.all.keys, &d.all.vals, &d.all.ok, &d.count)
}

func (d *deviceBatches) callTime() time.Duration { return d.last }

// upload copies columns of n rows to the GPU. It zeroes the counter.
func (d *deviceBatches) upload(ctx context.Context, n int, kinds []weft.OpKind, keys, values []byte) (deviceRows, error) {
	b := deviceRows{d.all.kinds.Sub(0, n), d.all.keys.Sub(0, n*d.keySize), d.all.vals.Sub(0, n*valueSize), d.all.ok.Sub(0, n)}
	return b, errors.Join(b.kinds.CopyFrom(d.stream, kinds), b.keys.CopyFrom(d.stream, keys), b.vals.CopyFrom(d.stream, values),
		d.stream.Fill(d.count.Ptr(), 0, 2), d.stream.Sync(ctx))
}

func (d *deviceBatches) download(ctx context.Context, b deviceRows, values []byte, ok []bool) error {
	return errors.Join(b.vals.CopyTo(ctx, d.stream, values), b.ok.CopyTo(ctx, d.stream, ok))
}

// time returns the time that submitting work to the stream and completing it takes.
func (d *deviceBatches) time(ctx context.Context, submit func() error) (time.Duration, error) {
	start := time.Now()
	err := submit()
	if err == nil {
		err = d.stream.Sync(ctx)
	}
	return time.Since(start), err
}

// deviceMap is a byteMap that also accepts batches in the memory of a GPU.
type deviceMap interface {
	byteMap
	PutOn(s *device.Stream, keys, values device.Slice[byte], inserted ...device.Slice[uint64]) error
	GetOn(s *device.Stream, keys, values device.Slice[byte], found device.Slice[bool], hits ...device.Slice[uint64]) error
	ContainsOn(s *device.Stream, keys device.Slice[byte], found device.Slice[bool], hits ...device.Slice[uint64]) error
	DeleteOn(s *device.Stream, keys device.Slice[byte], deleted device.Slice[bool], n ...device.Slice[uint64]) error
	ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys, values device.Slice[byte], ok device.Slice[bool]) error
	Sync(ctx context.Context) error
}

// resident is an index on a GPU whose batches lie in the memory of the GPU.
type resident struct {
	deviceMap
	*deviceBatches
	// located, if not nil, receives the time of a lookup without values for each batch of lookups.
	located *[]time.Duration
}

// counted measures a call and returns the count that it produced.
func (m resident) counted(ctx context.Context, call func() error) (n int, err error) {
	if m.last, err = m.time(ctx, call); err != nil {
		return 0, err
	}
	count := make([]uint64, 1)
	err = errors.Join(m.Sync(ctx), m.count.CopyTo(ctx, m.stream, count))
	return int(count[0]), err
}

func (m resident) Put(ctx context.Context, keys, values []byte) (inserted int, err error) {
	b, err := m.upload(ctx, len(keys)/m.keySize, nil, keys, values)
	if err != nil {
		return 0, err
	}
	return m.counted(ctx, func() error { return m.PutOn(m.stream, b.keys, b.vals, m.count) })
}

func (m resident) Get(ctx context.Context, keys, values []byte, found []bool) (hits int, err error) {
	b, err := m.upload(ctx, len(found), nil, keys, nil)
	if err == nil && m.located != nil {
		var elapsed time.Duration
		elapsed, err = m.time(ctx, func() error { return m.ContainsOn(m.stream, b.keys, b.ok) })
		*m.located = append(*m.located, elapsed)
	}
	if err != nil {
		return 0, err
	}
	if hits, err = m.counted(ctx, func() error { return m.GetOn(m.stream, b.keys, b.vals, b.ok, m.count) }); err != nil {
		return 0, err
	}
	return hits, m.download(ctx, b, values, found)
}

func (m resident) Apply(ctx context.Context, kinds []weft.OpKind, keys, values []byte, ok []bool) error {
	b, err := m.upload(ctx, len(kinds), kinds, keys, values)
	if err != nil {
		return err
	}
	if _, err := m.counted(ctx, func() error { return m.ApplyOn(m.stream, b.kinds, b.keys, b.vals, b.ok) }); err != nil {
		return err
	}
	return m.download(ctx, b, values, ok)
}

// assisted is an index on the host that serves a program on a GPU. Batches and results are copied
// through page-locked memory.
type assisted struct {
	byteMap
	*deviceBatches
	host   hostRows
	copies []time.Duration // time of the copies of each call
}

// hostRows holds the columns of a batch in page-locked host memory.
type hostRows struct {
	kinds      []weft.OpKind
	keys, vals []byte
	ok         []bool
}

// newHostRows allocates as many rows as d has. undo waits for copies and frees the rows; it is
// never nil.
func (d *deviceBatches) newHostRows() (h hostRows, undo func() error, err error) {
	n := d.all.ok.Len()
	all, err := d.Device.AllocHost(n * (1 + d.keySize + valueSize + 1))
	if err != nil {
		return h, func() error { return nil }, err
	}
	kinds, rest := all[:n], all[n:]
	keys, rest := rest[:n*d.keySize], rest[n*d.keySize:]
	vals, ok := rest[:n*valueSize], rest[n*valueSize:]
	h = hostRows{unsafe.Slice((*weft.OpKind)(&kinds[0]), n), keys, vals, unsafe.Slice((*bool)(unsafe.Pointer(&ok[0])), n)}
	return h, func() error { return errors.Join(d.stream.Sync(context.Background()), d.Device.FreeHost(all)) }, nil
}

func (h hostRows) first(n int) hostRows {
	return hostRows{h.kinds[:n], h.keys[:n*len(h.keys)/len(h.ok)], h.vals[:n*valueSize], h.ok[:n]}
}

// transfer is a column to copy between host and GPU.
type transfer struct {
	host []byte
	gpu  device.Ptr
}

// call copies columns to the host, does work there, and copies columns back. It measures both the
// copies and the total.
func (m *assisted) call(ctx context.Context, toDevice []transfer, work func() error, fromDevice []transfer) error {
	out, err := m.copy(ctx, toDevice, func(t transfer) error { return m.stream.CopyOutAsync(t.host, t.gpu) })
	if err != nil {
		return err
	}
	start := time.Now()
	if err := work(); err != nil {
		return err
	}
	elapsed := time.Since(start)
	in, err := m.copy(ctx, fromDevice, func(t transfer) error { return m.stream.CopyInAsync(t.gpu, t.host) })
	m.copies = append(m.copies, out+in)
	m.last = out + elapsed + in
	return err
}

func (m *assisted) copy(ctx context.Context, columns []transfer, one func(transfer) error) (time.Duration, error) {
	return m.time(ctx, func() (err error) {
		for _, t := range columns {
			err = errors.Join(err, one(t))
		}
		return err
	})
}

func (m *assisted) Put(ctx context.Context, keys, values []byte) (inserted int, err error) {
	n := len(keys) / m.keySize
	b, err := m.upload(ctx, n, nil, keys, values)
	if err != nil {
		return 0, err
	}
	h := m.host.first(n)
	err = m.call(ctx, []transfer{{h.keys, b.keys.Ptr()}, {h.vals, b.vals.Ptr()}}, func() (err error) {
		inserted, err = m.byteMap.Put(ctx, h.keys, h.vals)
		return err
	}, nil)
	return inserted, err
}

func (m *assisted) Get(ctx context.Context, keys, values []byte, found []bool) (hits int, err error) {
	b, err := m.upload(ctx, len(found), nil, keys, nil)
	if err != nil {
		return 0, err
	}
	h := m.host.first(len(found))
	err = m.call(ctx, []transfer{{h.keys, b.keys.Ptr()}}, func() (err error) {
		hits, err = m.byteMap.Get(ctx, h.keys, h.vals, h.ok)
		return err
	}, []transfer{{h.vals, b.vals.Ptr()}, {device.Bytes(h.ok), b.ok.Ptr()}})
	if err != nil {
		return 0, err
	}
	return hits, m.download(ctx, b, values, found)
}

func (m *assisted) Apply(ctx context.Context, kinds []weft.OpKind, keys, values []byte, ok []bool) error {
	b, err := m.upload(ctx, len(kinds), kinds, keys, values)
	if err != nil {
		return err
	}
	h := m.host.first(len(kinds))
	err = m.call(ctx, []transfer{{device.Bytes(h.kinds), b.kinds.Ptr()}, {h.keys, b.keys.Ptr()}, {h.vals, b.vals.Ptr()}},
		func() error { return m.byteMap.Apply(ctx, h.kinds, h.keys, h.vals, h.ok) },
		[]transfer{{h.vals, b.vals.Ptr()}, {device.Bytes(h.ok), b.ok.Ptr()}})
	if err != nil {
		return err
	}
	return m.download(ctx, b, values, ok)
}
