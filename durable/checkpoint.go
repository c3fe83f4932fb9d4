package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftgo/weft"
)

// checkpoint writes the structure to a file from which the next Open begins, and removes the log
// before it. The structure decides whether changes continue meanwhile; see core.Logged. If so, the
// file may hold changes that ran while it was written, which the log has, too.
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
	if err != nil {
		err = fmt.Errorf("checkpoint: %w", err)
	}
	if errors.Is(err, errRenamed) { // which files have their names on the disk is unknown
		err = s.log.Fail(err)
	}
	s.log.checkpointed(err == nil)
	s.mu.Lock()
	s.checkpointErr = err
	s.mu.Unlock()
	return err
}

// replaceLog implements checkpoint. The caller ensures that no other checkpoint is under way.
func (s *store) replaceLog(ctx context.Context) error {
	began := time.Now()
	s.lastCheckpoint++
	segment, err := createSegment(s.fs, s.log.shape, s.lastSegment+1, 0, nil)
	if err != nil {
		return err
	}
	s.lastSegment++ // only now: a number that is missing is corruption
	next, rotated := s.manifest, false
	next.Checkpoint, next.Segment = s.lastCheckpoint, s.lastSegment
	err = s.table.Checkpoint(ctx, func(nextID uint64) error {
		if err := s.log.err(); err != nil {
			return err
		}
		next.Sequence, next.NextID = s.log.Position()+1, nextID
		s.log.rotate(segment)
		rotated = true
		return nil
	}, func(write func(io.Writer) (int, error)) error { return s.save(&next, write) })
	if !rotated {
		return errors.Join(err, segment.Close())
	}
	if err == nil {
		err = s.publish(ctx, next)
	}
	if err == nil {
		s.opts.Logger.Info("durable: checkpoint", "pairs", next.Pairs, "took", time.Since(began))
	}
	return err
}

// save writes the file of a checkpoint and stores the number of its rows in the manifest.
func (s *store) save(next *manifest, write func(io.Writer) (int, error)) error {
	return writeFile(s.fs, checkpointName(next.Checkpoint), func(f file) (err error) {
		next.Pairs, err = write(&steadyWriter{file: f})
		return err
	})
}

// steadyWriter writes a file from its beginning and syncs it every syncBytes. A file that is synced
// only at its end fills the memory of the system with unwritten pages, and writes to the log then
// wait for the disk.
type steadyWriter struct {
	file
	at, synced int64
}

const syncBytes = 16 << 20

func (w *steadyWriter) Write(b []byte) (n int, err error) {
	n, err = w.WriteAt(b, w.at)
	if w.at += int64(n); err == nil && w.at-w.synced >= syncBytes {
		w.synced, err = w.at, w.Sync()
	}
	return n, err
}

// publish makes a checkpoint the beginning of the store. Before that, it syncs the log up to all
// changes that the checkpoint may hold. Otherwise a change that a power failure removes from the
// log could come back, in part, with the checkpoint.
func (s *store) publish(ctx context.Context, next manifest) error {
	var position uint64
	err := s.table.Locked(ctx, func() error {
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

// removeOld removes the files that the store no longer needs. If that fails, the files only take
// space.
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

// checkpointer makes a checkpoint whenever the log reaches Options.LogLimit, until the store is
// closed.
func (s *store) checkpointer(ctx context.Context) {
	defer close(s.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.log.full:
		}
		if err := s.checkpoint(ctx); err != nil && ctx.Err() == nil {
			s.opts.Logger.Error("durable: no checkpoint; the log keeps everything", "error", err)
		}
	}
}
