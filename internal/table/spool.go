package table

import (
	"errors"
	"io"
	"math"
	"os"
	"sync"

	"github.com/weftgo/weft/internal/spill"
)

// spool copies a stream to an unnamed temporary file while it is read, so that it can be read
// again. If the disk is full, or the stream too long, it discards the copy. If standard input is a
// file, it needs no copy.
type spool struct {
	max       int64
	file      *os.File // nil if no copy is kept
	base      int64    // offset in file of the start of the stream
	temporary bool     // file is a temporary one

	readMu sync.Mutex // held while reading raw, which may block forever
	raw    io.Reader

	mu   sync.Mutex // protects file, size and err
	size int64      // number of bytes read
	err  error      // error or io.EOF that raw returned
}

// newSpool returns a spool with its file in dir. If files there take memory, it copies at most
// maxBytes.
func newSpool(raw io.Reader, dir string, maxBytes int64) *spool {
	s := &spool{raw: raw, max: maxBytes}
	if f, ok := raw.(*os.File); ok {
		info, err := f.Stat()
		at, seekErr := f.Seek(0, io.SeekCurrent)
		if err == nil && seekErr == nil && info.Mode().IsRegular() && info.Size() > at {
			// Move to the end, so that later readers of the input find nothing.
			if end, err := f.Seek(0, io.SeekEnd); err == nil {
				s.file, s.base, s.size, s.err = f, at, end-at, io.EOF
				return s
			}
		}
	}
	if f, inMemory, err := spill.OpenTemp(dir); err == nil {
		s.file, s.temporary = f, true
		if !inMemory {
			s.max = math.MaxInt64
		}
	}
	return s
}

// rereadable reports whether the stream can be read again from its start.
func (s *spool) rereadable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file != nil
}

func (s *spool) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil && s.temporary {
		s.file.Close()
		s.file = nil
	}
}

// keep stores the result of a read of raw.
func (s *spool) keep(b []byte, err error) {
	s.mu.Lock()
	full := s.size+int64(len(b)) > s.max
	if s.file != nil && !full && len(b) > 0 {
		_, writeErr := s.file.WriteAt(b, s.size)
		full = writeErr != nil
	}
	s.size += int64(len(b))
	s.err = err
	s.mu.Unlock()
	if full {
		s.drop()
	}
}

func (s *spool) reader() io.Reader { return &spoolReader{s: s} }

type spoolReader struct {
	s  *spool
	at int64
}

var errSpool = errors.New("a stream of this length cannot be read again: write it to a file first")

// Read reads from the copy, or from the stream after the end of the copy.
func (r *spoolReader) Read(b []byte) (int, error) {
	n, done, err := r.kept(b)
	if !done {
		r.s.readMu.Lock()
		defer r.s.readMu.Unlock()
		if n, done, err = r.kept(b); !done { // another reader may have read the stream meanwhile
			n, err = r.s.raw.Read(b)
			r.s.keep(b[:n], err)
		}
	}
	r.at += int64(n)
	return n, err
}

// kept reads from the copy. done is false if the stream must be read.
func (r *spoolReader) kept(b []byte) (n int, done bool, err error) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.at == s.size:
		return 0, s.err != nil, s.err
	case s.file == nil:
		return 0, true, errSpool
	}
	n, err = s.file.ReadAt(b[:min(int64(len(b)), s.size-r.at)], s.base+r.at)
	return n, true, err
}
