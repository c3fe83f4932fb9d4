// Package seal writes streams that consist of parts, each followed by its CRC. All saved structures
// use this format.
package seal

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
)

// Castagnoli is the CRC-32 table for all checksums.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a stream. After the first error, which Err holds, it writes nothing more.
type Writer struct {
	Err error
	to  *bufio.Writer
}

// NewWriter returns a writer with a buffer of size bytes.
func NewWriter(to io.Writer, size int) Writer { return Writer{to: bufio.NewWriterSize(to, size)} }

// Sealed writes the parts in one piece, followed by one CRC of all of them.
func (w *Writer) Sealed(parts ...[]byte) {
	var crc uint32
	for _, p := range parts {
		crc = crc32.Update(crc, Castagnoli, p)
		w.Plain(p)
	}
	w.Plain(binary.LittleEndian.AppendUint32(nil, crc))
}

// Plain writes data without a CRC. Use it for data that contains a checksum.
func (w *Writer) Plain(b []byte) {
	if w.Err == nil {
		_, w.Err = w.to.Write(b)
	}
}

// Flush writes the buffered data and returns the first error of the stream.
func (w *Writer) Flush() error {
	if w.Err == nil {
		w.Err = w.to.Flush()
	}
	return w.Err
}
