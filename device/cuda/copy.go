package cuda

import (
	"context"

	"github.com/weftgo/weft/device"
)

// CopyIn copies pageable memory through the ring. It copies page-locked memory directly, and waits
// for the copy, because the caller may change src next.
func (s *stream) CopyIn(dst device.Ptr, src []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	switch {
	case len(src) == 0:
		return nil
	case !s.dev.drv.pinned.holds(src):
		return s.ring.copyIn(dst, src)
	}
	if err := s.copyInDirect(dst, src); err != nil {
		return err
	}
	return s.sync(context.Background())
}

// CopyOut copies to pageable memory through the ring, and to page-locked memory directly. In a
// direct copy, ctx can end only the wait for earlier work. The copy itself is short, and must
// complete before the caller may use dst.
func (s *stream) CopyOut(ctx context.Context, dst []byte, src device.Ptr) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := ctx.Err(); err != nil || len(dst) == 0 {
		return err
	}
	if !s.dev.drv.pinned.holds(dst) {
		return s.ring.copyOut(ctx, dst, src)
	}
	if ctx.Done() != nil {
		if err := s.sync(ctx); err != nil {
			return err
		}
	}
	if err := s.copyOutDirect(dst, src); err != nil {
		return err
	}
	return s.sync(context.Background())
}

func (s *stream) CopyInAsync(dst device.Ptr, src []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.checkPinned("CopyInAsync", src); err != nil || len(src) == 0 {
		return err
	}
	return s.copyInDirect(dst, src)
}

func (s *stream) CopyOutAsync(dst []byte, src device.Ptr) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.checkPinned("CopyOutAsync", dst); err != nil || len(dst) == 0 {
		return err
	}
	return s.copyOutDirect(dst, src)
}

// checkPinned returns an error if b is not page-locked. The driver would copy such memory
// synchronously, and the Go runtime could move or free it meanwhile.
func (s *stream) checkPinned(op string, b []byte) error {
	if len(b) > 0 && !s.dev.drv.pinned.holds(b) {
		return invalid("%s of %d bytes of host memory that are not from AllocHost, Register or Map", op, len(b))
	}
	return nil
}

func (s *stream) copyInDirect(dst device.Ptr, src []byte) error {
	return s.dev.do(func(fr *frame) error {
		for len(src) > 0 {
			n := min(s.dev.bytesInPiece(uintptr(dst), uintptr(len(src))), s.dev.bytesInPiece(address(src), uintptr(len(src))))
			if err := fr.call(symMemcpyHtoDAsync, uintptr(dst), address(src), n, s.handle); err != nil {
				return err
			}
			dst, src = dst+device.Ptr(n), src[n:]
		}
		return nil
	})
}

func (s *stream) copyOutDirect(dst []byte, src device.Ptr) error {
	return s.dev.do(func(fr *frame) error {
		for len(dst) > 0 {
			n := min(s.dev.bytesInPiece(uintptr(src), uintptr(len(dst))), s.dev.bytesInPiece(address(dst), uintptr(len(dst))))
			if err := fr.call(symMemcpyDtoHAsync, address(dst), uintptr(src), n, s.handle); err != nil {
				return err
			}
			src, dst = src+device.Ptr(n), dst[n:]
		}
		return nil
	})
}
