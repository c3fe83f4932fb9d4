package gphash

import (
	"context"
	"fmt"
	"io"

	"github.com/weftgo/weft/internal/core"
)

// What Save writes has nothing of the pool that it comes from: no hash function or seed, no
// levels, no sizes. So it is how an index moves to a pool with other options, or into a backup
// of what is there, and nothing else.

// byteStrings are the types of an index.
var byteStrings = core.Types{Key: core.Bytes, Val: core.Bytes}

// Save writes all pairs to a stream, with checksums, and returns their number. An index loads
// them, or [Strings], if keys and values of these lengths fit it. Changes made meanwhile may be
// in it or not.
func (x *Index) Save(ctx context.Context, w io.Writer) (n int, err error) {
	return x.core.Save(ctx, nil, w)
}

// Load adds what Save of an index or of [Strings] wrote, as Put would, and returns the number
// of pairs. [weft.ErrFormat] for a stream that is damaged, is none of Save, or has a key or a value of
// another length; what came before that has been added. It reads no byte behind what Save wrote.
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

// fits says what is wrong with the lengths of a key and a value.
func (e *engine) fits(key, value int) error {
	for _, of := range []struct {
		what string
		n    int
		may  lengths
	}{{"key", key, e.keyLength()}, {"value", value, e.valueLength()}} {
		if !of.may.has(of.n) {
			return fmt.Errorf("the %s has %d bytes, not %v", of.what, of.n, of.may)
		}
	}
	if e.records() {
		return e.values.takes(key, value)
	}
	return nil
}
