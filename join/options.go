package join

import (
	"math/rand/v2"

	"github.com/weftgo/weft/internal/core"
)

// Options configure an [Index]. The zero value and nil are good defaults.
type Options struct {
	// NullsMatch makes null a key like any other, equal to null: in a key of
	// several columns, column by column. By default, as in SQL, a row with a null
	// in a key column has no key, and matches nothing.
	NullsMatch bool

	// Piece is the number of pairs that [Index.Inner] and [Index.Left] yield at
	// most at a time. Default 262,144: 2 MiB, which stay in cache.
	Piece int
}

const defaultPiece = 1 << 18

// check fills in defaults and reports what makes no sense.
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

// seed keys the hash, so that nobody can prepare keys that collide. What joins return does
// not depend on it.
func seed() uint64 { return rand.Uint64() }
