package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftgo/weft/internal/core"
)

// checkpoint writes the table to a file and makes it the beginning of the store. The log before is
// removed. Changes continue meanwhile, except those of a multimap.
//
// The file may hold changes that came while it was written. The log has them, too, and replaying
// their effects gives the same table. A multimap would have the pairs twice, so its checkpoint
// holds the writer lock.
func (s *store) checkpoint(ctx context.Context) error {
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
	began := time.Now()
	next := s.manifest
	next.Checkpoint++
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
	if s.table.Kind == core.MultiMap {
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
	return removeOld(s.fs, next)
}

// removeOld removes the files that a store no longer needs.
func removeOld(fs fileSystem, m manifest) error {
	l, err := list(fs)
	for _, n := range l.segments {
		if n < m.Segment {
			err = errors.Join(err, fs.Remove(segmentName(n)))
		}
	}
	for _, n := range l.checkpoints {
		if n != m.Checkpoint {
			err = errors.Join(err, fs.Remove(checkpointName(n)))
		}
	}
	return err
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
			// The log keeps everything. The next attempt comes when it has grown as much again.
			s.opts.Logger.Error("durable: no checkpoint", "error", err)
			s.mu.Lock()
			s.checkpointErr = err
			s.mu.Unlock()
			s.log.mu.Lock()
			s.log.bytes, s.log.sinceFull = 0, false
			s.log.mu.Unlock()
		}
	}
}
