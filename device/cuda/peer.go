package cuda

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// CopyPeer implements [device.PeerDriver]. The stream's GPU reads the other GPU's memory over
// NVLink or PCIe. If it cannot access that memory, the driver copies through the host.
func (s *stream) CopyPeer(dst device.Ptr, from device.Device, src device.Ptr, size int) error {
	peer, ok := from.(*Device)
	if !ok {
		return fmt.Errorf(
			"cuda: %w: CopyPeer from a device that is not a GPU of this package", device.ErrUnsupported)
	}
	if size < 0 {
		return invalid("CopyPeer of %d bytes", size)
	}
	if peer == s.dev {
		return s.Copy(dst, src, size)
	}
	peer.life.RLock()
	defer peer.life.RUnlock()
	if peer.closed {
		return closed("device that CopyPeer copies from")
	}
	return s.do(func(fr *frame) error {
		if err := s.dev.enablePeer(fr, peer); err != nil {
			return err
		}
		for to, from, left := uintptr(dst), uintptr(src), uintptr(size); left > 0; {
			n := min(s.dev.bytesInPiece(to, left), peer.bytesInPiece(from, left))
			err := fr.call(symMemcpyPeerAsync, to, s.dev.ctx, from, peer.ctx, n, s.handle)
			if err != nil {
				return err
			}
			to, from, left = to+n, from+n, left-n
		}
		return nil
	})
}

// enablePeer lets d access the memory of peer, if the hardware supports that. Callers set the
// context of d.
func (d *Device) enablePeer(fr *frame, peer *Device) error {
	if d.ctx == peer.ctx {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.peers[peer.ctx] {
		return nil
	}
	if err := fr.call(symDeviceCanAccessPeer, fr.result(0), d.handle, peer.handle); err != nil {
		return err
	}
	if fr.int32(0) != 0 {
		const flags = 0
		if c := fr.code(symCtxEnablePeerAccess, peer.ctx, flags); c != success && c != peerAccessEnabled {
			return fr.newError(symCtxEnablePeerAccess, c)
		}
	}
	if d.peers == nil {
		d.peers = map[uintptr]bool{}
	}
	d.peers[peer.ctx] = true
	return nil
}
