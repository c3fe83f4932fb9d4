package join

import (
	"math/rand/v2"

	"github.com/weftgo/weft/internal/core"
)

// MinMemory is the least Options.Memory, in bytes.
const MinMemory = 16 << 20

// Options configure an [Index] or a [Join]. The zero value and nil are good defaults.
type Options struct {
	// NullsMatch makes null a key like any other, equal to null. In a key of several columns, this
	// holds column by column. By default, as in SQL, a row with a null in a key column has no key,
	// and matches nothing.
	NullsMatch bool

	// Piece is the maximum number of pairs that [Index.Inner], [Index.Left] and [Join] yield at a
	// time. Default 262,144: 2 MiB, which stay in cache.
	Piece int

	// Memory bounds, in bytes, the memory of a [Join]: its right rows, their index, and batches in
	// progress. Rows beyond it go to a temporary file. A single row of any size is held, and the
	// columns of the caller come on top. At least MinMemory; default 0: no bound, and no file below
	// 2^32 rows. For [InnerOn] it bounds the memory of the device. An [Index] has no bound.
	Memory int64

	// TempDir is the directory of the temporary file, which has no name there and ends with the
	// process. It must not be in memory. Default: $TMPDIR, or /var/tmp where that is not set.
	TempDir string
}

const defaultPiece = 1 << 18

// check fills in defaults and reports invalid options.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Piece < 0 {
		return c, core.Invalid("Piece %d is negative", c.Piece)
	}
	if c.Piece == 0 {
		c.Piece = defaultPiece
	}
	return c, nil
}

// checkIndex is check for an Index.
func (o *Options) checkIndex() (Options, error) {
	c, err := o.check()
	if err == nil && (c.Memory != 0 || c.TempDir != "") {
		err = core.Invalid("an Index has no Memory and no TempDir; a Join has")
	}
	return c, err
}

// checkJoin is check for a Join.
func (o *Options) checkJoin(kind Kind) (Options, error) {
	c, err := o.check()
	if err != nil {
		return c, err
	}
	if _, err := kind.MarshalText(); err != nil {
		return c, err
	}
	if c.Memory != 0 && c.Memory < MinMemory {
		return c, core.Invalid("Memory is %d, want 0 or at least %d", c.Memory, MinMemory)
	}
	return c, nil
}

// seed returns a random key of the hash, so that keys cannot be prepared to collide. The results of
// joins do not depend on it.
func seed() uint64 { return rand.Uint64() }
