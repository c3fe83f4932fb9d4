package devicetest_test

import (
	"context"
	"errors"

	"github.com/weftgo/weft/device"
)

// protocol makes calls of the host protocol in all ways in which code makes them. Tests list these
// calls from this file.
type protocol struct {
	ctx  context.Context
	dev  device.Device
	a, b *device.Stream
	e    *device.Event
	buf  device.Slice[uint32]
}

func openProtocol(ctx context.Context, dev device.Device) (p *protocol, err error) {
	p = &protocol{ctx: ctx, dev: dev}
	var errs [4]error
	p.a, errs[0] = dev.NewStream()
	p.b, errs[1] = dev.NewStream()
	p.e, errs[2] = dev.NewEvent()
	p.buf, errs[3] = device.Make[uint32](dev, 3)
	return p, errors.Join(errs[:]...)
}

func (p *protocol) close() error {
	return errors.Join(p.a.Close(), p.b.Close(), p.e.Close(), p.buf.Free())
}

// run makes all calls, some of them twice.
func (p *protocol) run() error {
	return errors.Join(
		p.statements(), p.line(), p.lines(), p.closures(), p.copies(), p.device(),
		small(p.ctx, p.a),
		small(p.ctx, p.b),
		smallPair(p.a, p.e),
		smallPair(p.b, p.e),
		generic(p, int32(0)), generic(p, float64(0)), generic(p, "?"),
	)
}

func (p *protocol) statements() error {
	err := p.a.Record(p.e)
	if e := p.b.Wait(p.e); e != nil {
		err = errors.Join(err, e)
	}
	for range 3 {
		err = errors.Join(err, p.e.Sync(p.ctx))
	}
	return err
}

//go:noinline
func (p *protocol) line() error {
	return errors.Join(p.a.Sync(p.ctx), p.b.Sync(p.ctx), p.b.Record(p.e), p.e.Sync(p.ctx), p.a.Record(p.e), p.dev.Sync(p.ctx))
}

func (p *protocol) lines() error {
	return errors.Join(
		p.a.Sync(p.ctx),
		p.
			b.
			Sync(
				p.ctx,
			), p.a.Wait(p.e),
	)
}

func (p *protocol) closures() (err error) {
	defer func() { err = errors.Join(err, p.a.Sync(p.ctx)) }()
	record := func() error { return errors.Join(p.a.Record(p.e), p.b.Record(p.e)) }
	err = errors.Join(record(), func() error { return p.a.Wait(p.e) }(), record())
	done := make(chan error)
	go func() { done <- p.b.Sync(p.ctx) }()
	return errors.Join(err, <-done)
}

func (p *protocol) copies() error {
	var host [3]uint32
	err := p.a.CopyOut(p.ctx, device.Bytes(host[:]), p.buf.Ptr())
	return errors.Join(err, p.buf.CopyTo(p.ctx, p.b, host[:]), p.buf.Sub(1, 3).CopyTo(p.ctx, p.b, host[:2]))
}

func (p *protocol) device() error { return p.dev.Sync(p.ctx) }

// small and smallPair are small enough that compilers inline them.
func small(ctx context.Context, s *device.Stream) error { return s.Sync(ctx) }

func smallPair(s *device.Stream, e *device.Event) error { return errors.Join(s.Wait(e), s.Wait(e)) }

// generic is compiled once for each of its types.
func generic[T comparable](p *protocol, v T) error {
	if v != *new(T) {
		return errors.Join(p.a.Sync(p.ctx), p.b.Sync(p.ctx))
	}
	return errors.Join(p.a.Wait(p.e), p.b.Wait(p.e))
}
