package linear

import (
	"log/slog"
	"math"

	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/enum"
	"github.com/weftgo/weft/internal/op"
)

// Options configure a [Map] or a [Set]. The zero value and nil select the defaults.
type Options struct {
	// Capacity is the number of keys that fit without growing. The default is 0: the table starts
	// at one line and grows. A fixed table requires it.
	Capacity int

	// MaxLoad is the share of slots in use, live or dead, at which the table grows. For a fixed
	// table, it is the share of slots that Capacity keys fill. The default is 0.8. Up to there a
	// lookup that finds its key takes about one memory access. At 0.9 a search for an absent key
	// reads three to six lines, at 0.97 dozens. Beyond 32 lines, or 4 KiB, a table leaves one slot
	// in 32 free whatever MaxLoad says, and one in 16 if slots have 16 bytes.
	MaxLoad float64

	// Fixed tables never grow or shrink. They take Capacity keys, and more until only the slots
	// that MaxLoad may not use are left. Keys beyond that are dropped, and the call returns
	// weft.ErrFull. Refusing a key costs as much as looking it up: 17 to 33 lines on average, 4096
	// at most. Where keys come and go, tombstones are dropped within the table's memory before they
	// make searches long. An iteration under way postpones that.
	Fixed bool

	// Tombstones is the deletion scheme. The default is Keep.
	Tombstones Tombstones

	// Unordered drops the promise that duplicates within a batch have the outcome of batch order;
	// any one of them wins. It saves a GPU the search for duplicates. The CPU keeps the order
	// either way.
	Unordered bool

	// Seed keys the hash. The default 0 selects a random seed, so that colliding keys cannot be
	// prepared. Two tables of one seed, size and history are equal byte for byte on a CPU.
	Seed uint64

	// Logger receives growth, shrinking and rehashes at debug level. The default is silent.
	Logger *slog.Logger
}

// Tombstones is the scheme for slots of deleted keys.
type Tombstones int

const (
	// Keep reserves the slot for its key, as in the article's main design. The key may return to
	// it, other keys never take it, and inserts, deletes and lookups may run together in any way.
	// The next rehash drops the dead slots of keys that do not return.
	Keep Tombstones = iota
	// Reuse gives the slot to any new key, as in the article's second design. It is best when
	// different keys come and go. Batches of inserts reuse slots, mixed batches do not.
	Reuse
)

var tombstones = enum.Names[Tombstones]{Type: "linear.Tombstones", Names: []string{"Keep", "Reuse"}, Err: op.ErrOptions}

// String returns the name of the scheme.
func (t Tombstones) String() string { return tombstones.String(t) }

// MarshalText returns String as bytes, or weft.ErrOptions for an unknown value.
func (t Tombstones) MarshalText() ([]byte, error) { return tombstones.Text(t) }

// UnmarshalText parses a name in upper or lower case, so flag.TextVar accepts it.
func (t *Tombstones) UnmarshalText(text []byte) error { return tombstones.Read(t, text) }

const (
	defaultMaxLoad = 0.8
	minMaxLoad     = 0.001
	// shrinkShare is a share of the load limit: a table shrinks when deletes leave fewer keys. It
	// is far enough from one half that keys that come and go a few at a time do not make the table
	// grow and shrink in turns. A table that is emptied and filled in turns should be cleared
	// instead, or given a Capacity.
	shrinkShare = 1.0 / 8
)

// check fills in defaults and rejects invalid options.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.MaxLoad == 0 {
		c.MaxLoad = defaultMaxLoad
	}
	switch {
	case !(c.MaxLoad >= minMaxLoad && c.MaxLoad <= 1): // also NaN
		return c, core.Invalid("MaxLoad %v is not in [%v, 1]", c.MaxLoad, minMaxLoad)
	case c.Tombstones != Keep && c.Tombstones != Reuse:
		return c, core.Invalid("no such scheme of tombstones: %d", c.Tombstones)
	}
	return c, core.Defaults(c.Capacity, c.Fixed, &c.Seed, &c.Logger)
}

// linesFor returns the number of lines in which n keys stay within a load. ok is false if no table
// is that large.
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

// keysAt returns the number of keys that a table of lines holds up to a load.
func keysAt(lines uint32, load float64, slotBytes int) int {
	perLine := lineBytes / slotBytes
	return min(core.MaxUsed(int(lines)*perLine, load), maxKeys(lines, perLine))
}
