package linear

import (
	"log/slog"
	"math"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Options configures a [Map] or a [Set]. nil and the zero value select the defaults.
type Options struct {
	// Capacity is the number of keys that the table holds without growing. With the default 0, the
	// table starts with one line and grows. A fixed table requires a Capacity.
	Capacity int

	// MaxLoad is the fraction of slots in use, live or dead, at which the table grows. In a fixed
	// table, it is the fraction of slots that Capacity keys fill. The default is 0.8. Up to that
	// load, a lookup that finds its key takes about one memory access. A search for an absent key
	// reads three to six lines at load 0.9, and dozens at 0.97. A table of more than 32 lines (4
	// KiB) always leaves one slot in 32 free, or one in 16 if slots have 16 bytes.
	MaxLoad float64

	// Fixed makes a table that never grows or shrinks. It takes at least Capacity keys, until only
	// the slots that must stay free are left. Further keys are dropped, and the call returns
	// weft.ErrFull. Rejecting a key costs as much as looking it up: 17 to 33 lines on average, and
	// at most 4096. If keys come and go, the table drops tombstones within its own memory before
	// they make searches long. A running iteration postpones that.
	Fixed bool

	// Tombstones selects what happens to the slots of deleted keys. The default is Keep.
	Tombstones Tombstones

	// Unordered makes any one of several duplicates within a batch win, instead of the one that
	// batch order determines. It saves a GPU the search for duplicates. A CPU keeps the order in
	// any case.
	Unordered bool

	// Seed seeds the hash. The default 0 selects a random seed, so that an attacker cannot prepare
	// colliding keys. On a CPU, two tables with the same seed, size and history are equal byte for
	// byte.
	Seed uint64

	// Logger receives debug messages about growth, shrinking and rehashes. By default nothing is
	// logged.
	Logger *slog.Logger
}

// Tombstones is a scheme for the slots of deleted keys.
type Tombstones int

const (
	// Keep reserves the slot of a deleted key for that key, as in the article's main design. Other
	// keys never take the slot, so inserts, deletes and lookups may run together without
	// restriction. The next rehash drops the dead slots of keys that have not returned.
	Keep Tombstones = iota
	// Reuse makes the slot available to any new key, as in the article's second design. It is best
	// if different keys come and go. Batches of inserts reuse slots; mixed batches do not.
	Reuse
)

var tombstones = enum.Names[Tombstones]{Type: "linear.Tombstones", Names: []string{"Keep", "Reuse"}, Err: op.ErrOptions}

// String returns the name of the scheme.
func (t Tombstones) String() string { return tombstones.String(t) }

// MarshalText returns the name of the scheme, or weft.ErrOptions for an unknown value.
func (t Tombstones) MarshalText() ([]byte, error) { return tombstones.Text(t) }

// UnmarshalText sets t to the scheme with the given name, in upper or lower case. So flag.TextVar
// accepts it.
func (t *Tombstones) UnmarshalText(text []byte) error { return tombstones.Read(t, text) }

const (
	defaultMaxLoad = 0.8
	minMaxLoad     = 0.001
	// shrinkShare is a fraction of MaxLoad. A table shrinks when a delete leaves its load below
	// this fraction. It is so far below one half that a table does not alternately grow and shrink
	// when a few keys come and go. A table that is emptied and filled repeatedly should be cleared
	// instead, or have a Capacity.
	shrinkShare = 1.0 / 8
)

// check returns the options with defaults filled in, or an error if they are invalid.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.MaxLoad == 0 {
		c.MaxLoad = defaultMaxLoad
	}
	switch {
	case !(c.MaxLoad >= minMaxLoad && c.MaxLoad <= 1): // also rejects NaN
		return c, core.Invalid("MaxLoad %v is not in [%v, 1]", c.MaxLoad, minMaxLoad)
	case c.Tombstones != Keep && c.Tombstones != Reuse:
		return c, core.Invalid("unknown Tombstones %d", c.Tombstones)
	}
	return c, core.Defaults(c.Capacity, c.Fixed, &c.Seed, &c.Logger)
}

// linesFor returns the number of lines that a table needs to hold n keys at the given load. ok is
// false if the largest table has fewer lines.
func linesFor(n uint64, load float64, slotBytes int) (lines uint32, ok bool) {
	perLine := float64(lineBytes / slotBytes)
	exact := math.Ceil(float64(n) / load / perLine)
	if exact > maxLines {
		return 0, false
	}
	lines = max(uint32(exact), 1)
	for keysAt(lines, load, slotBytes) < int(n) {
		missing := int(n) - keysAt(lines, load, slotBytes)
		if lines += uint32(max(missing/int(perLine), 1)); lines > maxLines {
			return 0, false
		}
	}
	return lines, true
}

// keysAt returns the maximum number of keys in a table with the given number of lines and load.
func keysAt(lines uint32, load float64, slotBytes int) int {
	perLine := lineBytes / slotBytes
	return min(core.MaxUsed(int(lines)*perLine, load), maxKeys(lines, perLine))
}
