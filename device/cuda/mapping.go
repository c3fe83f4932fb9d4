package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weftgo/weft/device"
)

// mapPiece is the number of bytes of host memory that one driver call page-locks. Pieces end at
// multiples of mapPiece. Locking a GiB takes some 35 ms, or ten times as long if no page has been
// touched. Other callers of the driver wait meanwhile.
const mapPiece = 1 << 30

// Map implements [device.Device]. Memory that AllocHost of any device of this package returned can
// be mapped on every GPU. Map page-locks other memory, as Register does, which is possible on one
// GPU at a time. Kernels that run while the host reads b need accesses and fences of system scope.
func (d *Device) Map(host []byte) (b device.Buffer, unmap func() error, err error) {
	return d.MapContext(context.Background(), host)
}

// MapContext implements [device.ContextMapper].
func (d *Device) MapContext(ctx context.Context, host []byte) (b device.Buffer, unmap func() error, err error) {
	if err := device.CheckMap(host); err != nil {
		return b, nil, fmt.Errorf("cuda: %w", err)
	}
	if !d.mapped.add(d, host, false) {
		return b, nil, invalid("Map of %d bytes: a part is mapped already", len(host))
	}
	var at device.Ptr
	var pieces [][]byte // to be unlocked by unmap
	if found, pinned := d.drv.pinned.find(host); pinned && found.host {
		err = d.do(func(fr *frame) error { at, err = fr.devicePointer(host); return err })
	} else {
		at, pieces, err = d.pageLock(ctx, host)
	}
	if err != nil {
		d.mapped.remove(d, host, false)
		return b, nil, err
	}
	if pieces != nil {
		d.drv.pinned.add(d, host, false)
	}
	if len(pieces) > 1 {
		d.pieces.add(d, host, false)
	}
	var done atomic.Bool
	return device.Buffer{Ptr: at, Size: len(host)}, func() error {
		if done.Swap(true) {
			return nil
		}
		d.mapped.remove(d, host, false)
		d.pieces.remove(d, host, false)
		if pieces != nil {
			d.drv.pinned.remove(d, host, false)
		}
		return d.pageUnlock(pieces)
	}, nil
}

// pageLock page-locks host memory and returns its address on the GPU. Usually the GPU uses the
// host's addresses, and pageLock locks piece by piece. Otherwise separate pieces would have
// unrelated addresses, so pageLock locks the whole memory at once.
func (d *Device) pageLock(ctx context.Context, host []byte) (at device.Ptr, pieces [][]byte, err error) {
	for remaining := host; len(remaining) > 0 && err == nil; {
		if err = ctx.Err(); err != nil {
			err = fmt.Errorf("cuda: mapping %d bytes, %d of them mapped so far: %w", len(host),
				len(host)-len(remaining), err)
			break
		}
		piece := remaining[:min(uintptr(len(remaining)), d.pieceBytes-address(remaining)%d.pieceBytes)]
		var addr device.Ptr
		if addr, err = d.lockPiece(piece); err != nil {
			break
		}
		if pieces, remaining = append(pieces, piece), remaining[len(piece):]; len(pieces) == 1 {
			at = addr
		}
		if len(piece) < len(host) && uintptr(addr) != address(piece) {
			if err = d.pageUnlock(pieces); err == nil {
				at, err = d.lockPiece(host)
				return at, [][]byte{host}, err
			}
			return 0, nil, err
		}
	}
	if err != nil {
		err = errors.Join(err, d.pageUnlock(pieces))
	}
	return at, pieces, err
}

// lockPiece page-locks a piece and returns its address on the GPU.
func (d *Device) lockPiece(piece []byte) (at device.Ptr, err error) {
	err = d.do(func(fr *frame) (err error) {
		if err = fr.register(piece, memHostPortable|memHostDeviceMap); err != nil {
			return fmt.Errorf("mapping %d bytes: %w", len(piece), err)
		}
		if at, err = fr.devicePointer(piece); err != nil {
			err = errors.Join(err, fr.unregister(piece))
		}
		return err
	})
	return at, err
}

func (d *Device) pageUnlock(pieces [][]byte) (err error) {
	for _, piece := range pieces {
		err = errors.Join(err, d.release(func(fr *frame) error { return fr.unregister(piece) }))
	}
	return err
}

// bytesInPiece returns how many of n bytes lie in the same piece as the first of them. at is the
// address of the first byte. The driver refuses copies and fills that span two pieces.
func (d *Device) bytesInPiece(at, n uintptr) uintptr {
	if !d.pieces.covers(at) && !d.pieces.covers(at+n-1) {
		return n
	}
	return min(n, d.pieceBytes-at%d.pieceBytes)
}

// devicePointer returns the GPU's address of page-locked memory.
func (fr *frame) devicePointer(host []byte) (device.Ptr, error) {
	const flags = 0
	err := fr.call(symMemHostGetDevicePointer, fr.result(0), address(host), flags)
	return device.Ptr(fr.out[0]), err
}

func (fr *frame) register(b []byte, flags uintptr) error {
	fr.held = b
	err := fr.call(symMemHostRegister, address(b), uintptr(len(b)), flags)
	switch codeOf(err) {
	case alreadyRegistered:
		return fmt.Errorf("a part is registered or mapped already, or shares a page with memory that is: %w", err)
	case invalidValue, operatingSystem, notPermitted, notSupported:
		return fmt.Errorf("%w: %w; only writable anonymous memory and shared mappings of files on tmpfs, memfd and hugetlbfs can be page-locked for a GPU, not files on ext4, xfs, btrfs or overlays",
			device.ErrUnsupported, err)
	}
	return err
}

func (fr *frame) unregister(b []byte) error { return fr.call(symMemHostUnregister, address(b)) }
