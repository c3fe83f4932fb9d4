package spill

import (
	"sync/atomic"
	"syscall"
)

// Fault is a fault that a [Faulty] injects into a Disk.
type Fault int

// The faults. Their errors are EIO, as from a device, and ENOSPC, as from a full file system.
const (
	WriteError    Fault = iota // ENOSPC, nothing written
	WriteShort                 // ENOSPC, half of the bytes written
	WriteSilent                // half of the bytes written, and no error
	WriteDropped               // nothing written, and no error
	WriteCorrupt               // one bit written wrong
	WriteMisplace              // written over the block before
	ReadError                  // EIO
	ReadShort                  // half of the bytes read, and no error
	ReadCorrupt                // one bit read wrong
	TruncateError              // EIO
	CloseError                 // EIO, but the file is closed
	Faults                     // the number of faults
)

// Faulty is a Disk that fails at operation number At, from 0 on. Only the operations to which the
// fault applies count: writes, reads, truncations or closes. It serves tests of this package and of
// its callers.
type Faulty struct {
	Disk
	Fault Fault
	At    int64
	Done  atomic.Bool // the fault has happened

	count atomic.Int64
}

// countOp counts an operation to which the faults between two values apply. It reports whether the
// operation fails.
func (f *Faulty) countOp(from, to Fault) bool {
	if f.Fault < from || f.Fault > to || f.count.Add(1)-1 != f.At {
		return false
	}
	f.Done.Store(true)
	return true
}

// WriteAt implements io.WriterAt.
func (f *Faulty) WriteAt(b []byte, offset int64) (int, error) {
	if !f.countOp(WriteError, WriteMisplace) {
		return f.Disk.WriteAt(b, offset)
	}
	switch f.Fault {
	case WriteShort, WriteSilent:
		n, err := f.Disk.WriteAt(b[:len(b)/2], offset)
		if err == nil && f.Fault == WriteShort {
			err = syscall.ENOSPC
		}
		return n, err
	case WriteDropped:
		return len(b), nil
	case WriteCorrupt:
		bad := append([]byte(nil), b...)
		bad[int(f.At)%len(bad)] ^= 1 << (f.At % 8)
		return f.Disk.WriteAt(bad, offset)
	case WriteMisplace:
		return f.Disk.WriteAt(b, max(offset-int64(len(b)), 0))
	}
	return 0, syscall.ENOSPC
}

// ReadAt implements io.ReaderAt.
func (f *Faulty) ReadAt(b []byte, offset int64) (int, error) {
	fails := f.countOp(ReadError, ReadCorrupt)
	switch {
	case fails && f.Fault == ReadError:
		return 0, syscall.EIO
	case fails && f.Fault == ReadShort:
		return f.Disk.ReadAt(b[:len(b)/2], offset)
	}
	n, err := f.Disk.ReadAt(b, offset)
	if fails && n > 0 {
		b[int(f.At)%n] ^= 1 << (f.At % 8)
	}
	return n, err
}

// Truncate implements Disk.
func (f *Faulty) Truncate(size int64) error {
	if f.countOp(TruncateError, TruncateError) {
		return syscall.EIO
	}
	return f.Disk.Truncate(size)
}

// Close implements io.Closer.
func (f *Faulty) Close() error {
	err := f.Disk.Close()
	if f.countOp(CloseError, CloseError) {
		return syscall.EIO
	}
	return err
}
