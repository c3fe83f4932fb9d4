// Package seal writes streams in parts, each followed by its CRC. All saved structures use it.
package seal

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
)

// Castagnoli is the polynomial of all checksums.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a stream until an error, which it keeps.
type Writer struct {
	Err error
	to  *bufio.Writer
}

// NewWriter returns a writer with a buffer of size bytes.
func NewWriter(to io.Writer, size int) Writer { return Writer{to: bufio.NewWriterSize(to, size)} }

// Sealed writes the parts, followed by one CRC over all of them.
func (w *Writer) Sealed(parts ...[]byte) {
	var crc uint32
	for _, p := range parts {
		crc = crc32.Update(crc, Castagnoli, p)
		w.Plain(p)
	}
	w.Plain(binary.LittleEndian.AppendUint32(nil, crc))
}

// Plain writes a part without a CRC: the part carries a checksum of its own.
func (w *Writer) Plain(b []byte) {
	if w.Err == nil {
		_, w.Err = w.to.Write(b)
	}
}

// Flush ends the stream and returns the first error.
func (w *Writer) Flush() error {
	if w.Err == nil {
		w.Err = w.to.Flush()
	}
	return w.Err
}
