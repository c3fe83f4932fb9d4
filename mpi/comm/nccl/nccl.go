// Package nccl exchanges memory of NVIDIA GPUs through NCCL, between the GPUs of one host or of
// several. It is based on another engine: on package mpi with one process per GPU, or on package
// local with one goroutine per GPU. The base engine starts the ranks, exchanges host memory, and
// ends the job when a rank dies.
//
// NCCL (libnccl.so.2) and the CUDA driver are opened at run time. The library is the one that
// [Options] name. The next choices are the environment variable WEFT_NCCL_LIBRARY, and the library
// that the system's loader finds. Python packages of NCCL have it in nvidia/nccl/lib.
//
// NCCL supports one rank per GPU. Two H200 on NVLink send 264 GB/s each in parts of 256 MiB, by
// NCCL 2.28.3 (2026-11-30).
package nccl

import (
	"context"
	"fmt"
	"runtime"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/internal/gpu"
)

// Options configure NCCL.
type Options struct {
	// Library is the name or the path of the NCCL library. Default: see the package comment.
	Library string
}

// New returns a Comm with the ranks of base that exchanges memory of dev through NCCL. dev must be
// a device of package device/cuda. If any rank passes a buffer of the host or of another device,
// base performs the exchange. New is collective. The Comm owns base: its Close closes base.
func New(ctx context.Context, base comm.Comm, dev device.Device, opts *Options) (comm.Comm, error) {
	if opts == nil {
		opts = new(Options)
	}
	t, err := open(base, dev, opts)
	id := make([]uint64, idWords)
	if err == nil && base.Rank() == 0 {
		err = t.uniqueID(id)
	}
	ids, err := gpu.Agree(ctx, base, id, err)
	if err == nil {
		t.gpu.Thread.Do(func() { err = t.initRank(&t.handle, ids[:idWords], t.size, t.rank) })
		// NCCL may fail on some ranks only.
		_, err = gpu.Agree(ctx, base, nil, err)
	}
	if err != nil {
		if t != nil {
			t.Close(true)
		}
		return nil, err
	}
	again := func(ctx context.Context, base comm.Comm) (comm.Comm, error) { return New(ctx, base, dev, opts) }
	return &gpu.Rank{Comm: base, Device: dev, Transport: t, Reopen: again}, nil
}

type transport struct {
	*library
	gpu        *gpu.GPU
	handle     uintptr // handle of the group; 0 if none
	rank, size int
	aborted    <-chan struct{}
}

func open(base comm.Comm, dev device.Device, opts *Options) (*transport, error) {
	g, err := gpu.Open(dev)
	if err != nil {
		return nil, fmt.Errorf("nccl: %w", err)
	}
	l, err := openLibrary(opts.Library)
	if err != nil {
		g.Close()
		return nil, err
	}
	return &transport{library: l, gpu: g, rank: base.Rank(), size: base.Size(), aborted: gpu.Aborted(base)}, nil
}

// maxBytes bounds the bytes that a rank sends in one round. Above this size, all-to-alls of several
// GPUs lose 12 to 15 % of their speed. It is a variable because tests lower it.
var maxBytes = 512 << 20

// Exchange implements gpu.Transport. Each round is a group of sends and receives of pieces. The
// largest part of all ranks determines the number of rounds.
func (t *transport) Exchange(p *gpu.Parts) (err error) {
	piece := max(maxBytes/t.size, 1)
	if own := p.SendBytes[t.rank]; own > 0 {
		to, from := p.Recv.Part(p.RecvAt[t.rank], own), p.Send.Part(p.SendAt[t.rank], own)
		if err := p.Recv.Stream.Copy(to.On.Ptr(), from.On.Ptr(), int(own)); err != nil {
			return err
		}
	}
	t.gpu.Thread.Do(func() {
		for at := 0; at < p.Largest && err == nil; at += piece {
			err = t.round(p, at, piece)
		}
		if err == nil {
			err = t.gpu.Wait(t.asyncError, t.aborted)
		}
		if err != nil {
			t.abandon()
		}
	})
	runtime.KeepAlive(p)
	return err
}

// round submits the exchange of bytes [at,at+piece) of each part, as far as the part has them.
func (t *transport) round(p *gpu.Parts, at, piece int) error {
	if err := t.call(fnGroupStart); err != nil {
		return err
	}
	submit := func(fn, peer int, b comm.Buf, start, length int64) error {
		n := min(int(length)-at, piece)
		if n <= 0 || peer == t.rank {
			return nil
		}
		return t.call(fn, uintptr(b.On.Ptr())+uintptr(start)+uintptr(at), uintptr(n), typeUint8,
			uintptr(peer), t.handle, t.gpu.Stream)
	}
	var err error
	for peer := 0; peer < t.size && err == nil; peer++ {
		if err = submit(fnSend, peer, p.Send, p.SendAt[peer], p.SendBytes[peer]); err == nil {
			err = submit(fnRecv, peer, p.Recv, p.RecvAt[peer], p.RecvBytes[peer])
		}
	}
	if ended := t.call(fnGroupEnd); err == nil {
		err = ended
	}
	return err
}

// abandon aborts the group, and waits until its work no longer accesses buffers. It must run on the
// thread.
func (t *transport) abandon() {
	if t.handle == 0 {
		return
	}
	t.call(fnAbort, t.handle) // ignores the error, because an earlier one is returned
	t.handle = 0
	t.gpu.Drain()
}

// Close implements gpu.Transport. It does not destroy an aborted group, because that could wait for
// other ranks.
func (t *transport) Close(aborted bool) (err error) {
	t.gpu.Thread.Do(func() {
		if aborted {
			t.abandon()
		} else {
			err = t.call(fnDestroy, t.handle)
		}
	})
	t.gpu.Close()
	return err
}
