package alloc

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
)

//go:generate go run ../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -type weft::Allocator=.Ref alloc.cu

const gpuPiece = 1 << 22

// gpuEngine launches the kernels of alloc.cu.
type gpuEngine struct {
	dev    device.Device
	stream *device.Stream
	kernel struct{ allocate, release, used, churn device.Kernel }

	// report holds the counters that kernels write. Word 0 counts the failures of a batch (32
	// bits), and word 1 the used units. Word 2 counts the failures of submitted batches and is
	// never read.
	report device.Slice[uint64]
	units  device.Slice[uint32] // buffer for addresses; grows up to gpuPiece
}

func newGPUEngine(dev device.Device) (_ engine, err error) {
	e := &gpuEngine{dev: dev}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	k := &e.kernel
	if err = gpu.Load(dev, &allocImage, []gpu.Entry{
		{Name: "allocate", To: &k.allocate}, {Name: "release", To: &k.release}, {Name: "used", To: &k.used}, {Name: "churn", To: &k.churn},
	}); err != nil {
		return nil, err
	}
	if e.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	if e.report, err = device.Make[uint64](dev, 3); err != nil {
		return nil, err
	}
	// Batches on the caller's streams count in the report and do not wait for this stream.
	return e, errors.Join(e.stream.Fill(e.report.Ptr(), 0, 6), e.stream.Sync(context.Background()))
}

func (e *gpuEngine) word(i int) device.Ptr { return e.report.Ptr() + device.Ptr(8*i) }

// read waits for the stream and reads a word of the report.
func (e *gpuEngine) read(ctx context.Context, i int) (int, error) {
	var v [1]uint64
	err := e.stream.CopyOut(ctx, device.Bytes(v[:]), e.word(i))
	return int(v[0]), err
}

// pieces calls f for each piece of a batch of n addresses and returns the sum of the failures.
// Before each call, it sets the failure count to 0 and ensures that the device buffer holds a
// piece.
func (e *gpuEngine) pieces(ctx context.Context, n int, f func(lo, hi int) error) (done, failed int, err error) {
	if size := min(n, gpuPiece); e.units.Len() < size {
		if err := e.units.Free(); err != nil {
			return 0, 0, err
		}
		if e.units, err = device.Make[uint32](e.dev, size); err != nil {
			return 0, 0, err
		}
	}
	for lo := 0; lo < n; lo += gpuPiece {
		if err := ctx.Err(); err != nil {
			return lo, failed, err
		}
		hi := min(lo+gpuPiece, n)
		if err := errors.Join(e.stream.Fill(e.word(0), 0, 2), f(lo, hi)); err != nil {
			return lo, failed, err
		}
		// A launched kernel runs to its end, even if the context ends.
		f, err := e.read(context.WithoutCancel(ctx), 0)
		if err != nil {
			return lo, failed, err
		}
		failed += f
	}
	return n, failed, nil
}

func (e *gpuEngine) allocate(ctx context.Context, v view, units []uint32) (done, missing int, err error) {
	return e.pieces(ctx, len(units), func(lo, hi int) error {
		if err := e.launchAllocate(e.stream, v, e.units.Ptr(), hi-lo, e.word(0)); err != nil {
			return err
		}
		return e.stream.CopyOut(context.WithoutCancel(ctx), device.Bytes(units[lo:hi]), e.units.Ptr())
	})
}

func (e *gpuEngine) release(ctx context.Context, v view, units []uint32) (done, invalid int, err error) {
	return e.pieces(ctx, len(units), func(lo, hi int) error {
		if err := e.stream.CopyIn(e.units.Ptr(), device.Bytes(units[lo:hi])); err != nil {
			return err
		}
		return e.launchRelease(e.stream, v, e.units.Ptr(), hi-lo, e.word(0))
	})
}

func (e *gpuEngine) allocateOn(s *device.Stream, v view, units device.Slice[uint32]) error {
	return e.launchAllocate(s, v, units.Ptr(), units.Len(), e.word(2))
}

func (e *gpuEngine) releaseOn(s *device.Stream, v view, units device.Slice[uint32]) error {
	return e.launchRelease(s, v, units.Ptr(), units.Len(), e.word(2))
}

func (e *gpuEngine) launchAllocate(s *device.Stream, v view, units device.Ptr, n int, missing device.Ptr) error {
	if n == 0 {
		return nil
	}
	p := allocateParams{alloc: v.Ref, units: units, missing: missing, n: uint64(n)}
	return device.Launch(s, e.kernel.allocate, gpu.Grid(n), gpu.Block, &p)
}

func (e *gpuEngine) launchRelease(s *device.Stream, v view, units device.Ptr, n int, invalid device.Ptr) error {
	if n == 0 {
		return nil
	}
	p := releaseParams{alloc: v.Ref, units: units, invalid: invalid, n: uint64(n)}
	return device.Launch(s, e.kernel.release, gpu.Grid(n), gpu.Block, &p)
}

func (e *gpuEngine) used(ctx context.Context, v view) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := e.stream.Fill(e.word(1), 0, 2); err != nil {
		return 0, err
	}
	p := usedParams{alloc: v.Ref, used: e.word(1)}
	words := int(v.Count) * bitmapWords
	if err := device.Launch(e.stream, e.kernel.used, gpu.Wave(e.dev, words), gpu.Block, &p); err != nil {
		return 0, err
	}
	// The next call may write the words that the kernel reads, so wait in any case.
	return e.read(context.WithoutCancel(ctx), 1)
}

func (e *gpuEngine) close() (err error) {
	if e.stream != nil {
		err = e.stream.Close()
	}
	return errors.Join(err, e.report.Free(), e.units.Free())
}
