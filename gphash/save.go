package gphash

import (
	"context"
	"fmt"
	"io"

	"github.com/weftgo/weft/internal/core"
)

// A saved stream does not depend on the pool: it has no hash function or seed, no levels, no sizes.
// So it moves an index to a pool with other options, or backs up the pairs and nothing else.

// byteStrings are the types of an index.
var byteStrings = core.Types{Key: core.Bytes, Val: core.Bytes}

// Save writes all pairs to a stream, with checksums, and returns their number. An Index or
// [Strings] loads the stream if the lengths of its keys and values fit. Concurrent changes may be
// included or not.
func (x *Index) Save(ctx context.Context, w io.Writer) (n int, err error) {
	return x.core.Save(ctx, nil, w)
}

// Load adds what Save of an Index or of [Strings] wrote, as Put would, and returns the number of
// pairs. It returns [weft.ErrFormat] for a damaged stream, one not written by Save, or one with a
// key or value of another length. Pairs before the error have been added. It reads no byte after
// what Save wrote.
func (x *Index) Load(ctx context.Context, r io.Reader) (n int, err error) {
	return x.core.Load(ctx, r)
}

// Save is [Index.Save].
func (x *Strings) Save(ctx context.Context, w io.Writer) (n int, err error) {
	return x.core.Save(ctx, nil, w)
}

// Load is [Index.Load].
func (x *Strings) Load(ctx context.Context, r io.Reader) (n int, err error) {
	return x.core.Load(ctx, r)
}

// validatePair returns what is wrong with the lengths of a key and a value.
func (e *engine) validatePair(key, value int) error {
	for _, column := range []struct {
		name    string
		length  int
		allowed lengths
	}{{"key", key, e.keyLength()}, {"value", value, e.valueLength()}} {
		if !column.allowed.contains(column.length) {
			return fmt.Errorf("the %s has %d bytes, not %v", column.name, column.length, column.allowed)
		}
	}
	if e.records() {
		return e.values.validateRecord(key, value)
	}
	return nil
}
