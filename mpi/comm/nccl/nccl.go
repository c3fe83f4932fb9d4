// Package nccl exchanges memory of NVIDIA GPUs through NCCL, between the GPUs of a host or of many. It
// stands on another engine: on package mpi with one process for each GPU, or on package local with one
// goroutine for each GPU of a process. That engine starts the ranks, carries what lies in host memory,
// and ends the job when a rank dies.
//
// NCCL (libnccl.so.2) and the CUDA driver are opened at run time. The library is the one that [Options]
// name, else the one that the environment variable WEFT_NCCL_LIBRARY names, else the one that the
// system's loader finds. Python packages of NCCL have it in nvidia/nccl/lib.
//
// NCCL takes one rank for each GPU.
package nccl

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/mpi/comm"
)

// Options are how to open NCCL.
type Options struct {
	// Library is the name or the path of the NCCL library. Default: see the package comment.
	Library string
}

// New returns a Comm with the ranks of base that exchanges memory of dev, a device of package
// device/cuda, through NCCL. Buffers of the host and of other devices go through base, if one rank has
// such. New is collective. The Comm takes base over: its Close closes base.
func New(ctx context.Context, base comm.Comm, dev device.Device, opts *Options) (comm.Comm, error) {
	if opts == nil {
		opts = new(Options)
	}
	l, g, err := prepare(dev, opts)
	id := make([]uint64, idWords)
	if err == nil && base.Rank() == 0 {
		err = l.uniqueID(id)
	}
	ids, err := agree(ctx, base, id, err)
	if err == nil {
		err = g.join(l, ids, base.Size(), base.Rank())
	}
	// NCCL may fail on one rank only.
	if _, err = agree(ctx, base, id, err); err != nil {
		if g != nil {
			g.close()
		}
		return nil, err
	}
	return &rank{Comm: base, library: l, gpu: g, dev: dev, opts: *opts}, nil
}

// prepare opens the libraries and the GPU of a rank.
func prepare(dev device.Device, opts *Options) (*library, *gpu, error) {
	if kind := dev.Properties().Kind; kind != gpuKind {
		return nil, nil, fmt.Errorf("nccl: %w: memory of a device of kind %s", device.ErrUnsupported, kind)
	}
	l, err := openLibrary(opts.Library)
	if err != nil {
		return nil, nil, err
	}
	g, err := newGPU(dev.Properties().Index)
	return l, g, err
}

// agree fails on all ranks if err is not nil on one of them, and returns the words of rank 0.
func agree(ctx context.Context, base comm.Comm, words []uint64, err error) ([]uint64, error) {
	send := append([]uint64{0}, words...)
	if err != nil {
		send[0] = 1
	}
	all := make([]uint64, len(send)*base.Size())
	if failed := base.AllGather(ctx, send, all); failed != nil {
		return nil, errors.Join(err, failed)
	}
	if err != nil {
		return nil, err
	}
	for r := range base.Size() {
		if all[r*len(send)] != 0 {
			return nil, fmt.Errorf("%w: NCCL does not start on rank %d", comm.ErrPeer, r)
		}
	}
	return all[1:len(send)], nil
}
