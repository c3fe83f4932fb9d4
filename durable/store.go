package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/core"
)

// Structure is any map, set, multimap, ordered map, graph or table of ids of this module.
type Structure interface{ Close() error }

// store is the journal of a structure: its log, and the checkpoints that replace the log.
type store struct {
	*log
	fs    fileSystem
	opts  Options
	table core.Logged
	lock  io.Closer
	found Recovery

	cancel context.CancelFunc // ends the goroutine that makes checkpoints
	ended  chan struct{}      // closed when that goroutine has returned

	// holds a token while a checkpoint is under way; guards the next three fields
	checkpoints    chan struct{}
	lastSegment    uint64
	lastCheckpoint uint64
	closed         bool

	mu            sync.Mutex
	manifest      manifest
	checkpointErr error // error of the last checkpoint; nil if it succeeded
}

// Open opens the store in folder dir, or creates one, and returns its content as a structure. make
// returns an empty structure of this module, such as a *linear.Map. Open fills it with the content
// of the store and makes its later changes durable. Closing the structure closes the store, too.
//
//	m, err := durable.Open(ctx, "visits", func() (*linear.Map[uint64, uint64], error) {
//		return linear.New[uint64, uint64](dev, nil)
//	}, durable.Options{})
//
// Open returns [weft.ErrFormat] if the store holds another kind of structure or other types, and
// [weft.ErrCorrupt] if the store is damaged; see Options.Repair. It returns [ErrLocked] if the
// store is already open, and [weft.ErrOptions] if a structure of fixed size is too small.
func Open[M Structure](ctx context.Context, dir string, make func() (M, error), opts Options) (m M, err error) {
	if opts, err = opts.check(); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return m, fmt.Errorf("durable: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil { // the program may change its directory
		return m, fmt.Errorf("durable: %w", err)
	}
	if err := makeDir(dir); err != nil {
		return m, fmt.Errorf("durable: %w", err)
	}
	lock, err := osDir(dir).lock(false)
	if err != nil {
		return m, fmt.Errorf("durable: %w", err)
	}
	returned := false
	defer func() {
		if !returned { // make or Progress panics
			lock.Close()
		}
	}()
	m, err = open(ctx, osDir(dir), lock, make, opts)
	if returned = true; err != nil {
		return m, fmt.Errorf("durable: %s: %w", dir, err)
	}
	return m, nil
}

