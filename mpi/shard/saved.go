package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/seal"
)

// savedRows is the maximum number of pairs in a frame of a saved structure.
const savedRows = 1 << 18

// readSaved reads a saved structure and passes the pairs of each frame to visit. Package
// internal/core documents the format.
func readSaved[K weft.Key, V any](
	from io.Reader, kind core.Kind, types core.Types, visit func(keys []K, vals []V) error,
) error {
	r := savedReader{from: from}
	want := append([]byte("WEFTTAB1"), byte(kind), types.Key.Letter, types.Key.Bits,
		types.Val.Letter,
		types.Val.Bits, 0, 0, 0)
	head := make([]byte, len(want))
	if r.read(head); r.seal() && !bytes.Equal(head, want) {
		return fmt.Errorf("%w: it begins with %q, want %q", weft.ErrFormat, head, want)
	}
	keys, vals := make([]K, savedRows), make([]V, savedRows)
	var count [4]byte
	for r.err == nil {
		r.read(count[:])
		n := int(binary.LittleEndian.Uint32(count[:]))
		if r.err != nil || n == 0 {
			break
		}
		if n > savedRows {
			return fmt.Errorf("%w: a frame of %d pairs", weft.ErrFormat, n)
		}
		r.read(raw(keys[:n]))
		r.read(raw(vals[:n]))
		if r.seal() {
			r.err = visit(keys[:n], vals[:n])
		}
	}
	var total [8]byte
	r.read(total[:])
	r.seal()
	return r.err
}

// savedReader reads a stream up to the first error, which it stores.
type savedReader struct {
	from io.Reader
	crc  uint32
	err  error
}

// read reads bytes that the next checksum covers.
func (r *savedReader) read(b []byte) {
	if r.err != nil {
		return
	}
	if _, r.err = io.ReadFull(r.from, b); errors.Is(r.err, io.EOF) ||
		errors.Is(r.err, io.ErrUnexpectedEOF) {
		r.err = fmt.Errorf("%w: it ends early", weft.ErrFormat)
	}
	r.crc = crc32.Update(r.crc, seal.Castagnoli, b)
}

// seal reads a checksum and compares it. It reports whether no error has occurred so far.
func (r *savedReader) seal() bool {
	want := r.crc
	var b [4]byte
	r.read(b[:])
	if r.err == nil && binary.LittleEndian.Uint32(b[:]) != want {
		r.err = fmt.Errorf("%w: a checksum does not match", weft.ErrFormat)
	}
	r.crc = 0
	return r.err == nil
}
