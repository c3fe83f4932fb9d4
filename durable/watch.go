package durable

import (
	"log/slog"
	"time"
)

// watchedFS counts the bytes that are read from a folder, and reports them.
type watchedFS struct {
	fileSystem
	done, total int64
	report      func(done, total int64) // or nil
	logger      *slog.Logger
	next        time.Time // of the next message
}

// messagePeriod is the time between two messages about a store that is being read.
const messagePeriod = 2 * time.Second

// watch returns the folder of a store that is about to be read: its checkpoint once, its log twice.
func (s *store) watch(segments []uint64) *watchedFS {
	w := &watchedFS{fileSystem: s.fs, report: s.opts.Progress, logger: s.opts.Logger}
	w.next = time.Now().Add(messagePeriod)
	w.total = sizeOf(s.fs, checkpointName(s.manifest.Checkpoint))
	for _, n := range segments {
		w.total += 2 * sizeOf(s.fs, segmentName(n))
	}
	return w
}

// sizeOf returns the size of a file, or 0 if the file cannot be read.
func sizeOf(fs fileSystem, name string) (size int64) {
	f, err := fs.Open(name)
	if err != nil {
		return 0
	}
	defer f.Close()
	size, _ = f.Size()
	return size
}

func (w *watchedFS) Open(name string) (file, error) {
	f, err := w.fileSystem.Open(name)
	if err != nil {
		return nil, err
	}
	return watchedFile{f, w}, nil
}

type watchedFile struct {
	file
	fs *watchedFS
}

func (f watchedFile) ReadAt(b []byte, at int64) (n int, err error) {
	n, err = f.file.ReadAt(b, at)
	f.fs.add(int64(n))
	return n, err
}

func (w *watchedFS) add(n int64) {
	w.done = min(w.done+n, w.total) // damaged files are read more often
	if w.report != nil {
		w.report(w.done, w.total)
	}
	if now := time.Now(); now.After(w.next) {
		w.next = now.Add(messagePeriod)
		w.logger.Info("durable: reading", "bytes", w.done, "of", w.total)
	}
}
