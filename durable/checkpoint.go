package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/core"
)

// checkpoint writes the table to a file and makes it the beginning of the store. The log before is
// removed. Changes continue meanwhile, except those of a multimap or of a table of fixed size.
//
// The file may hold changes that came while it was written. The log has them, too, and replaying
// their effects gives the same table. A multimap would have the pairs twice, so its checkpoint
// holds the writer lock. So does that of a table of fixed size, which may have no room for pairs
// that are in the file and have been deleted since.
func (s *store) checkpoint(ctx context.Context) error {
	select {
	case s.checkpoints <- struct{}{}: // one at a time
		defer func() { <-s.checkpoints }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.closed {
		return fmt.Errorf("checkpoint: %w", weft.ErrClosed)
	}
	err := s.replaceLog(ctx)
	if errors.Is(err, errRenamed) { // which of two manifests is on the disk is unknown
		err = s.log.Fail(err)
	}
	s.log.checkpointed(err == nil)
	s.mu.Lock()
	s.checkpointErr = err
	s.mu.Unlock()
	return err
}

// replaceLog is checkpoint for the only one under way.
func (s *store) replaceLog(ctx context.Context) error {
	began := time.Now()
	next := s.manifest
	s.lastCheckpoint++
	next.Checkpoint = s.lastCheckpoint
	segment, err := createSegment(s.fs, s.log.shape, s.lastSegment+1, 0, nil)
	if err != nil {
		return err
	}
	s.lastSegment++
	rotated := false
	begin := func(core.Counters) error {
		if err := s.log.err(); err != nil {
			return err
		}
		next.Segment, next.Sequence, next.NextID = segment.number, s.log.Position()+1, s.table.NextID()
		s.log.rotate(segment)
		rotated = true
		return nil
	}
	save := func() error {
		return writeFile(s.fs, checkpointName(next.Checkpoint), func(f file) (err error) {
			next.Pairs, err = s.table.Save(ctx, nil, io.NewOffsetWriter(f, 0))
			return err
		})
	}
	if s.table.Kind == core.MultiMap || s.table.Fixed {
		err = s.table.WithWriteLock(ctx, "checkpoint", func(now core.Counters) error {
			if err := begin(now); err != nil {
				return err
			}
			return save()
		})
	} else if err = s.table.WithWriteLock(ctx, "checkpoint", begin); err == nil {
		err = save()
	}
	if !rotated {
		err = errors.Join(err, segment.Close())
	}
	if err == nil {
		err = s.publish(ctx, next)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	s.opts.Logger.Info("durable: checkpoint", "pairs", next.Pairs, "took", time.Since(began))
	return nil
}

// publish makes a checkpoint the beginning of the store. Everything that the checkpoint may hold
// must be in the log on the disk before: a change that power failure takes from the log must not
// come back, in part, with the checkpoint.
func (s *store) publish(ctx context.Context, next manifest) error {
	var position uint64
	err := s.table.WithWriteLock(ctx, "checkpoint", func(core.Counters) error {
		position = s.log.Position()
		return nil
	})
	if err == nil {
		err = s.log.flush(ctx, position)
	}
	if err == nil {
		next.Synced = position
		err = next.write(s.fs)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.manifest = next
	s.mu.Unlock()
	s.removeOld()
	return nil
}

// removeOld removes the files that a store no longer needs. An error costs space only.
func (s *store) removeOld() {
	l, err := list(s.fs)
	for _, n := range l.segments {
		if n < s.manifest.Segment {
			err = errors.Join(err, s.fs.Remove(segmentName(n)))
		}
	}
	for _, n := range l.checkpoints {
		if n != s.manifest.Checkpoint {
			err = errors.Join(err, s.fs.Remove(checkpointName(n)))
		}
	}
	if err != nil {
		s.opts.Logger.Warn("durable: files that are not needed remain", "error", err)
	}
}

// checkpointer makes a checkpoint whenever the log is full, until the store is closed.
func (s *store) checkpointer(ctx context.Context) {
	defer close(s.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.full:
		}
		if err := s.checkpoint(ctx); err != nil && ctx.Err() == nil {
			s.opts.Logger.Error("durable: no checkpoint; the log keeps everything", "error", err)
		}
	}
}
