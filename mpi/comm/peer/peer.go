// Package peer exchanges memory of the NVIDIA GPUs of one host by copies of the CUDA driver: each
// rank fetches its parts from the memory of the others. It needs no NCCL. It stands on package
// local, with one goroutine for each rank, and several ranks may share a GPU:
//
//	err := local.Run(ctx, len(devices), func(ctx context.Context, base comm.Comm) error {
//		c, err := peer.New(ctx, base, devices[base.Rank()])
//		…
//
// Two H200 on NVLink send 323 GB/s each in parts of 256 MiB (2026-11-30).
//
// Between GPUs without a link of their own the driver copies through the host. Buffers are memory
// of Alloc or Make: the driver gives other GPUs no access to that of a device.Range.
package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/gpu"
)

// New returns a Comm with the ranks of base, a group of package local, that copies memory of dev, a
// device of package device/cuda. Buffers of the host and of other devices go through base, if one
// rank has such. New is collective. The Comm takes base over: its Close closes base.
func New(ctx context.Context, base comm.Comm, dev device.Device) (comm.Comm, error) {
	t, err := open(ctx, base, dev)
	if err != nil {
		return nil, err
	}
	again := func(ctx context.Context, base comm.Comm) (comm.Comm, error) { return New(ctx, base, dev) }
	return &gpu.Rank{Comm: base, Device: dev, Transport: t, Again: again}, nil
}

// reader is what this package needs of package local.
type reader interface {
	// Read runs f, which reads memory of peers. Peers of an aborted group free it after that.
	Read(f func() error) error
}

// transport implements gpu.Transport.
type transport struct {
	base     comm.Comm
	gpu      *gpu.GPU
	contexts []uint64 // of the GPUs of all ranks
}

// open opens the GPU of a rank and gives it access to the others.
func open(ctx context.Context, base comm.Comm, dev device.Device) (*transport, error) {
	var g *gpu.GPU
	err := errors.New("peer: the ranks are not those of package local: addresses hold in one process")
	if _, ok := base.(reader); ok {
		if g, err = gpu.Open(dev); err != nil {
			err = fmt.Errorf("peer: %w", err)
		}
	}
	own := []uint64{0}
	if g != nil {
		own[0] = uint64(g.Context)
	}
	contexts, err := gpu.Agree(ctx, base, own, err)
	if err == nil {
		g.Thread.Do(func() { err = enable(g, contexts) })
		_, err = gpu.Agree(ctx, base, nil, err)
	}
	if err != nil {
		if g != nil {
			g.Close()
		}
		return nil, err
	}
	return &transport{base, g, contexts}, nil
}

// Error codes of the driver that leave copies to work.
const (
	peerUnsupported    = 217 // CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: copies go through the host
	peerAlreadyEnabled = 704 // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
)

// enable has a GPU read the memory of others.
func enable(g *gpu.GPU, contexts []uint64) error {
	for _, peer := range contexts {
		if uintptr(peer) == g.Context {
			continue
		}
		err := g.Call(gpu.EnablePeerAccess, uintptr(peer), 0)
		var code *gpu.Error
		if errors.As(err, &code) && (code.Code == peerUnsupported || code.Code == peerAlreadyEnabled) {
			continue
		}
		if err != nil {
			return fmt.Errorf("peer: %w", err)
		}
	}
	return nil
}

// Exchange implements gpu.Transport: ranks publish where their parts lie, copy the parts of others,
// and wait for each other.
func (t *transport) Exchange(p *gpu.Parts) error {
	send := []uint64{uint64(p.Send.On.Ptr())}
	for _, at := range p.SendAt {
		send = append(send, uint64(at))
	}
	all := make([]uint64, len(send)*t.base.Size())
	if err := t.base.AllGather(context.Background(), send, all); err != nil {
		return err
	}
	err := t.base.(reader).Read(func() (err error) {
		t.gpu.Thread.Do(func() {
			if err = t.fetch(p, all, len(send)); err == nil {
				err = t.gpu.Wait(func() error { return nil }, gpu.Aborted(t.base))
			}
			t.gpu.Drain()
		})
		return err
	})
	return errors.Join(err, t.base.Barrier(context.Background()))
}

// fetch submits the copies of the parts that other ranks hold.
func (t *transport) fetch(p *gpu.Parts, all []uint64, words int) error {
	rank, size := t.base.Rank(), t.base.Size()
	for i := range size {
		peer := (rank + i) % size // ranks begin with different peers
		n := p.RecvBytes[peer]
		if n == 0 {
			continue
		}
		theirs := all[peer*words:][:words]
		err := t.gpu.Call(gpu.CopyPeer, uintptr(p.Recv.On.Ptr())+uintptr(p.RecvAt[peer]), t.gpu.Context,
			uintptr(theirs[0]+theirs[1+rank]), uintptr(t.contexts[peer]), uintptr(n), t.gpu.Stream)
		if err != nil {
			return fmt.Errorf("peer: %w", err)
		}
	}
	return nil
}

// Close implements gpu.Transport.
func (t *transport) Close(bool) error {
	t.gpu.Close()
	return nil
}
