package roofline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft/device"
)

// measureHostCopies measures copies from and to page-locked host memory, and both at once on two
// streams.
func (g *gpu) measureHostCopies(ctx context.Context) (err error) {
	if !g.selectedAny(HostToDevice, DeviceToHost, HostBoth) {
		return nil
	}
	size := min(pinnedSize, g.opts.Region/2/256*256)
	if size == 0 {
		return fmt.Errorf("host copies: %w: a region of %d bytes is too small", device.ErrInvalid, g.opts.Region)
	}
	in, err := g.dev.AllocHost(size)
	if err != nil {
		return fmt.Errorf("host copies: %w", err)
	}
	defer func() { err = errors.Join(err, g.dev.FreeHost(in)) }()
	out, err := g.dev.AllocHost(size)
	if err != nil {
		return fmt.Errorf("host copies: %w", err)
	}
	defer func() { err = errors.Join(err, g.dev.FreeHost(out)) }()
	// Runs before FreeHost, because work may use the memory after a canceled wait.
	defer func() { err = errors.Join(err, g.stream.Sync(context.WithoutCancel(ctx))) }()

	toDevice := func() error { return g.stream.CopyInAsync(g.region.Ptr(), in) }
	toHost := func() error { return g.stream.CopyOutAsync(out, g.region.Ptr()+device.Ptr(size)) }
	submitBoth, closeBoth, err := g.copyBothWays(in, out)
	if err != nil {
		return fmt.Errorf("host copies: %w", err)
	}
	defer func() { err = errors.Join(err, closeBoth()) }()

	for _, c := range []struct {
		limit  string
		bytes  int
		submit func() error
	}{{HostToDevice, size, toDevice}, {DeviceToHost, size, toHost}, {HostBoth, 2 * size, submitBoth}} {
		if !g.selected(c.limit) {
			continue
		}
		var t time.Duration
		if t, err = g.median(ctx, c.submit); err != nil {
			return fmt.Errorf("%s: %w", c.limit, err)
		}
		g.record(c.limit, Rate(c.bytes, t), 1)
	}
	return nil
}

// copyBothWays returns a function that submits a copy in each direction. The second copy is on
// another stream, which forks from the first stream and joins it again. Events on the first stream
// thus enclose both.
func (g *gpu) copyBothWays(in, out []byte) (submit, closeAll func() error, err error) {
	second, err := g.dev.NewStream()
	if err != nil {
		return nil, nil, err
	}
	fork, err := g.dev.NewEvent()
	if err != nil {
		return nil, nil, errors.Join(err, second.Close())
	}
	join, err := g.dev.NewEvent()
	if err != nil {
		return nil, nil, errors.Join(err, fork.Close(), second.Close())
	}
	submit = func() error {
		return errors.Join(
			g.stream.Record(fork),
			second.Wait(fork),
			g.stream.CopyInAsync(g.region.Ptr(), in),
			second.CopyOutAsync(out, g.region.Ptr()+device.Ptr(len(in))),
			second.Record(join),
			g.stream.Wait(join),
		)
	}
	closeAll = func() error { // a submission that failed halfway may still be running
		ctx := context.Background()
		return errors.Join(g.stream.Sync(ctx), second.Sync(ctx), second.Close(), fork.Close(), join.Close())
	}
	return submit, closeAll, nil
}
