package gphash

import (
	"context"
	"fmt"
	"io"

	"github.com/weftgo/weft/internal/core"
)

// A saved stream contains only pairs. It does not depend on the pool's hash function, seed, levels
// or sizes. So it can move an index to a pool with other options, or serve as a backup.

// byteStrings are the types of keys and values in an Index and in Strings.
var byteStrings = core.Types{Key: core.Bytes, Val: core.Bytes}

// Save writes all pairs to a stream, with checksums, and returns the number of pairs. An Index or
// [Strings] can load the stream if it allows the lengths of the keys and values. Save may include
// or miss concurrent changes.
func (x *Index) Save(ctx context.Context, w io.Writer) (n int, err error) {
	return x.core.Save(ctx, nil, w)
}

// Load inserts the pairs that Save of an Index or of [Strings] wrote, as Put would, and returns
// their number. It returns [weft.ErrFormat] if the stream is damaged, was not written by Save, or
// has a key or value of another length. Pairs before the error stay inserted. Load reads no byte
// after the end of the saved stream.
func (x *Index) Load(ctx context.Context, r io.Reader) (n int, err error) {
	return x.core.Load(ctx, r)
}

// Save writes all pairs to a stream and returns their number. See [Index.Save].
func (x *Strings) Save(ctx context.Context, w io.Writer) (n int, err error) {
	return x.core.Save(ctx, nil, w)
}

// Load inserts the pairs of a saved stream and returns their number. See [Index.Load].
func (x *Strings) Load(ctx context.Context, r io.Reader) (n int, err error) {
	return x.core.Load(ctx, r)
}

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
