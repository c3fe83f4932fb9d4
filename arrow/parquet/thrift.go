package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// errThrift reports bytes that are not a structure of Thrift's compact protocol.
var errThrift = errors.New("damaged metadata")

// unmarshal decodes the structure at the start of b into v and returns its length.
// [io.ErrUnexpectedEOF] means that b is truncated. The decoder allocates lists of the length that b
// states, so a walker first checks that b contains all elements.
func unmarshal(b []byte, v any) (n int, err error) {
	w := walker{b: b}
	if w.structure(0); w.err != nil {
		return 0, w.err
	}
	var protocol thrift.CompactProtocol
	if err := thrift.NewDecoder(protocol.NewReaderFromBytes(b[:w.at])).Decode(v); err != nil {
		return 0, fmt.Errorf("%w: %w", errThrift, err)
	}
	return w.at, nil
}

// walker skips values of the compact protocol. Missing bytes set err.
type walker struct {
	b   []byte
	at  int
	err error
}

// maxNesting bounds the nesting of structures. Parquet's metadata has about eight levels.
const maxNesting = 32

// Types of the compact protocol, which precede fields and list elements.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftDouble = 7
	thriftBytes  = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
)

func (w *walker) structure(depth int) {
	if depth > maxNesting {
		w.err = errThrift
	}
	for w.err == nil {
		head := w.byte()
		if head == 0 {
			return
		}
		if head>>4 == 0 {
			w.uvarint() // number of the field
		}
		// The type of a boolean field is its value, and no bytes follow.
		if t := head & 15; t != thriftTrue && t != thriftFalse {
			w.value(t, depth)
		}
	}
}

// value skips a value of type t. Boolean fields have no value to skip, but boolean list elements
// do.
func (w *walker) value(t byte, depth int) {
	switch {
	case t == thriftTrue || t == thriftFalse || t == thriftByte:
		w.skip(1)
	case t < thriftDouble:
		w.uvarint()
	case t == thriftDouble:
		w.skip(8)
	case t == thriftBytes:
		w.skip(w.uvarint())
	case t == thriftList || t == thriftSet:
		head := w.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = w.uvarint()
		}
		for ; n > 0 && w.err == nil; n-- {
			w.value(head&15, depth+1)
		}
	case t == thriftMap:
		n := w.uvarint()
		if n == 0 {
			return
		}
		for types := w.byte(); n > 0 && w.err == nil; n-- {
			w.value(types>>4, depth+1)
			w.value(types&15, depth+1)
		}
	case t == thriftStruct && depth < maxNesting:
		w.structure(depth + 1)
	default:
		w.err = errThrift
	}
}

func (w *walker) byte() byte {
	if w.skip(1); w.err != nil {
		return 0
	}
	return w.b[w.at-1]
}

func (w *walker) uvarint() uint64 {
	if w.err != nil {
		return 0
	}
	v, n := binary.Uvarint(w.b[w.at:])
	switch {
	case n == 0:
		w.err = io.ErrUnexpectedEOF
	case n < 0:
		w.err = errThrift
	}
	w.at += max(n, 0)
	return v
}

func (w *walker) skip(n uint64) {
	switch {
	case w.err != nil:
	case n > uint64(len(w.b)-w.at):
		w.err = io.ErrUnexpectedEOF
	default:
		w.at += int(n)
	}
}