// open implements Open on any file system. If it fails, it releases lock, the lock on the folder.
func open[M Structure](ctx context.Context, fs fileSystem, lock io.Closer, make func() (M, error), opts Options) (m M, err error) {
	var none M
	if m, err = make(); err != nil {
		return none, errors.Join(err, lock.Close())
	}
	s := &store{fs: fs, opts: opts, lock: lock, table: core.LoggedOf(m), checkpoints: newToken()}
	if s.table != nil && s.table.Journal() != nil {
		return none, errors.Join(fmt.Errorf("%w: the structure is that of an open store",
			weft.ErrOptions), lock.Close())
	}
	if err = s.recover(ctx); err != nil {
		return none, errors.Join(err, m.Close(), lock.Close())
	}
	s.start()
	if s.found.Damage != "" { // what is left is whole from now on
		if err = s.checkpoint(ctx); err != nil {
			return none, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// newToken returns a lock that callers take by sending, so that a context can end the wait. (It is
// a function because Open has a parameter named make.)
func newToken() chan struct{} { return make(chan struct{}, 1) }

// shapeOf returns the shape of a structure, or an error if a store cannot hold the structure.
func shapeOf(t core.Logged) (shape, error) {
	if t == nil {
		return shape{}, fmt.Errorf("%w: it takes a map, set, multimap, ordered map, graph or table of ids",
			weft.ErrOptions)
	}
	s, err := t.Shape()
	if err == nil && t.Len() > 0 {
		err = fmt.Errorf("%w: the structure is not empty", weft.ErrOptions)
	}
	return shape{Shape: s}, err
}

// recover fills the table with the content of the store and begins a new segment of the log.
func (s *store) recover(ctx context.Context) error {
	shape, err := shapeOf(s.table)
	if err != nil {
		return err
	}
	l, err := list(s.fs)
	if err != nil {
		return err
	}
	for _, name := range l.temporary {
		if err := s.fs.Remove(name); err != nil {
			return err
		}
	}
	if !l.manifest {
		return s.create(shape, l)
	}
	if s.manifest, err = readManifest(s.fs, shape); err != nil {
		return err
	}
	shape.store = s.manifest.Store
	return s.restore(ctx, shape, l)
}

// create creates an empty store. It removes the files of a creation that a power failure
// interrupted.
func (s *store) create(shape shape, l listing) error {
	if len(l.checkpoints) > 0 || len(l.segments) > 1 {
		return fmt.Errorf("%w: %s is missing", weft.ErrCorrupt, manifestName)
	}
	for _, n := range l.segments {
		data, err := readFile(s.fs, segmentName(n))
		if err == nil && len(bytes.Trim(data[min(segmentHeader, len(data)):], "\x00")) > 0 {
			err = fmt.Errorf("%w: %s is missing, and %s holds changes", weft.ErrCorrupt,
				manifestName, segmentName(n))
		}
		if err == nil {
			err = s.fs.Remove(segmentName(n))
		}
		if err != nil {
			return err
		}
	}
	shape.store = newSalt(0)
	segment, err := createSegment(s.fs, shape, firstNumber, firstNumber, nil)
	if err != nil {
		return err
	}
	s.manifest = newManifest(shape)
	s.manifest.Segment, s.manifest.Sequence = firstNumber, firstNumber
	if err = s.manifest.write(s.fs); err != nil {
		return errors.Join(err, segment.Close())
	}
	s.lastSegment, s.lastCheckpoint = firstNumber, firstNumber-1
	s.log = newLog(shape, s.opts, segment, firstNumber-1)
	return nil
}

// firstNumber is the first number of segments, checkpoints and frames. Tests raise it.
var firstNumber uint64 = 1

// restore loads the checkpoint, replays the log, and begins a new segment of the log.
func (s *store) restore(ctx context.Context, shape shape, l listing) error {
	found, err := s.load(ctx, shape, l)
	if err != nil {
		return err
	}
	s.lastCheckpoint = s.manifest.Checkpoint
	for _, n := range l.checkpoints {
		s.lastCheckpoint = max(s.lastCheckpoint, n)
	}
	return s.resume(shape, found, l.segments[len(l.segments)-1]+1)
}

// load loads the checkpoint and replays the log. It changes no file.
func (s *store) load(ctx context.Context, shape shape, l listing) (found scan, err error) {
	m := s.manifest
	segments, err := m.segments(l)
	if err != nil {
		return found, err
	}
	fs := s.watch(segments)
	found, err = scanLog(fs, shape, segments, m.Sequence, m.Synced)
	if err = s.tolerate(err); err != nil {
		return found, err
	}
	s.found.Torn, s.found.Lost = found.torn, found.lost
	s.found.Pairs, err = loadCheckpoint(ctx, fs, m, s.table)
	if err = s.tolerate(err); err != nil {
		return found, err
	}
	s.found.LostPairs = max(0, m.Pairs-s.found.Pairs)
	p := &player{ctx: ctx, table: s.table, joins: shape.Joins}
	if err = p.replay(found, fs, shape, m.Sequence, &s.found); err == nil {
		fs.add(fs.total) // what was left is space after the last frame
	}
	return found, err
}

// tolerate returns nil if Options.Repair allows the error, and records the damage for [Status]. It
// returns other errors unchanged.
func (s *store) tolerate(err error) error {
	if !s.opts.Repair || !errors.Is(err, weft.ErrCorrupt) {
		return err
	}
	s.opts.Logger.Warn("durable: repair drops what is damaged", "damage", err)
	if s.found.Damage != "" {
		s.found.Damage += "; "
	}
	s.found.Damage += err.Error()
	return nil
}

// resume begins a new segment of the log. It writes the changes that may not be on the disk to the
// new segment, because after a failed sync the system may show frames that the disk does not have.
// Earlier segments receive no more frames.
func (s *store) resume(shape shape, found scan, number uint64) error {
	segment, err := createSegment(s.fs, shape, number, found.boundary+1, func(seg *segment) error {
		s.log = newLog(shape, s.opts, seg, found.boundary)
		return found.each(s.fs, shape, found.boundary+1, found.complete,
			func(f *frame) error { return s.log.Append(&f.Effect) })
	})
	if err != nil {
		return err
	}
	s.lastSegment = number
	s.log.synced = s.log.appended // createSegment has synced them
	s.log.bytes = 0
	s.log.grow(s.found.Bytes) // those of the new segment included
	if found.lost > 0 {
		s.manifest.Synced = found.complete
		if err := s.manifest.write(s.fs); err != nil {
			return errors.Join(err, segment.Close())
		}
	}
	s.removeOld()
	s.opts.Logger.Info("durable: recovered", "pairs", s.table.Len(), "checkpoint", s.found.Pairs,
		"changes", s.found.Changes, "bytes", s.found.Bytes, "torn", s.found.Torn, "lost", s.found.Lost)
	return nil
}

// start makes the store the journal of its table and starts the goroutines that sync and make
// checkpoints.
func (s *store) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.ended = cancel, make(chan struct{})
	s.table.SetJournal(s)
	go s.log.run()
	go s.checkpointer(ctx)
}

// Close implements core.Journal.
func (s *store) Close() error {
	s.cancel()
	<-s.ended
	s.checkpoints <- struct{}{}
	defer func() { <-s.checkpoints }()
	s.closed = true
	err := s.log.close()
	if err == nil { // the promise that nothing is missing
		s.manifest.Synced = s.log.Position()
		err = s.manifest.write(s.fs)
	}
	return errors.Join(err, s.lock.Close())
}

func storeOf(m Structure) (*store, error) {
	if t := core.LoggedOf(m); t != nil {
		if s, ok := t.Journal().(*store); ok {
			return s, nil
		}
	}
	return nil, fmt.Errorf("durable: %w: the structure was not opened by this package",
		weft.ErrOptions)
}

// Checkpoint writes a checkpoint now, so that the next Open is quick and the log is small. Stores
// write checkpoints by themselves when the log reaches Options.LogLimit.
func Checkpoint(ctx context.Context, m Structure) error {
	s, err := storeOf(m)
	if err == nil {
		if err = s.checkpoint(ctx); err != nil {
			err = fmt.Errorf("durable: %w", err)
		}
	}
	return err
}

// Info describes an open store.
type Info struct {
	Recovery   Recovery
	LogBytes   int64  // bytes of frames that no checkpoint has replaced
	Frames     uint64 // number of frames appended since the store was created
	Synced     uint64 // number of these frames that are on the disk
	Pairs      int    // number of pairs in the last checkpoint
	Checkpoint error  // error of the last checkpoint, or nil if it succeeded
	Failure    error  // ErrFailed, if the store has failed
}

// Status returns the state of the store of a structure that Open has returned.
func Status(m Structure) (Info, error) {
	s, err := storeOf(m)
	if err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	info := Info{Recovery: s.found, Pairs: s.manifest.Pairs, Checkpoint: s.checkpointErr, Failure: s.log.err()}
	s.mu.Unlock()
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	info.LogBytes, info.Frames, info.Synced = s.log.bytes, s.log.appended, s.log.synced
	return info, nil
}
