package join

import (
	"math/rand/v2"

	"github.com/weftgo/weft/internal/core"
)

// MinMemory is the least Options.Memory of a [Join], in bytes.
const MinMemory = 16 << 20

// Options configure an [Index] or a [Join]. The zero value and nil are good defaults.
type Options struct {
	// NullsMatch makes null a key that equals null. In keys of several columns, this holds for each
	// column. By default, as in SQL, a row with a null in a key column matches nothing.
	NullsMatch bool

	// Piece is the maximum number of pairs that [Index.Inner], [Index.Left] and [Join] yield at a
	// time. Default 262,144 pairs, whose 2 MiB stay in cache.
	Piece int

	// Memory bounds, in bytes, the memory of a [Join]: its right rows, their index, and batches in
	// progress. It is at least MinMemory. Rows beyond it go to a temporary file. A single row may
	// exceed the bound, and columns of the caller do not count. Default 0: no bound, and no file
	// below 2^32 rows. For [InnerOn] it bounds the memory of the device. An [Index] has no bound.
	Memory int64

	// TempDir is the directory of the temporary file. The file has no name there and ends with the
	// process. The directory must not be in memory. Default: $TMPDIR, or /var/tmp if that is not
	// set.
	TempDir string
}

const defaultPiece = 1 << 18

// check returns the options with defaults filled in, or an error if they are invalid.
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
		err = core.Invalid("an Index does not use Memory and TempDir; a Join does")
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

// seed returns a random seed of the hash, so that no caller can prepare colliding keys. Results of
// joins do not depend on it.
func seed() uint64 { return rand.Uint64() }
